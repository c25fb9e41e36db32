"""`python -m tests.parity`: does the tree at work answer its commands as the old tree did?

`record --tree DIR` runs all commands with the tree in a folder and records its answers, and the vectors of all texts.
Without a command the tree at work runs them, and what differs is printed. `mutants` tells which of the errors in
`tests.parity.mutants` are seen.
"""

import argparse
import hashlib
import json
import lzma
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.parity import running
from tests.parity.commands import COMMANDS
from tests.parity.comparing import Intended, differences

ROOT = running.KIT.parents[1]
RECORDED = running.KIT / "recorded.json.xz"
MOST_SHOWN = 12


def main() -> int:
    """Parse and run; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.parity", description=__doc__)
    parser.add_argument("command", nargs="?", choices=["compare", "record", "mutants"], default="compare")
    parser.add_argument("--tree", type=Path, default=ROOT, metavar="DIR", help="whose code (default: this checkout)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these commands (or mutants) alone")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder of Cranfield: run its commands, too")
    parser.add_argument("--all", action="store_true", help="show every difference")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="parity-") as folder:
        if given.command == "mutants":
            from tests.parity.mutants import try_mutants

            return try_mutants(ROOT, given.only, recorded(), Path(folder))
        known = [one.name for one in COMMANDS if given.data or one.world != "cranfield"]
        if unknown := sorted({*(given.only or ())} - {*known}):
            parser.error(f"no command {', '.join(unknown)}; there are {', '.join(known)}")
        names = given.only or known
        if given.command == "record":
            return record(given.tree.resolve(), names, given.data, Path(folder))
        return compare(given.tree.resolve(), names, given.data, Path(folder), given.all, whole=not given.only)


def record(tree: Path, names: Sequence[str], data: Path | None, folder: Path) -> int:
    """Record the answers of a tree, and the vectors of the texts; those of other commands stay."""
    answers = {**(recorded() if RECORDED.is_file() else {}), **run(tree, names, data, folder)}
    kept = {one.name: answers[one.name] for one in COMMANDS if one.name in answers}
    text = json.dumps(kept, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    RECORDED.write_bytes(lzma.compress(text.encode(), preset=9))
    running.write_vectors(running.read_vectors() | running.missing_vectors(folder))
    print(f"{len(names)} commands recorded: {RECORDED.stat().st_size / 1e6:.1f} MB")  # noqa: T201
    return 0


def compare(tree: Path, names: Sequence[str], data: Path | None, folder: Path, shown: bool, *, whole: bool) -> int:
    """Print what differs from the recorded answers; return 1 if anything does that is not intended."""
    started = time.monotonic()
    old, new, intended = recorded(), run(tree, names, data, folder), Intended()
    found = {name: differences(name, old[name], new[name], intended) for name in names if name in old}
    lines = [f"{name}: is not recorded" for name in names if name not in old]
    goes = {one.name: one.goes for one in COMMANDS if one.goes}
    for name, told in found.items():
        if told and name in goes and not intended.end(name):
            lines.append(
                f"{name}: shows what is to go ({goes[name]}); once it has gone, Ends({name!r}, …) says how it ends"
            )
        lines += [f"{name}: {one}" for one in (told if shown else told[:MOST_SHOWN])]
        lines += [f"{name}: … {len(told) - MOST_SHOWN} more (--all)"] if told[MOST_SHOWN:] and not shown else []
    if whole:
        lines += [f"stale: nothing needs {entry}" for entry in intended.stale()]
    if missing := running.missing_vectors(folder):
        lines.append(f"{len(missing)} texts were not recorded: the model embedded them")
    failed = sum(map(bool, found.values()))
    lines.append(f"{len(names)} commands, {failed} differ, {time.monotonic() - started:.0f} s")
    print("\n".join(lines))  # noqa: T201
    return int(len(lines) > 1)


def run(tree: Path, names: Sequence[str], data: Path | None, folder: Path) -> dict[str, Any]:
    """Return the answers of a tree; of texts from outside the project their hashes in place of the words."""
    answers = running.answers(tree, names, data, folder)
    outside = {one.name for one in COMMANDS if one.world == "cranfield"}
    return {name: without_words(one) if name in outside else {**one, "seconds": 0} for name, one in answers.items()}


def without_words(value: Any) -> Any:
    """Return a value in which every text of several words is a hash."""
    if isinstance(value, Mapping):
        return {key: 0 if key == "seconds" else without_words(one) for key, one in value.items()}
    if isinstance(value, list):
        return [without_words(one) for one in value]
    if isinstance(value, str) and " " in value:
        return hashlib.sha256(value.encode()).hexdigest()[:16]
    return value


def recorded() -> dict[str, Any]:
    """Return the recorded answers by the name of the command."""
    if not RECORDED.is_file():
        sys.exit("parity: nothing is recorded yet: python -m tests.parity record --tree DIR")
    loaded: dict[str, Any] = json.loads(lzma.decompress(RECORDED.read_bytes()))
    return loaded


if __name__ == "__main__":
    sys.exit(main())

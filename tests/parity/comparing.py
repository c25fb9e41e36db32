"""Two answers to one command, and what differs but for the intended differences."""

import fnmatch
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

from tests.parity.intended import ADDED, CHANGED, ENDS, FILES, GONE, LEAVES, LINES, WENT, Ends, File, Leaf, Line

Leaves = Mapping[str, Any]
SCORES = re.compile(
    r"score|cosine|similar|confiden|semantic|keyword|weighted|rrf|dbsf|mmr|rerank|threshold|nearest|auroc"
)
"""Paths of the search's scores and of what is computed from them; the other numbers are compared more closely."""
MISSING = "(missing)"


@dataclass(frozen=True, kw_only=True)
class Intended:
    """The entries that hold, and those that some difference has needed.

    Attributes:
        ends: By the name of the command.
        leaves: In the order in which they are tried.
        lines: As `leaves`.
        files: As `leaves`.
        needed: Grows while answers are compared.
    """

    ends: Sequence[Ends] = ENDS
    leaves: Sequence[Leaf] = LEAVES
    lines: Sequence[Line] = LINES
    files: Sequence[File] = FILES
    needed: set[Ends | Leaf | Line | File] = field(default_factory=set)

    def stale(self) -> list[Ends | Leaf | Line | File]:
        """Return the entries that nothing has needed."""
        entries: list[Ends | Leaf | Line | File] = [*self.ends, *self.leaves, *self.lines, *self.files]
        return [one for one in entries if one not in self.needed]

    def end(self, name: str) -> Ends | None:
        """Return how a command ends now, if otherwise than it did."""
        return next((one for one in self.ends if one.name == name), None)

    def covers(self, entries: Iterable[Leaf | File], name: str, path: str, *to: str) -> bool:
        """Return True if an entry names a path of a command; note it."""
        for entry in entries:
            if fnmatch.fnmatchcase(name, entry.only) and fnmatch.fnmatchcase(path, entry.path.replace("[", "[[]")):
                if not to or (isinstance(entry, Leaf) and entry.to in to):
                    self.needed.add(entry)
                    return True
        return False

    def renamed(self, name: str, old: Leaves, new: Leaves) -> dict[str, Any]:
        """Return the old leaves under their new paths, where the new tree has these."""
        found = dict(old)
        for entry in self.leaves:
            if entry.to in (GONE, ADDED, CHANGED) or not fnmatch.fnmatchcase(name, entry.only):
                continue
            pattern = re.compile("(.*)".join(map(re.escape, entry.path.split("*"))) + r"\Z")
            for path in list(found):
                if fits := pattern.match(path):
                    parts = iter(fits.groups())
                    target = re.sub(r"\*", lambda _, parts=parts: next(parts), entry.to)  # type: ignore[misc]
                    if target in new:
                        found[target] = found.pop(path)
                        self.needed.add(entry)
        return found


def differences(name: str, old: Mapping[str, Any], new: Mapping[str, Any], intended: Intended) -> list[str]:
    """Return what differs between the answers of the trees to one command, a line each."""
    if end := intended.end(name):
        intended.needed.add(end)
        return _otherwise(end, new)
    found = []
    for number, (before, now) in enumerate(zip(old["steps"], new["steps"], strict=True), start=1):
        step = f"step {number}: " if len(old["steps"]) > 1 else ""
        for what in ("code", "asked"):
            if before[what] != now[what]:
                found.append(
                    f"{step}{'exit code' if what == 'code' else 'questions to the judge'} {before[what]} → {now[what]}"
                )
        for what in ("out", "err"):
            found += [f"{step}std{what} {one}" for one in _lines(name, before[what], now[what], intended)]
    for file in sorted(old["files"].keys() | new["files"].keys()):
        before, now = old["files"].get(file), new["files"].get(file)
        if before is None or now is None:
            if not intended.covers(intended.files, name, file):
                found.append(f"{file} {'is new' if before is None else 'is not written any more'}")
        elif "lines" in before and "lines" in now:
            found += [f"{file} {one}" for one in _lines(name, before["lines"], now["lines"], intended)]
    return found + _leaves(name, _all_leaves(old), _all_leaves(new), intended)


def _otherwise(end: Ends, new: Mapping[str, Any]) -> list[str]:
    for step in new["steps"]:
        if step["code"] == end.code and any(re.search(end.line, line) for line in _joined(step["out"], step["err"])):
            return []
    codes = [step["code"] for step in new["steps"]]
    said = [line for step in new["steps"] for line in (*step["err"], *step["out"])][:3]
    return [f"expected exit code {end.code} and a line like {end.line!r}, got {codes} and {said}"]


def _joined(*parts: Sequence[str]) -> list[str]:
    """Return the lines, and each text as one line, since messages are wrapped."""
    return [*(line for part in parts for line in part), *(" ".join(part) for part in parts)]


def _all_leaves(answer: Mapping[str, Any]) -> dict[str, Any]:
    found = _flat(answer["mlflow"], "mlflow")
    for number, step in enumerate(answer["steps"], start=1):
        found |= _flat(step["leaves"], f"stdout of step {number}") if "leaves" in step else {}
    for name, file in answer["files"].items():
        if "leaves" in file:
            found |= _flat(file["leaves"], name)
    return found


def _flat(value: Any, root: str) -> dict[str, Any]:
    def walk(one: Any, path: str) -> Iterator[tuple[str, Any]]:
        inner = one.items() if isinstance(one, dict) else enumerate(one) if isinstance(one, list) else None
        if inner is None or not one:
            yield path, one
        else:
            for key, below in inner:
                yield from walk(below, f"{path}{'' if path.endswith(':') else '.'}{key}")

    return dict(walk(value, f"{root}:"))


def _leaves(name: str, old: Leaves, new: Leaves, intended: Intended) -> list[str]:
    old = intended.renamed(name, old, new)
    differing: dict[str, list[str]] = {}
    for path in sorted(old.keys() | new.keys()):
        before, now = old.get(path, MISSING), new.get(path, MISSING)
        if _same(path, before, now):
            continue
        kind = ADDED if path not in old else GONE if path not in new else CHANGED
        if not intended.covers(intended.leaves, name, path, kind):
            told = f"{path} {_short(before)} → {_short(now)}"
            differing.setdefault(re.sub(r"\.\d+(?=\.|$)", ".*", path), []).append(told)
    return [f"{one[0]}{f' (and {len(one) - 1} more like this)' if one[1:] else ''}" for one in differing.values()]


def _same(path: str, before: Any, now: Any) -> bool:
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in (before, now))
    if not numbers or (isinstance(before, int) and isinstance(now, int)):
        return bool(before == now)
    tolerance = 1e-6 if SCORES.search(path) else 1e-9
    return bool(abs(before - now) <= tolerance * max(1.0, abs(before)))


def _lines(name: str, old: Sequence[str], new: Sequence[str], intended: Intended) -> list[str]:
    if old == new:
        return []
    held = [one for one in intended.lines if fnmatch.fnmatchcase(name, one.only)]
    before, now = [WENT.sub("", line) for line in old], list(new)
    if (begin := "Before and after") in before:  # the reference's part of a page went
        del before[before.index(begin) : before.index("Against the baseline")]
    for entry in held:
        kept = [[line for line in lines if not re.search(entry.pattern, line)] for lines in (before, now)]
        if (len(kept[0]), len(kept[1])) != (len(before), len(now)):
            intended.needed.add(entry)
            before, now = kept
    matcher = SequenceMatcher(None, before, now, autojunk=False)
    blocks = [block for block in matcher.get_opcodes() if block[0] != "equal"]
    return [
        f"{sign} {_short(line)}"
        for _, a, b, c, d in blocks
        for sign, line in (*(("-", one) for one in before[a:b]), *(("+", one) for one in now[c:d]))
    ]


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 140 else f"{text[:140]}…"

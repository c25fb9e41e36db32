"""Commands as a user runs them: a process of its own, in a working directory of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Finished:
    """A default run that has ended, and where it left its files."""

    folder: Path
    code: int
    out: str
    err: str

    @property
    def report_file(self) -> Path:
        [file] = (self.folder / "mlruns" / "reports").iterdir()
        return file

    @property
    def report(self) -> dict[str, Any]:
        """The report, which is refused if it holds NaN or infinity."""
        loaded: dict[str, Any] = json.loads(self.report_file.read_text(encoding="utf-8"), parse_constant=_refuse)
        return loaded


def _refuse(constant: str) -> None:
    raise AssertionError(f"the report holds {constant}")


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a child: this test's own, the checkout to import from, and `extra`."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **(extra or {})}


def python(
    arguments: Sequence[str | object],
    folder: Path,
    extra: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run the interpreter and wait for it."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(
        command, cwd=folder, env=environment(extra), capture_output=True, text=True, check=False, timeout=600
    )


def default_run(folder: Path, runner: Sequence[str | object], extra: Mapping[str, str] | None = None) -> Finished:
    """Run the default experiment in an empty folder with its own store, so that the checkout's stays as it is."""
    done = python([*runner, "--retriever.store.path", folder / "store", "--log-file", "log.jsonl"], folder, extra)
    return Finished(folder, done.returncode, done.stdout, done.stderr)

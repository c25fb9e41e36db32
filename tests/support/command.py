"""Commands in this process and in one of their own, as a user runs them; folders that all workers share."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from retrievers.config.files import file_lock


@dataclass(frozen=True)
class Done:
    code: Any
    out: str
    err: str


def call(
    main: Callable[[Sequence[str]], int], arguments: Sequence[str | object], capsys: pytest.CaptureFixture[str]
) -> Done:
    capsys.readouterr()
    code: Any
    try:
        code = main([str(argument) for argument in arguments])
    except SystemExit as error:
        code = error.code
    said = capsys.readouterr()
    return Done(code, said.out, said.err)


def refusal(kind: type[Exception], called: Callable[..., object], *arguments: Any) -> str:
    with pytest.raises(kind) as caught:
        called(*arguments)
    return str(caught.value)


ROOT = Path(__file__).parents[2]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a child: this test's own, the checkout to import from, and `extra`."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **(extra or {})}


def python(
    arguments: Sequence[str | object], folder: Path, extra: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(
        command, cwd=folder, env=environment(extra), capture_output=True, text=True, check=False, timeout=600
    )


@contextmanager
def shared_folder(factory: pytest.TempPathFactory, worker_id: str, name: str) -> Iterator[Path]:
    """Yield a folder of that name, the same for every worker, held by one of them at a time."""
    base = factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / name
    with file_lock(folder.with_suffix(".lock")):
        folder.mkdir(exist_ok=True)
        yield folder

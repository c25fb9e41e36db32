"""`python -m retrievers` in processes of its own: exit codes, streams."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.collections import indexed

pytestmark = [pytest.mark.integration, pytest.mark.slow]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The flags that name a collection of pages in a folder."""
    config = indexed(tmp_path_factory.mktemp("command"))
    return ["--store.path", str(config.store.path), "--collection", "pages"]


def start(
    *arguments: str,
    folder: Path,
    stdout: int = subprocess.PIPE,
    env: Mapping[str, str] | None = None,
    warnings: str = "error",
) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-W", warnings, "-m", "retrievers", *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
    )


def finish(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, err = process.communicate(timeout=60)
    assert "Traceback" not in (err or "")
    return process.returncode, out or "", err or ""


def test_a_reader_that_goes_away_is_no_error(store: list[str], tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = start("search", "how do nodes stream messages", *store, folder=tmp_path, stdout=writing)
    os.close(writing)
    assert finish(process) == (0, "", "")


def test_a_terminal_that_knows_only_ascii_gets_question_marks(store: list[str], tmp_path: Path) -> None:
    query = "how do nodes stream messages"
    code, out, err = finish(start("search", query, *store, folder=tmp_path, env={"PYTHONIOENCODING": "ascii"}))
    assert (code, err) == (0, "")
    assert "ros2 ? topics ? Topics" in out


def test_an_interruption_ends_with_130(tmp_path: Path) -> None:
    """A server that accepts and never answers: the command waits until it is interrupted."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        flags = ("--store.url", address, "--store.timeout-s", "60")
        process = start("inspect", *flags, folder=tmp_path, warnings="ignore")  # of the socket left open
        connection, _ = silent.accept()
        process.send_signal(signal.SIGINT)
        assert finish(process) == (130, "", "interrupted\n")
        connection.close()

"""`retrieval-evals COMMAND`: the commands under one name."""

import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from evals.__main__ import COMMANDS, main
from tests.support.child import python
from tests.support.command import Done, call


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> Done:
    return call(main, arguments, capsys)


@pytest.mark.parametrize("name", COMMANDS)
def test_usage_and_errors_of_a_command_begin_with_the_one_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    usage, fault = shown(capsys, name, "--help"), shown(capsys, name, "--no-such-flag")
    assert (usage.code, fault.code) == (0, 2)
    assert usage.out.startswith(f"usage: retrieval-evals {name} ") and fault.err.startswith("retrieval-evals")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["run", "--list-metrics"], 0, "ranking/ndcg_at_5"),
        (["golden", "check", "no-such.jsonl"], 2, "no-such.jsonl"),
        (["serach", "--top-k", "3"], 2, "retrieval-evals: unknown command 'serach'; did you mean 'search'"),
        ([], 2, "required: COMMAND (see --help)"),
        (["--version"], 0, f"retrieval-evals {version('retrieval-evals')}\n"),
    ],
)
def test_the_exit_code_is_that_of_the_command(
    arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = shown(capsys, *arguments)
    assert done.code == code and said in (done.err if code else done.out)


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    done = shown(capsys, "--help")
    assert done.code == 0 and all(f"  {name:8} {about}" in done.out for name, (about, _) in COMMANDS.items())


def test_arguments_come_from_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["retrieval-evals", "run", "--list-metrics"])
    assert main() == 0


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["run", "--help"], ["search", "--help"]])
def test_help_loads_no_heavy_library(arguments: list[str], tmp_path: Path) -> None:
    done = python(["-X", "importtime", "-m", "evals", *arguments], tmp_path)
    assert done.returncode == 0
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not loaded & {"numpy", "ragas", "mlflow", "qdrant_client", "langchain_core", "datasets", "pandas"}

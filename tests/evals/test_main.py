"""`retrieval-evals COMMAND`: the commands under one name."""

import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from evals.__main__ import COMMANDS, main
from tests.support.child import python


def exits(*arguments: str) -> int | str | None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    return stopped.value.code


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_shows_its_own_usage_under_the_one_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exits(name, "--help") == 0
    assert capsys.readouterr().out.startswith(f"usage: retrieval-evals {name} ")


@pytest.mark.parametrize("name", COMMANDS)
def test_its_errors_begin_with_the_one_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exits(name, "--no-such-flag") == 2
    assert capsys.readouterr().err.startswith("retrieval-evals")


def test_the_exit_code_is_that_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--list-metrics"]) == 0
    assert "ranking/ndcg_at_5" in capsys.readouterr().out
    assert main(["golden", "check", "no-such.jsonl"]) == 2
    assert "no-such.jsonl" in capsys.readouterr().err


def test_an_unknown_command_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert exits("serach", "--top-k", "3") == 2
    assert capsys.readouterr().err.startswith("retrieval-evals: unknown command 'serach'; did you mean 'search'")


def test_without_a_command_one_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert exits() == 2
    assert "required: COMMAND (see --help)" in capsys.readouterr().err


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert exits("--help") == 0
    shown = capsys.readouterr().out
    assert all(f"  {name:8} {about}" in shown for name, (about, _) in COMMANDS.items())


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert exits("--version") == 0
    assert capsys.readouterr().out == f"retrieval-evals {version('retrieval-evals')}\n"


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

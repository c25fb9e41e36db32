"""The two helps of the command."""

import pytest

from evals.config.experiment import ExperimentConfig
from evals.run import USUAL, parser
from retrievers.config.layers import leaves


def shown(flag: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    with pytest.raises(SystemExit) as stopped:
        parser().parse_args([flag])
    assert stopped.value.code == 0
    return [word for line in capsys.readouterr().out.split("\n") if (word := line.strip().split(" ")[0])[:2] == "--"]


def test_help_shows_the_flags_that_people_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(USUAL) == 21
    assert sorted(shown("--help", capsys)) == sorted(USUAL)


def test_help_all_shows_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    flags = {f"--{name.replace('_', '-')}" for name in leaves(ExperimentConfig)} - {"--dataset.ids", "--dataset.limit"}
    assert flags | set(USUAL) - {"--help-all"} <= {flag.rstrip(",") for flag in shown("--help-all", capsys)}

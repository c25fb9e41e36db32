"""Names of earlier versions: each answers with one line that says what took its place, and exit code 2."""

import shlex
from importlib.resources import files
from pathlib import Path

import pytest
import yaml

from evals.__main__ import main
from tests.support.command import call

REMOVED: dict[str, str] = yaml.safe_load(
    files("retrievers.config").joinpath("removed.yaml").read_text(encoding="utf-8")
)
COMMANDS = [name for name in REMOVED if name.startswith("retrieval-evals ")]
FLAGS = [name for name in REMOVED if name.startswith("--")]
METRICS = [name for name in REMOVED if "/" in name]
SETTINGS = [name for name in REMOVED if name not in {*COMMANDS, *FLAGS, *METRICS}]
OF_EXPERIMENTS = ("judge", "sweep", "tracking", "objective", "index", "sources", "determinism", "latency")


def written(name: str) -> tuple[str, str]:
    """Return a setting's name in an experiment, and a value for it."""
    setting, _, value = name.partition("=")
    return setting if setting.partition(".")[0] in OF_EXPERIMENTS else f"retriever.{setting}", value or "1"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_subcommand_that_went_names_its_successor(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = call(main, [*shlex.split(name)[1:], "something"], capsys)

    assert result.code == 2
    assert result.err.count("\n") == 1
    assert REMOVED[name] in result.err


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_that_went_names_its_successor(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = call(main, ["run", "--metrics", name.replace("_at_K", "_at_5")], capsys)

    assert result.code == 2
    assert REMOVED[name] in result.err


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_that_went_names_its_successor_in_a_file_and_as_a_flag(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    setting, value = written(name)
    *above, last = setting.split(".")
    lines = [f"{'  ' * depth}{part}:" for depth, part in enumerate(above)]
    file = tmp_path / "old.yaml"
    file.write_text("\n".join([*lines, f"{'  ' * len(above)}{last}: {value}"]))

    for arguments in (["--config", str(file)], [f"--{setting.replace('_', '-')}", value]):
        result = call(main, ["run", *arguments], capsys)

        assert result.code == 2, result.out
        assert REMOVED[name] in result.err
        assert setting.removeprefix("retriever.").split(".")[0].replace("_", "-") in result.err.replace("_", "-")

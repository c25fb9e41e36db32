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
METRICS = [name for name in REMOVED if "/" in name]
SETTINGS = [name for name in REMOVED if name not in {*COMMANDS, *METRICS} and not name.startswith("--")]
OF_EXPERIMENTS = ("judge", "sweep", "tracking", "objective", "index", "sources", "determinism", "latency")
CALLS = {name: [*shlex.split(name)[1:], "something"] for name in COMMANDS} | {
    name: ["run", "--metrics", name.replace("_at_K", "_at_5")] for name in METRICS
}


@pytest.mark.parametrize("name", CALLS)
def test_a_subcommand_or_metric_that_went_names_its_successor(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = call(main, CALLS[name], capsys)
    assert (done.code, REMOVED[name] in done.err) == (2, True), done.err
    assert done.err.count("\n") == 1 or name in METRICS


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_that_went_names_its_successor_in_a_file_and_as_a_flag(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    setting, _, value = name.partition("=")
    first = setting.partition(".")[0]
    path = setting if first in OF_EXPERIMENTS else f"retriever.{setting}"
    *above, last = path.split(".")
    lines = [f"{'  ' * depth}{part}:" for depth, part in enumerate(above)]
    file = tmp_path / "old.yaml"
    file.write_text("\n".join([*lines, f"{'  ' * len(above)}{last}: {value or 1}"]))
    for arguments in (["--config", file], [f"--{path.replace('_', '-')}", value or "1"]):
        done = call(main, ["run", *arguments], capsys)
        assert (done.code, REMOVED[name] in done.err) == (2, True), done.err
        assert first.replace("_", "-") in done.err.replace("_", "-")

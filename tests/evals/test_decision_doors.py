"""What a run refuses before it begins, and on which data a threshold is fitted anew."""

import json
from pathlib import Path

import pytest
import yaml

from evals.run import main
from tests.support.experiment import make_experiment

OUTSIDE = [{"id": f"o{n}", "query": f"recipe number {n}", "in_scope": False} for n in range(12)]
QUIET = ("--tracking.enabled", "false", "--no-gate", "--metrics", "scope/*")


@pytest.fixture
def flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Make an experiment whose golden data has a split `dev`, and a retriever that was fitted on it."""
    monkeypatch.chdir(tmp_path)
    made = make_experiment(tmp_path)
    lines = [json.loads(text) for text in made.golden.read_text(encoding="utf-8").splitlines()]
    made.write_golden([{**case, "split": "dev"} for case in [*lines, *OUTSIDE]] + [{**OUTSIDE[0], "id": "other"}])
    flags = ["--config", str(made.config), *QUIET]
    fit = ["--dataset.split", "dev", "--threshold.false-answer", "0.5", "--export", "r.yaml", "--quiet"]
    assert main([*flags, *fit]) == 0
    return flags


def test_a_new_fit_is_on_the_data_of_the_old_one_unless_flags_name_others(
    flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, first = tmp_path / "r.yaml", (tmp_path / "r.yaml").read_text(encoding="utf-8")
    assert json.loads(first.splitlines()[0].removeprefix("# fitted: "))["dataset"] == {
        "path": str(tmp_path / "golden.jsonl"),
        "split": "dev",
    }
    assert main([*QUIET, "--refit", "r.yaml"]) == 0
    assert file.read_text(encoding="utf-8") == first
    # The experiment names all splits.
    assert main([*flags, "--refit", "r.yaml"]) == 2
    assert "--dataset.split" in capsys.readouterr().err
    assert main([*QUIET, "--refit", "r.yaml", "--retriever.top-k", "2", "--limit", "17", "--export", "b.yaml"]) == 0
    said = capsys.readouterr().out.splitlines()[-1]
    assert said.startswith("b.yaml: threshold")
    assert "dataset.limit None → 17" in said and "retriever.top_k 3 → 2" in said
    assert file.read_text(encoding="utf-8") == first
    assert yaml.safe_load((tmp_path / "b.yaml").read_text(encoding="utf-8"))["top_k"] == 2


@pytest.mark.parametrize(
    "given",
    [
        ("--threshold.false-answer", "0.5", "--retriever.threshold", "0.3"),
        ("--refit", "r.yaml", "--retriever.threshold", "0.3"),
        ("--output", "a/" * 1_000 + "report.json"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line_before_the_run(
    flags: list[str], given: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*flags, "--dataset.split", "dev", *given]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not (tmp_path / "a").exists()

"""A threshold that promises a rate of wrong answers, fitted while a sweep or a run is measured."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from langchain_core.documents import Document

from evals import Experiment, sweep
from evals.errors import ExperimentError
from evals.run import main
from evals.stats.abstention import promise
from tests.support.experiment import make_experiment

DOCUMENTS = [Document(page_content=f"chunk number {n}", metadata={"chunk_id": f"c{n}"}) for n in range(20)]


def scores(query: str) -> list[float]:
    """Scores of two digits, so that some are tied; those of `o…` are lower."""
    drawn, mean = random.Random(query), 0.4 if query.startswith("o") else 0.7
    made = (round(min(1, max(0, drawn.gauss(mean, 0.12))), 2) for _ in DOCUMENTS)
    return sorted((float(np.float32(score)) for score in made), reverse=True)  # as they are kept


def find(query: str) -> list[Any]:
    return list(zip(DOCUMENTS, scores(query), strict=True))


def golden(outside: int) -> list[dict[str, Any]]:
    inside = ({"id": f"i{n}", "query": f"in {n}", "relevant_ids": ["c1", "c3"]} for n in range(30))
    return [*inside, *({"id": f"o{n}", "query": f"out {n}", "in_scope": False} for n in range(outside))]


@pytest.mark.parametrize("rate", [0.5, 0.1])
def test_every_cell_has_the_threshold_that_the_best_scores_promise(rate: float) -> None:
    """That it is the lowest whose exact limit is within the rate: tests/evals/stats/test_abstention.py."""
    experiment = Experiment.load(None, {"threshold.false_answer": rate, "metrics": ["scope/*", "ranking/*"]})
    found = sweep(find, golden(40), top_k=[1, 5], experiment=experiment)
    inside, outside = ([scores(f"{kind} {n}")[0] for n in range(count)] for kind, count in (("in", 30), ("out", 40)))
    expected, grid = promise(inside, outside, rate, scale="cosine", among=1), found.report.grid
    assert grid is not None and expected.threshold is not None
    assert grid.cells.threshold == [expected.threshold] * 2
    wrong = sum(each >= expected.threshold for each in outside) / 40
    assert grid.metrics["scope/false_answer"].mean == [wrong] * 2
    assert any(expected.statement in note for note in found.report.notes)
    assert found.report.config["retriever"]["threshold"] == expected.threshold


@pytest.mark.parametrize(
    ("outside", "said"),
    [(20, "cannot promise at most 10% wrong answers; 29, all of them silent, could"), (0, "no out-of-scope query")],
)
def test_few_queries_promise_nothing_and_say_how_many_could(outside: int, said: str) -> None:
    with pytest.raises(ExperimentError, match=said):
        sweep(find, golden(outside), top_k=[1], experiment=Experiment.load(None, {"threshold.false_answer": 0.1}))


# The promise of a run, as a command

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


def test_an_exported_threshold_says_what_it_was_fitted_on_and_is_fitted_again_on_it_unless_flags_name_others(
    flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, first = tmp_path / "r.yaml", (tmp_path / "r.yaml").read_text(encoding="utf-8")
    fit = json.loads(first.splitlines()[0].removeprefix("# fitted: "))
    assert fit["dataset"] == {"path": str(tmp_path / "golden.jsonl"), "split": "dev"}
    assert fit["false_answer"] == 0.5 and fit["threshold"] == yaml.safe_load(first)["threshold"]
    capsys.readouterr()
    # The experiment names all splits.
    for experiment in (QUIET, flags):
        assert main([*experiment, "--refit", "r.yaml"]) == 0
        out = capsys.readouterr().out
        assert (
            f"r.yaml: threshold {fit['threshold']} as before" in out and "--refit r.yaml" in out.partition("Next: ")[2]
        )
        assert file.read_text(encoding="utf-8") == first
    assert main([*QUIET, "--refit", "r.yaml", "--retriever.top-k", "2", "--limit", "17", "--export", "b.yaml"]) == 0
    said = capsys.readouterr().out.splitlines()[-1]
    assert said.startswith("b.yaml: threshold")
    assert "dataset.limit None → 17" in said and "retriever.top_k 3 → 2" in said
    assert file.read_text(encoding="utf-8") == first
    assert yaml.safe_load((tmp_path / "b.yaml").read_text(encoding="utf-8"))["top_k"] == 2
    failing = ["--refit", "r.yaml", "--retriever.top-k", "2", "--criteria", "{scope/false_answer: '< 0'}"]
    assert main([one for one in QUIET if one != "--no-gate"] + failing) == 1
    assert "r.yaml: left as it was, as the run did not pass" in capsys.readouterr().out
    assert file.read_text(encoding="utf-8") == first
    file.write_text(first.split("\n", 1)[1], encoding="utf-8")
    assert main([*QUIET, "--refit", "r.yaml"]) == 2
    assert "# fitted:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--threshold.false-answer", "1.5"], "threshold.false_answer"),
        (["--threshold.false-answer", "0.3", "--sweep.threshold", "0.1,0.2"], "sweep.threshold"),
        (["--threshold.false-answer", "0.5", "--retriever.threshold", "0.3"], "retriever.threshold"),
        (["--refit", "r.yaml", "--retriever.threshold", "0.3"], "retriever.threshold"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line_before_the_run(
    flags: list[str], given: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*flags, "--dataset.split", "dev", *given]) == 2
    err = capsys.readouterr().err
    assert said in err and len(err.splitlines()) == 1
    assert not (tmp_path / "a").exists()

"""A threshold that promises a rate of wrong answers, fitted while a sweep or a run is measured."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from langchain_core.documents import Document
from scipy.stats import beta

from evals import Experiment, sweep
from evals.errors import ExperimentError
from evals.run import main
from tests.support.experiment import make_experiment

DOCUMENTS = [Document(page_content=f"chunk number {n}", metadata={"chunk_id": f"c{n}"}) for n in range(20)]


def scores(query: str) -> list[float]:
    """Scores of two digits, so that some are tied; those of `o…` are lower."""
    drawn, mean = random.Random(query), 0.4 if query.startswith("o") else 0.7
    made = (round(min(1, max(0, drawn.gauss(mean, 0.12))), 2) for _ in DOCUMENTS)
    return sorted((float(np.float32(score)) for score in made), reverse=True)  # as they are kept


def find(query: str) -> list[Any]:
    return list(zip(DOCUMENTS, scores(query), strict=True))


def golden(outside: int) -> list[dict[str, object]]:
    inside: list[dict[str, object]] = [
        {"id": f"i{n}", "query": f"in {n}", "relevant_ids": ["c1", "c3"]} for n in range(30)
    ]
    return [*inside, *({"id": f"o{n}", "query": f"out {n}", "in_scope": False} for n in range(outside))]


def lowest(best: Sequence[float], rate: float) -> int:
    """How many of the queries may be answered: the most whose exact 95% upper limit is at most the rate, else −1."""
    n = len(best)
    return max((k for k in range(n) if beta.ppf(0.95, k + 1, n - k) <= rate), default=-1)


@pytest.mark.parametrize("rate", [0.5, 0.25, 0.1])
def test_the_threshold_is_the_lowest_whose_exact_limit_is_within_the_rate(rate: float) -> None:
    cases = golden(40)
    experiment = Experiment.load(None, {"threshold.false_answer": rate, "metrics": ["scope/*", "ranking/*"]})
    found = sweep(find, cases, top_k=[1, 5], experiment=experiment)
    grid, best = found.report.grid, [scores(f"out {n}")[0] for n in range(40)]
    assert grid is not None
    [threshold] = {*grid.cells.threshold}
    assert threshold is not None
    allowed = lowest(best, rate)
    assert allowed >= 0
    assert sum(each >= threshold for each in best) <= allowed
    every = {*best, *(scores(f"in {n}")[0] for n in range(30))}
    below = max(each for each in every if each < threshold)
    assert sum(each >= below for each in best) > allowed  # one score further down would answer more
    assert grid.metrics["scope/false_answer"].mean == [sum(each >= threshold for each in best) / 40] * 2
    assert any(f"promises at most {100 * rate:.3g}% wrong answers" in note for note in found.report.notes)
    assert found.report.config["retriever"]["threshold"] == threshold


def test_few_queries_promise_nothing_and_say_how_many_could() -> None:
    experiment = Experiment.load(None, {"threshold.false_answer": 0.1})
    with pytest.raises(
        ExperimentError, match="cannot promise at most 10% wrong answers; 29, all of them silent, could"
    ):
        sweep(find, golden(20), top_k=[1], experiment=experiment)
    with pytest.raises(ExperimentError, match="no out-of-scope query"):
        sweep(find, golden(0), top_k=[1], experiment=experiment)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--threshold.false-answer", "1.5"], "threshold.false_answer"),
        (["--threshold.false-answer", "0.3", "--sweep.threshold", "0.1,0.2"], "sweep.threshold"),
    ],
)
def test_faults_are_named(flags: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*flags, "--plan"]) == 2
    assert said in capsys.readouterr().err


def test_an_exported_threshold_says_what_it_was_fitted_on_and_is_fitted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made = make_experiment(tmp_path)
    outside = [{"id": f"o{n}", "query": f"recipe number {n}", "in_scope": False} for n in range(12)]
    with made.golden.open("a", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(case)}\n" for case in outside)
    flags = ["--config", str(made.config), "--tracking.enabled", "false", "--no-gate"]
    assert main([*flags, "--threshold.false-answer", "0.5", "--export", "r.yaml", "--quiet"]) == 0
    first = (tmp_path / "r.yaml").read_text(encoding="utf-8")
    fit = json.loads(first.splitlines()[0].removeprefix("# fitted: "))
    assert fit["false_answer"] == 0.5 and fit["threshold"] == yaml.safe_load(first)["threshold"]
    capsys.readouterr()
    assert main([*flags, "--refit", "r.yaml"]) == 0
    assert f"r.yaml: threshold {fit['threshold']} as before" in capsys.readouterr().out
    assert (tmp_path / "r.yaml").read_text(encoding="utf-8") == first
    (tmp_path / "r.yaml").write_text(first.split("\n", 1)[1], encoding="utf-8")
    assert main([*flags, "--refit", "r.yaml"]) == 2
    assert "# fitted:" in capsys.readouterr().err

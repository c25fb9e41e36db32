"""A run against its baseline, and the baseline that is committed; what goes wrong after measuring loses nothing."""

import json
import re
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np
import pytest

from evals import Evaluation, compare_runs, evaluate
from evals.errors import ReportError
from evals.report.head import criteria_line
from evals.report.html.render import badge
from evals.report.parsing import parse
from evals.run import main
from retrievers.errors import ConfigError
from tests.support.command import call
from tests.support.experiment import CASES, Experiment, load_report, make_experiment, settings

METRICS = ("ranking/*", "scope/*")
COMMITTED = run_path(str(Path(__file__).parents[3] / ".ci" / "baseline.py"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """Ten queries of each kind: fewer shares have no interval."""
    experiment = make_experiment(tmp_path_factory.mktemp("baseline"))
    experiment.write_golden([{**case, "id": f"{case['id']}-{n}"} for n in range(10) for case in CASES])
    return experiment


@pytest.fixture(scope="module")
def whole(made: Experiment) -> Evaluation:
    found: Evaluation = evaluate(experiment=settings(made, metrics=METRICS))
    return found


@pytest.fixture(scope="module")
def baseline(made: Experiment, whole: Evaluation) -> Path:
    return whole.save(made.folder / "baseline.json")


def test_against_itself_every_headline_metric_is_no_worse(made: Experiment, baseline: Path) -> None:
    report = evaluate(experiment=settings(made, metrics=METRICS, baseline=str(baseline))).report
    compared = [one for one in report.criteria if one.condition == "no worse"]
    assert len(compared) > 5 and all(one.passed for one in compared) and report.passed
    assert report.baseline is not None and report.baseline.about.startswith("baseline.json: ")
    assert not [note for note in report.notes if "baseline" in note]
    assert criteria_line(report) == f"No worse than the baseline in {len(compared)} metrics."
    assert badge(report) == "no worse than the baseline"
    part = evaluate(experiment=settings(made, metrics=METRICS, baseline=str(baseline), dataset__limit=12)).report
    assert part.baseline is not None
    assert {one.wins + one.ties + one.losses for one in part.baseline.differences} <= {0, 4, 8, 12}


def test_a_metric_that_is_proved_worse_fails_and_one_that_is_not_passes(
    made: Experiment, baseline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--config", made.config, "--metrics", ",".join(METRICS), "--baseline", baseline]
    done = call(main, [*flags, "--retriever.threshold", "0.9"], capsys)
    assert done.code == 1
    assert "  FAIL ranking/hit_rate_at_3 no worse, got 0.000 (proved worse than 0.750 of the" in done.out
    assert "scope/false_answer" in done.out and "FAIL scope/false_answer" not in done.out
    assert call(main, [*flags, "--retriever.threshold", "0.9", "--no-gate"], capsys).code == 0
    assert call(main, flags, capsys).code == 0


def test_with_another_top_k_what_was_returned_is_compared_at_the_larger_one_as_if_nothing_followed(
    made: Experiment, whole: Evaluation, baseline: Path
) -> None:
    deep = [name for name in whole.report.scores if name.startswith("ranking/") and name.endswith("_at_3")]
    gated = set(deep) - {"ranking/precision_at_3"}
    less = settings(made, metrics=METRICS, retriever__top_k=1, baseline=str(baseline))
    named = evaluate(experiment=settings(made, metrics=(*METRICS, *deep), retriever__top_k=1)).report
    report = evaluate(experiment=less).report
    figures = {one.metric: (one.figure, one.passed) for one in report.criteria}
    assert gated <= figures.keys() - report.metrics.keys() and len(gated) == 6
    # As ranking metrics that are asked for by name.
    expected = {name: pytest.approx(named.metrics[name].value) for name in gated}
    assert {name: figures[name][0] for name in gated} == expected
    assert figures["ranking/recall_at_1"][1] and not figures["ranking/recall_at_3"][1] and not report.passed
    fewer = evaluate(experiment=less.model_copy(update={"baseline": None})).save(made.folder / "fewer.json")
    more = evaluate(experiment=settings(made, metrics=METRICS, baseline=str(fewer))).report
    assert more.baseline is not None and more.passed
    assert {one.metric: one.verdict for one in more.baseline.differences}["ranking/recall_at_3"] == "better"


def test_a_top_k_that_is_no_depth_of_a_metric_is_compared_at_too(made: Experiment, whole: Evaluation) -> None:
    wide = evaluate(experiment=settings(made, metrics=METRICS, retriever__top_k=4))
    file = wide.save(made.folder / "wide.json")
    report = evaluate(experiment=settings(made, metrics=METRICS, retriever__top_k=3, baseline=str(file))).report
    assert report.baseline is not None
    recall = {one.metric: one for one in report.baseline.differences}["ranking/recall_at_4"]
    rows = [row for row in wide.report.queries if row.relevant]
    by_hand = [len(row.relevant.keys() & {hit.chunk_id for hit in row.retrieved}) / len(row.relevant) for row in rows]
    assert recall.baseline == pytest.approx(np.mean(by_hand))
    assert recall.other == pytest.approx(report.metrics["ranking/recall_at_3"].value)
    assert "ranking/recall_at_4" in {one.metric for one in report.criteria}
    [between] = compare_runs(wide, whole)
    assert {"ranking/recall_at_4", "ranking/ndcg_at_4"} <= {one.metric for one in between.differences}


def test_what_differs_besides_the_retrieval_and_what_is_not_compared_is_noted(
    made: Experiment, baseline: Path, tmp_path: Path
) -> None:
    told = json.loads(baseline.read_text())
    told["facts"]["collection"] |= {"points": 9, "fingerprint": "another"}
    told["metrics"].pop("scope/false_answer"), told["scores"].pop("scope/false_answer")
    other = tmp_path / "other.json"
    other.write_text(json.dumps(told))
    changes = {"metrics": ("ranking/hit_rate_at_3", "scope/false_answer"), "baseline": str(other)}
    report = evaluate(experiment=settings(made, **changes)).report
    notes = "\n".join(report.notes)
    assert re.search(r"not as in the baseline: collection: robots, 9 points, another → robots, \d points, ", notes)
    assert "not compared with the baseline: scope/false_answer (not measured in the baseline)" in notes
    assert re.search(r"not compared with the baseline: .*ranking/ndcg_at_3.* \(not measured in this run\)", notes)


def test_a_baseline_of_other_golden_data_is_refused_before_any_work(
    made: Experiment, baseline: Path, tmp_path: Path
) -> None:
    other, store = tmp_path / "other.jsonl", tmp_path / "never"
    other.write_text(json.dumps({**CASES[0], "query": "another query"}) + "\n")
    changes = {"dataset__path": str(other), "baseline": str(baseline), "retriever__store__path": str(store)}
    with pytest.raises(ReportError, match=r"expected a report of the golden data of this run[\s\S]*") as refused:
        evaluate(experiment=settings(made, **changes))
    assert "lacks 1 of the 1 queries as they are now" in str(refused.value)
    assert "make it again from this data" in str(refused.value) and not store.exists()


def test_the_committed_baseline_compares_as_the_whole_report_and_names_no_folder(whole: Evaluation) -> None:
    plain = COMMITTED["committed"](whole.report)
    assert str(Path.cwd().anchor) not in plain["facts"]["dataset"] and "store" not in json.dumps(plain["config"])
    read = parse(json.dumps(plain), "baseline")
    assert read.metrics == whole.report.metrics
    assert [(row.id, row.fingerprint, row.scores) for row in read.queries] == [
        (row.id, row.fingerprint, row.scores) for row in whole.report.queries
    ]
    assert max(len(row.retrieved) for row in read.queries) <= COMMITTED["CHUNKS"]


@pytest.mark.parametrize(("fault", "code"), [(KeyboardInterrupt, 130), (RuntimeError("no template"), 3)])
def test_what_goes_wrong_with_the_page_loses_no_measurement(
    made: Experiment,
    tmp_path: Path,
    fault: Any,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: Any) -> None:
        raise fault

    monkeypatch.setattr("evals.report.html.render_page", fail)
    file, page = tmp_path / "report.json", tmp_path / "page.html"
    done = call(main, ["--config", made.config, "--output", file, "--html", page], capsys)
    assert done.code == code and not page.exists()
    assert load_report(file)["metrics"]["ranking/hit_rate_at_3"]["value"] == 0.75
    assert "ranking/hit_rate_at_3" in done.out and str(file) in done.out


def test_a_report_that_cannot_be_written_is_shown(
    made: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(file: Path, _: str) -> None:
        raise ConfigError(f"{file}: cannot be written: File too large")

    monkeypatch.setattr("evals.experiment.outputs.write", full)
    done = call(main, ["--config", made.config, "--output", tmp_path / "report.json"], capsys)
    assert done.code == 2 and "ranking/hit_rate_at_3" in done.out and "cannot be written: File too large" in done.err

"""A run beside its reference and its baseline, and the order in which it is shown and written."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from evals import Evaluation, Outputs, evaluate
from evals.errors import ReportError
from evals.report.html.render import badge
from evals.run import main
from retrievers.errors import ConfigError
from tests.support.command import call
from tests.support.experiment import CASES, Experiment, load_report, make_experiment, settings

METRICS = ("ranking/*", "scope/*")
REFERENCE: dict[str, Any] = {
    "retriever": {"collection": "plain", "threshold": 0.9},
    "index": {"collection": "plain", "context": "none"},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    experiment = make_experiment(tmp_path_factory.mktemp("beside"))
    # Ten of each: fewer shares have no interval.
    cases = [{**case, "id": f"{case['id']}-{n}"} for n in range(10) for case in CASES]
    experiment.write_golden(cases)
    return experiment


@pytest.fixture(scope="module")
def whole(made: Experiment) -> Evaluation:
    found: Evaluation = evaluate(experiment=settings(made, metrics=METRICS, reference=REFERENCE))
    return found


@pytest.fixture(scope="module")
def baseline(made: Experiment, whole: Evaluation) -> Path:
    return whole.save(made.folder / "baseline.json")


def test_a_reference_is_measured_on_the_same_queries(whole: Evaluation) -> None:
    """At a threshold of 0.9 it returns nothing, so that every in-scope query scores 0."""
    section = whole.report.reference
    assert section is not None
    assert "threshold 0.9" in section.settings
    hit_rate = next(one for one in section.differences if one.metric == "ranking/hit_rate_at_3")
    assert (hit_rate.baseline, hit_rate.other, hit_rate.difference) == (0.0, 0.75, 0.75)
    assert (hit_rate.wins, hit_rate.ties, hit_rate.losses, hit_rate.verdict) == (30, 10, 0, "better")
    assert hit_rate.low is not None and 0 < hit_rate.low < 0.75
    flip = section.flipped[0]
    assert (flip.before, flip.after, flip.retrieved) == (0.0, 1.0, [])
    scores = {row.id: row.scores.get("ranking/ndcg_at_3") for row in whole.report.queries}
    assert section.by_query == {"ranking/ndcg_at_3": {key: score for key, score in scores.items() if score}}
    assert not {one.metric for one in section.differences} - set(whole.report.metrics)


def test_the_first_screen_shows_before_and_after(
    made: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(made.folder)
    file = tmp_path / "referenced.yaml"
    paths = {"dataset": {"path": str(made.golden)}, "sources": {"dir": str(made.docs)}}
    retriever = {**load_settings(made)["retriever"], "store": {"path": str(made.store)}}
    written = {**load_settings(made), **paths, "retriever": retriever, "metrics": list(METRICS), "reference": REFERENCE}
    file.write_text(yaml.safe_dump(written), encoding="utf-8")
    text = call(main, ["--config", file], capsys).out
    assert re.search(r"^ranking/hit_rate_at_3 +0\.000 +0\.750 +\+0\.750 .* 30/10/0", text, re.MULTILINE)
    assert "before nothing returned" in text


def test_only_retrieval_and_index_differ_in_a_reference(made: Experiment) -> None:
    with pytest.raises(ConfigError, match="expected settings of retriever and index, got 'dataset'"):
        settings(made, reference={"dataset": {"limit": 2}})
    with pytest.raises(ConfigError, match="top_kk"):
        evaluate(experiment=settings(made, reference={"retriever": {"top_kk": 2}}))


def test_against_itself_every_headline_metric_is_no_worse(made: Experiment, baseline: Path) -> None:
    report = evaluate(experiment=settings(made, metrics=METRICS, baseline=str(baseline))).report
    compared = [one for one in report.criteria if one.condition == "no worse"]
    assert len(compared) > 5 and all(one.passed for one in compared) and report.passed
    assert report.baseline is not None and report.baseline.name == "baseline.json"
    assert report.head is not None and report.head.criteria == f"No worse than the baseline in {len(compared)} metrics."
    rate = report.validation.pass_rate or 0
    assert badge(report) == ("good", f"no worse than the baseline, {1 - rate:.0%} of the queries fail")


def test_a_metric_that_is_proved_worse_fails_and_one_that_is_not_passes(
    made: Experiment, baseline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--config", str(made.config), "--metrics", ",".join(METRICS), "--baseline", str(baseline)]
    done = call(main, [*flags, "--retriever.threshold", "0.9"], capsys)
    assert done.code == 1
    assert "  FAIL ranking/hit_rate_at_3 no worse, got 0.000 (proved worse than 0.750 of the" in done.out
    assert "scope/false_answer" in done.out and "FAIL scope/false_answer" not in done.out
    assert call(main, [*flags, "--retriever.threshold", "0.9", "--no-gate"], capsys).code == 0
    assert call(main, flags, capsys).code == 0


def test_a_part_of_the_queries_is_compared_with_the_same_part(made: Experiment, baseline: Path) -> None:
    config = settings(made, metrics=METRICS, baseline=str(baseline), dataset__limit=12)
    report = evaluate(experiment=config).report
    assert report.baseline is not None
    assert {one.wins + one.ties + one.losses for one in report.baseline.differences} <= {0, 4, 8, 12}


def test_a_baseline_of_other_golden_data_is_refused_before_any_work(
    made: Experiment, baseline: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps({**CASES[0], "query": "another query"}) + "\n")
    flags = ["--config", str(made.config), "--dataset.path", str(other), "--baseline", str(baseline)]
    done = call(main, [*flags, "--retriever.store.path", str(tmp_path / "never")], capsys)
    assert done.code == 2
    assert "expected a report of the golden data of this run" in done.err and "make it again from this data" in done.err
    assert not (tmp_path / "never").exists()
    with pytest.raises(ReportError, match="lacks 1 of the 1 queries as they are now"):
        evaluate(experiment=settings(made, dataset__path=str(other), baseline=str(baseline)))


def test_other_golden_data_by_a_flag_leave_the_files_baseline_and_reference_out(made: Experiment) -> None:
    made.write_config({**load_settings(made), "baseline": "gone.json", "reference": REFERENCE})
    try:
        config = settings(made, dataset__path=str(made.golden))
        assert config.baseline is None and config.referenced is None
        assert settings(made, dataset__limit=3).baseline is not None
    finally:
        made.write_config({k: v for k, v in load_settings(made).items() if k not in ("baseline", "reference")})


def load_settings(made: Experiment) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(made.config.read_text())
    return loaded


def test_the_result_is_handed_over_when_the_report_is_saved_and_the_page_is_not(
    made: Experiment, tmp_path: Path
) -> None:
    report, page = tmp_path / "report.json", tmp_path / "report.html"
    seen = []

    def look(found: Evaluation) -> None:
        seen.append((found.report.name, load_report(report)["name"], page.exists()))

    evaluate(experiment=settings(made, metrics=METRICS), outputs=Outputs(report=report, html=page), measured=look)
    assert seen == [("small", "small", False)] and page.exists()


@pytest.mark.parametrize("fault", [KeyboardInterrupt, RuntimeError("no template")])
def test_what_goes_wrong_with_the_page_loses_no_measurement(
    made: Experiment, tmp_path: Path, fault: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any) -> None:
        raise fault

    monkeypatch.setattr("evals.report.html.render_page", fail)
    file = tmp_path / "report.json"
    flags = ["--config", str(made.config), "--output", str(file), "--html", str(tmp_path / "page.html")]
    done = call(main, flags, capsys)
    assert done.code == (130 if fault is KeyboardInterrupt else 3)
    assert load_report(file)["metrics"]["ranking/hit_rate_at_3"]["value"] == 0.75
    assert "ranking/hit_rate_at_3" in done.out and str(file) in done.out
    assert not (tmp_path / "page.html").exists()

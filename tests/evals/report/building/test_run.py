"""The report of a run, built from its result."""

import math

import pytest

from evals.config.experiment import ExperimentConfig
from tests.support.results import GATES, config, facts, report, result


def test_a_run_passed_when_all_its_criteria_are_met() -> None:
    made = report()
    assert not made.passed
    assert report(result(gates=GATES[:1])).passed
    assert report(result(gates=())).passed
    missed = made.criteria[1]
    assert (missed.metric, missed.condition, missed.figure, missed.passed, missed.reason, missed.undecided) == (
        "content/topic_match", ">= 0.4", None, False, "no value: no topics", False,
    )  # fmt: skip


def test_a_run_during_which_the_collection_changed_is_incomplete_and_did_not_pass() -> None:
    made = report(result(gates=()), facts(collection_changed="5 → 3 points"))
    assert made.incomplete == "the collection changed during the run: 5 → 3 points"
    assert not made.passed


def test_metrics_keep_all_digits_and_the_reason_for_a_missing_value() -> None:
    made = report().plain()["metrics"]
    assert made["ranking/precision_at_3"]["value"] == 1 / 6
    assert made["content/topic_match"] == {
        "metric": "content/topic_match",
        "value": None, "ci_low": None, "ci_high": None, "n": 0, "n_unscored": 2, "n_failed": 0, "n_missing": 0,
        "bound_low": None, "bound_high": None, "note": "the case names no topics", "sampled": None,
    }  # fmt: skip


def test_the_headline_holds_the_telling_metrics_and_those_that_were_asked_for() -> None:
    assert "ranking/precision_at_3" not in report().headline
    assert "ranking/hit_rate_at_5" in report().headline
    asked = ExperimentConfig.model_validate({"metrics": ["ranking/precision_at_3"]})
    assert "ranking/precision_at_3" in report(result(config=asked)).headline


def test_a_value_that_is_no_number_never_reaches_the_report() -> None:
    with pytest.raises(ValueError, match="finite number"):
        report(result(scores={"ranking/hit_rate_at_5": {"right": math.nan}}))


def test_without_a_grid_the_file_has_no_field_for_one() -> None:
    made = report().plain()
    assert "grid" not in made and made["judge"] is None
    assert made["config"]["retriever"]["top_k"] == 3


def test_the_settings_line_says_how_the_index_is_searched() -> None:
    search = {"hnsw_ef": 128, "quantization": {"rescore": True}}
    made = report(result(config=config(mode="hybrid", search_params=search)))
    assert made.settings.startswith(
        "hybrid · fusion weighted · search_params.hnsw_ef 128 · search_params.quantization.rescore true · top_k 3"
    )

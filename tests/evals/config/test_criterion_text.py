"""How conditions are written."""

import pytest

from evals.config.experiment import ExperimentConfig
from evals.config.values import by_metric, checked_conditions


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("scope/false_answer <= 0.1", {"scope/false_answer": "<= 0.1"}),
        ("scope/false_answer<=0.1", {"scope/false_answer": "<= 0.1"}),
        ("scope/false_answer <= 0.1, cost/context_tokens < 900",
         {"scope/false_answer": "<= 0.1", "cost/context_tokens": "< 900"}),
        (["ranking/mrr_at_10 >= 0.8", "determinism/rate == 1"],
         {"ranking/mrr_at_10": ">= 0.8", "determinism/rate": "== 1"}),
        ({"ranking/mrr_at_10": ">= 0.8"}, {"ranking/mrr_at_10": ">= 0.8"}),
        (7, 7),
    ],
)  # fmt: skip
def test_text_is_read_as_metric_and_condition(written: object, meant: object) -> None:
    assert by_metric(written) == meant


@pytest.mark.parametrize("written", ["", "<= 0.1", "scope/false_answer", ["ranking/mrr_at_10 >= 0.8", 3]])
def test_what_is_no_condition_is_shown_with_an_example(written: object) -> None:
    with pytest.raises(ValueError, match="expected a metric and a condition such as"):
        by_metric(written)


def test_a_condition_without_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match="scope/false_answer: expected a condition such as"):
        checked_conditions(by_metric("scope/false_answer <= low"))


@pytest.mark.parametrize("number", ["1" * 100_000, "1" * 21, "1e999", "nan", "inf", "1.", "0x1", "1" * 100_000 + "x"])
def test_a_number_without_bounds_is_refused(number: str) -> None:
    with pytest.raises(ValueError, match="a: expected a condition such as") as caught:
        checked_conditions({"a": f">= {number}"})
    assert len(str(caught.value)) < 300


def test_two_conditions_on_one_metric_are_refused() -> None:
    with pytest.raises(ValueError, match="'a' is given two conditions; leave one of them out"):
        by_metric("a >= 0.1, b >= 1, a <= 0.9")


def test_criteria_and_constraints_take_text() -> None:
    text = "scope/false_answer <= 0.1"
    config = ExperimentConfig.model_validate({"criteria": text, "objective": {"constraints": [text]}})
    assert config.criteria == config.objective.constraints == {"scope/false_answer": "<= 0.1"}

"""The statistics of a judge as summaries."""

from evals.collect.observations import Failure, Summary
from evals.judge.trust import Pair, Trust, agree, summaries
from tests.support.trust import ROWS, whole

NAMES = ("judge/agreement", "judge/kappa", "judge/false_useful", "judge/false_useless")


def test_a_summary_for_each_statistic() -> None:
    trust = whole()
    found = {summary.metric: summary for summary in summaries(trust)}
    assert list(found) == [
        *NAMES,
        "judge/self_agreement",
        "ragas/llm_context_precision_corrected",
        "ragas/llm_context_recall_corrected",
    ]
    assert trust.agreement is not None
    accuracy = trust.agreement.accuracy
    assert found["judge/agreement"] == Summary(
        metric="judge/agreement",
        value=accuracy.value,
        ci_low=accuracy.interval.low,
        ci_high=accuracy.interval.high,
        n=60,
    )
    assert found["judge/kappa"].value == trust.agreement.kappa.value
    assert found["judge/false_useful"].n == trust.agreement.false_useful.n
    assert found["judge/false_useless"].value == trust.agreement.false_useless.value
    assert found["judge/self_agreement"].value == 26 / 30
    assert found["ragas/llm_context_precision_corrected"].value == trust.corrections[0].corrected.value


def test_what_was_not_asked_for_has_no_summary() -> None:
    assert summaries(Trust()) == []


def test_a_missing_value_or_interval_says_why() -> None:
    found = {
        one.metric: one for one in summaries(Trust(agreement=agree(ROWS[:18], 0), corrections=whole().corrections))
    }
    assert found["judge/agreement"].note == "not computable: only 6 queries, 10 are needed"
    refused = found["ragas/llm_context_recall_corrected"]
    assert (refused.value, refused.note) == (None, "only 1 query with human verdicts can be used, 15 are needed")
    assert summaries(Trust(agreement=agree([], 0)))[0].note == "no verdict on a labelled chunk"


def test_failures_and_bounds_are_handed_on() -> None:
    failed = Pair(query_id="q", chunk_id="x", verdict=Failure(type="TimeoutError", message=""), label=1)
    found = summaries(Trust(agreement=agree([*ROWS, failed], 0)))
    assert [one.n_failed for one in found] == [1, 1, 0, 1]
    assert found[0].bound_low is not None and found[0].value is not None and found[0].bound_high is not None
    assert found[0].bound_low < found[0].value < found[0].bound_high
    assert found[2].bound_low is None

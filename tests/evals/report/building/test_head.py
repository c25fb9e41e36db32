"""The run in a sentence, and the run that it suggests."""

from dataclasses import replace

import pytest

from evals.collect.observations import Gate, Summary
from evals.report.head import FLAGS, PAGE, criteria_line, head
from evals.report.headline import NO_WORSE
from evals.report.model import Cause
from evals.report.rows import FAILURES
from evals.run import load_config, parser
from tests.support.results import GATES, config, facts, report, report_of, result, verdict

MET = Gate(metric="m", condition=">= 0.4", figure=0.5, passed=True, reason="")
UNMET = replace(MET, passed=False)
IDS = ("right", "wrong", "empty")


def test_the_sentence_has_the_figures_and_the_main_cause_of_failure() -> None:
    summaries = [
        Summary(metric="ranking/hit_rate_at_3", value=0.1, n=2),
        Summary(metric="ranking/hit_rate_at_5", value=0.25, n=2),
        Summary(metric="ranking/recall_at_5", value=None, n=0),
        Summary(metric="scope/false_answer", value=0.5, n=2),
    ]
    causes: list[Cause] = ["right", "ranked too low", "wrongly answered", "ranked too low"]
    found = head(result(summaries=summaries), causes)
    assert found.verdict == (
        "1 of 3 queries pass (33%): hit rate 0.250, false answers 0.500; "
        "main cause of failure: ranked too low (2 of 3)."
    )


@pytest.mark.parametrize(
    ("passed", "gates", "incomplete", "tone"),
    [
        (3, (MET,), "", "good"),
        (2, (), "", "good"),
        (1, (MET,), "", "mixed"),
        (3, (MET, UNMET), "", "bad"),
        (3, (MET,), "one chunk more", "bad"),
    ],
)
def test_met_criteria_are_no_praise_where_most_queries_fail(
    passed: int, gates: tuple[Gate, ...], incomplete: str, tone: str
) -> None:
    verdicts = [verdict(name, "SUCCESS" if n < passed else "FAILURE") for n, name in enumerate(IDS)]
    made = report(result(gates=gates, validation=report_of(verdicts)), facts(collection_changed=incomplete))
    assert made.head is not None and made.head.tone == tone
    assert made.passed == (tone != "bad")


def test_the_criteria_in_a_sentence() -> None:
    met, unmet = MET, UNMET
    assert criteria_line(()) == "No criteria to meet."
    assert criteria_line([met]) == "All 1 criteria are met."
    assert criteria_line([met, met, unmet]) == "1 of 3 criteria are not met."
    assert criteria_line([met, unmet], "too few") == "Incomplete: too few. 1 of 2 criteria are not met."
    assert criteria_line([met], "too few") == "Incomplete: too few."
    no_worse = replace(MET, condition=NO_WORSE)
    worse = replace(no_worse, passed=False)
    assert criteria_line([no_worse]) == "No worse than the baseline in 1 metrics."
    assert criteria_line([met, no_worse]) == "No worse than the baseline in 1 metrics. All 1 criteria are met."
    assert criteria_line([unmet, worse, no_worse]) == (
        "Worse than the baseline in 1 of 2 metrics. 1 of 1 criteria are not met."
    )


@pytest.mark.parametrize("flags", sorted({*FLAGS.values(), PAGE}))
def test_every_suggestion_is_a_command_that_is_taken(flags: str) -> None:
    assert load_config(parser().parse_args(flags.split()), {}).name == "default"


@pytest.mark.parametrize("cause", sorted(FAILURES))
def test_each_cause_has_its_next_run_and_a_users_own_retriever_the_page(cause: Cause) -> None:
    assert head(result(), [cause]).next_flags == FLAGS.get(cause, PAGE)
    assert head(result(config=config(python="mine:make")), [cause]).next_flags == PAGE


def test_without_keywords_in_the_collection_none_are_suggested() -> None:
    assert head(result(), ["ranked too low"], []).next_flags == "--sweep.top-k 3,5,10"
    assert head(result(), ["not a candidate"], ["other"]).next_flags == PAGE
    assert head(result(), ["not a candidate"], ["bm25"]).next_flags == FLAGS["not a candidate"]
    assert head(result(), ["wrongly answered"], []).next_flags == FLAGS["wrongly answered"]


def test_a_distance_without_bounds_has_thresholds_and_a_fusion_of_its_own() -> None:
    raw = result(config=config(distance="dot", mode="semantic"))
    assert head(raw, ["wrongly answered"]).next_flags == PAGE
    flags = head(raw, ["ranked too low"]).next_flags
    assert flags == "--sweep.mode semantic,hybrid --retriever.fusion rrf --sweep.top-k 3,5,10"
    own = ["--retriever.distance", "dot", "--retriever.threshold", "default"]
    assert load_config(parser().parse_args([*own, *flags.split()]), {}).name == "default"


def test_the_report_has_it() -> None:
    found = report(result(gates=GATES))
    assert found.head is not None and found.head.criteria == "1 of 2 criteria are not met."

"""What recall by bisection is worth, on figures put together by hand."""

from collections.abc import Mapping

import pytest

from evals.collect.observations import Failure, Score, Summary, Unscored
from evals.judge.tasks import RECALL
from evals.judge.trust.audit import describe, error_rate, marked, taken_over
from evals.judge.verdicts import Bisected
from tests.support.results import EMPTY, RIGHT, WRONG

LATE = Failure(type="Timeout", message="late")
SPENT = Unscored(reason="the budget of 3 calls is spent")


def bisected(skipped: int, said: Mapping[int, Score]) -> Bisected:
    """Of as many skipped results, all taken for 0.5, those that were asked about by their number."""
    keys = [(f"q{number % 4}", (f"c{number}",)) for number in range(skipped)]
    return Bisected(
        implied=dict.fromkeys(keys, 0.5),
        audited={keys[number]: value for number, value in said.items()},
        selections=skipped + 5,
    )


def test_the_error_rate_is_over_the_answers_of_the_audit() -> None:
    found = error_rate(bisected(20, {0: 0.5, 1: 1.0, 2: 0.5, 3: 0.5, 4: 0.5, 5: LATE, 6: SPENT}))
    assert (found.value, found.n, found.n_queries, found.n_failed, found.n_unscored) == (0.2, 5, 4, 1, 1)
    ends = (found.bound_low, found.bound_high, found.interval.low, found.interval.high)
    assert [round(one or 0.0, 4) for one in ends] == [0.1667, 0.3333, 0.0362, 0.6245]
    assert found.note == ""


@pytest.mark.parametrize(
    ("made", "note"),
    [
        (bisected(0, {}), "nothing was skipped"),
        (bisected(3, {}), "none of the skipped results was asked about"),
        (bisected(3, {0: LATE}), "none of the skipped results was asked about"),
    ],
)
def test_without_an_answer_there_is_no_rate(made: Bisected, note: str) -> None:
    found = error_rate(made)
    assert (found.value, found.interval.low, found.n, found.note) == (None, None, 0, note)


def test_what_was_taken_over_has_no_answer_of_its_own() -> None:
    keys = [("right", ("a", "b")), ("wrong", ("b",)), ("empty", ())]
    made = Bisected(implied=dict.fromkeys(keys, 0.5), audited={keys[1]: 1.0}, selections=9)
    assert taken_over(made, [RIGHT, WRONG, EMPTY]) == 2
    assert taken_over(Bisected(implied=made.implied, audited={keys[1]: LATE}, selections=9), [RIGHT, WRONG]) == 2
    recall, other = Summary(metric=RECALL, value=0.5, n=3, note="few"), Summary(metric="x/y", value=0.5, n=3)
    assert marked([recall, other], None, [RIGHT]) == [recall, other]
    [first, second] = marked([recall, other], made, [RIGHT, WRONG])
    assert first.note == "approximation: 1 of 3 by bisection (judge.recall); few" and second == other
    assert marked([recall], made, [WRONG]) == [recall], "the audit has asked about it"


HEAD = "ragas/llm_context_recall is an approximation (judge.recall bisect): "
MONOTONE = "calls saved, as more chunks are taken never to lower it"


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (bisected(0, {}), "judge.recall bisect: every result was asked about, nothing was skipped"),
        (
            bisected(20, {0: 0.5, 1: 1.0, 2: 0.5, 3: LATE}),
            f"{HEAD}16 of 25 {MONOTONE}; of 3 skipped results that were asked nevertheless, 1 differ (1 without an "
            "answer): 0.333, 95% interval 0.061 … 0.792",
        ),
        (
            bisected(2, {}),
            f"{HEAD}2 of 7 {MONOTONE}; not checked: none of the skipped results was asked about",
        ),
    ],
)
def test_in_words(made: Bisected, said: str) -> None:
    assert describe(made) == said

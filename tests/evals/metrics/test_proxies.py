"""What goes with a judge's scores and costs nothing: labels, words of the reference answer, similarity."""

from typing import Any

import pytest

from evals.collect.observations import Observation, Score, Unscored
from evals.judge.verdicts import average_precision
from evals.metrics.declaration import QueryMetric
from evals.metrics.proxies import PRECISION_PROXY, RECALL_PROXY, RELEVANCE_PROXY, serving
from tests.support import scored
from tests.support.observed import make_case, make_chunk, observe, results

# Six distinct words, so that a useful chunk holds at least two of them.
ANSWER = "Motors turn slowly; motors stop at night."
TEXTS = {
    "two": "Slowly, the MOTORS warm up.",
    "one": "No night train.",
    "none": "Cables.",
    "four": "They turn at night, stop.",
}


def asked(*ids: str, name: str = "q", answer: str | None = ANSWER, labels: dict[str, int] | None = None) -> Observation:
    case = make_case(name, relevant_ids=labels or {}, reference_answer=answer)
    return observe(results(*(make_chunk(key, TEXTS[key]) for key in ids)), labels or {}, case=case)


def scores(proxy: QueryMetric, *observations: Observation) -> list[Score]:
    return scored.scored(proxy, observations)


class TestPrecision:
    @pytest.mark.parametrize(
        ("returned", "useful"),
        [
            (("two", "none"), [1, 0]),
            (("one", "four", "none", "two"), [0, 1, 0, 1]),
            (("one", "none"), [0, 0]),
            ((), []),
        ],
    )
    def test_a_chunk_is_useful_from_a_third_of_the_answers_words_on(self, returned: Any, useful: list[int]) -> None:
        assert scores(PRECISION_PROXY, asked(*returned)) == [average_precision(useful)]

    def test_labels_decide_where_there_are_any(self) -> None:
        labelled, bare = asked("two", "none", labels={"none": 1}), asked("two", "none")
        assert scores(PRECISION_PROXY, labelled, bare) == [average_precision([0, 1]), average_precision([1, 0])]

    def test_nothing_to_compare_with(self) -> None:
        [score] = scores(PRECISION_PROXY, asked("two", answer=None))
        assert isinstance(score, Unscored) and "no reference answer" in score.reason


class TestCompleteness:
    def test_without_labels_the_share_of_the_answers_sentences_of_which_the_result_holds_the_words(self) -> None:
        # "Motors turn slowly" has 3 words, "they stop at night" 4: "two" holds 2 of the first, "four" 1 of it.
        answer = "Motors turn slowly. They stop at night."
        returned = (("two",), ("two", "four"), ("four",), ())
        found = scores(RECALL_PROXY, *(asked(*ids, answer=answer) for ids in returned))
        assert found == [0.0, 1.0, 0.5, 0.0]

    def test_one_scale_for_all_queries(self) -> None:
        labelled, bare = asked("two", labels={"two": 1}), asked("two")
        assert scores(RECALL_PROXY, labelled) == [1.0]
        assert scores(RECALL_PROXY, labelled, bare) == [0.0, 0.0]

    def test_what_needs_a_reference_is_not_asked_about_queries_without(self) -> None:
        labelled, unanswered = asked("two", labels={"two": 1}), asked("two", answer=None)
        found, missing = scores(RECALL_PROXY, labelled, unanswered)
        assert found == 1.0 and isinstance(missing, Unscored)


@pytest.mark.parametrize(
    ("proxy", "cases", "name"),
    [
        (PRECISION_PROXY, "ll", "labels/context_precision"),
        (PRECISION_PROXY, "lwu", "labels/context_precision, of 1 queries words/context_precision"),
        (PRECISION_PROXY, "wwu", "words/context_precision"),
        (RECALL_PROXY, "llu", "labels/evidence_recall"),
        (RECALL_PROXY, "lw", "words/sentence_recall"),
        (RELEVANCE_PROXY, "ll", "labels/evidence_recall"),
        (RELEVANCE_PROXY, "lw", "words/sentence_recall"),
        (RELEVANCE_PROXY, "wu", "nothing"),
    ],
)
def test_the_report_says_which_one_serves(proxy: QueryMetric, cases: str, name: str) -> None:
    kinds: dict[str, dict[str, Any]] = {
        "l": {"relevant_ids": {"a": 1}, "reference_answer": ANSWER},
        "w": {"relevant_ids": {}, "reference_answer": ANSWER},
        "u": {"relevant_ids": {}},
    }
    assert serving(proxy, [make_case(f"q{number}", **kinds[kind]) for number, kind in enumerate(cases)]) == name

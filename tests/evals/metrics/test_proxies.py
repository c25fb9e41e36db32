"""What goes with a judge's scores and costs nothing: labels, words of the reference answer, similarity."""

import numpy as np
import pytest

from evals.collect.observations import Observation, Score
from evals.judge.verdicts import average_precision
from evals.metrics.declaration import NO_VALUE, QueryMetric
from evals.metrics.proxies import NO_REFERENCE, PRECISION_PROXY, RECALL_PROXY, RELEVANCE_PROXY
from tests.support import observed as scored
from tests.support.observed import make_case, make_chunk, observe, results

# Six distinct words, so that a useful chunk holds at least two of them.
ANSWER = "Motors turn slowly; motors stop at night."
# "Motors turn slowly" has 3 words, "they stop at night" 4: "two" holds 2 of the first, "four" 1 of it.
SENTENCES = "Motors turn slowly. They stop at night."
TEXTS = {
    "two": "Slowly, the MOTORS warm up.",
    "one": "No night train.",
    "none": "Cables.",
    "four": "They turn at night, stop.",
}


def asked(*ids: str, answer: str | None = ANSWER, labels: dict[str, int] | None = None) -> Observation:
    case = make_case(relevant_ids=labels or {}, reference_answer=answer)
    return observe(results(*(make_chunk(key, TEXTS[key]) for key in ids)), labels or {}, case=case)


def useful(*verdicts: int) -> float:
    return float(average_precision(np.array([verdicts]))[0])


LABELLED = asked("two", labels={"two": 1})


@pytest.mark.parametrize(
    ("proxy", "observations", "expected"),
    [
        # A chunk is useful from a third of the answer's words on.
        (PRECISION_PROXY, [asked("two", "none")], [useful(1, 0)]),
        (PRECISION_PROXY, [asked("one", "four", "none", "two")], [useful(0, 1, 0, 1)]),
        (PRECISION_PROXY, [asked("one", "none")], [0.0]),
        (PRECISION_PROXY, [asked()], [0.0]),
        # Labels decide where there are any.
        (PRECISION_PROXY, [asked("two", "none", labels={"none": 1}), asked("two")], [useful(0, 1), useful(1)]),
        (PRECISION_PROXY, [asked("two", answer=None)], [NO_REFERENCE]),
        # Without labels it is the share of the answer's sentences of which the result holds enough words.
        (RECALL_PROXY, [asked("two", answer=SENTENCES)], [0.0]),
        (RECALL_PROXY, [asked("two", "four", answer=SENTENCES)], [1.0]),
        (RECALL_PROXY, [asked("four", answer=SENTENCES)], [0.5]),
        (RECALL_PROXY, [asked(answer=SENTENCES)], [0.0]),
        # One scale for all queries.
        (RECALL_PROXY, [LABELLED], [1.0]),
        (RECALL_PROXY, [LABELLED, asked("two")], [0.0, 0.0]),
        # What needs a reference is not asked about queries without.
        (RECALL_PROXY, [LABELLED, asked("two", answer=None)], [1.0, NO_REFERENCE]),
        (RELEVANCE_PROXY, [LABELLED, asked("two", labels={"four": 1}, answer=None)], [1.0, 0.0]),
        (RELEVANCE_PROXY, [asked("two"), asked("two", answer=None)], [NO_VALUE, NO_VALUE]),
    ],
)
def test_scores_by_hand(proxy: QueryMetric, observations: list[Observation], expected: list[Score]) -> None:
    assert scored.scored(proxy, observations) == expected

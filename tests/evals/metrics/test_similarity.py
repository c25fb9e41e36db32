"""The string metrics against ragas' own formulas; `test_ragas_metrics` holds them against its classes."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from evals.collect.observations import Score
from evals.metrics.texts import OF_STRINGS
from tests.support.observed import make_case, make_chunk, make_context, observe, results
from tests.support.scored import scored

TEXT = st.text(alphabet="abc ", max_size=12)
PRECISION, RECALL = OF_STRINGS


def of_texts(relevant: Sequence[str], returned: Sequence[str]) -> tuple[Any, Any]:
    """Precision and recall of returned texts."""
    texts = {f"r{number}": text for number, text in enumerate(relevant)}
    found = [make_chunk(f"c{number}", text) for number, text in enumerate(returned)]
    observation = observe(results(*found), dict.fromkeys(texts, 1))
    context = make_context(texts=texts)
    return scored(PRECISION, [observation], context)[0], scored(RECALL, [observation], context)[0]


def by_ragas_formula(relevant: list[str], returned: list[str]) -> tuple[float, float]:
    """Precision and recall with every pair compared by itself, as ragas does."""
    similarity = [[1 - Levenshtein.normalized_distance(a, b) for a in relevant] for b in returned]
    verdicts = [1 if max(row) >= 0.5 else 0 for row in similarity]
    useful = [sum(verdicts[: place + 1]) / (place + 1) * verdict for place, verdict in enumerate(verdicts)]
    covered = [1 if max(column) > 0.5 else 0 for column in zip(*similarity, strict=True)]
    return sum(useful) / (sum(verdicts) + 1e-10), sum(covered) / len(covered)


@given(relevant=st.lists(TEXT, min_size=1, max_size=5), returned=st.lists(TEXT, min_size=1, max_size=6))
def test_any_texts_score_as_by_the_formula(relevant: list[str], returned: list[str]) -> None:
    assert of_texts(relevant, returned) == pytest.approx(by_ragas_formula(relevant, returned), abs=1e-12)


def test_exactly_half_alike_counts_for_precision_and_not_for_recall() -> None:
    by_text = [of_texts(["abcd"], [text]) for text in ("abxx", "abcx", "axxx")]
    assert by_text == [(pytest.approx(1.0), 0), (pytest.approx(1.0), 1), (0, 0)]


def test_more_relevant_texts_than_a_machine_word_has_bits() -> None:
    relevant = tuple(f"{number:03d}" * 4 for number in range(80))
    assert of_texts(relevant, relevant)[1] == 1.0
    assert of_texts(relevant, relevant[10:50])[1] >= 0.5


def test_many_selections_of_a_query_score_as_each_alone() -> None:
    rng = random.Random(3)
    texts = {f"c{n}": "".join(rng.choices("abcd ", k=12)) for n in range(12)}
    case = make_case("one")
    found = [
        observe(
            results(*(make_chunk(i, texts[i]) for i in rng.sample(sorted(texts), k))), {"c0": 1, "c1": 1}, case=case
        )
        for k in (0, 1, 2, 5, 5, 12)
    ]
    context = make_context(texts=texts)
    for metric in OF_STRINGS:
        together: list[Score] = scored(metric, found, context)
        assert together == [scored(metric, [one], context)[0] for one in found]
        assert together[0] == 0.0


def test_texts_of_one_query_do_not_speak_for_another() -> None:
    a, b = make_chunk("a", "abcdef"), make_chunk("b", "uvwxyz")
    observations = [
        observe(results(a), {"a": 1}, case=make_case("one")),
        observe(results(a), {"b": 1}, case=make_case("two")),
    ]
    texts = {"a": a.text, "b": b.text}
    assert list(scored(RECALL, observations, make_context(texts=texts))) == [1.0, 0.0]
    assert list(scored(PRECISION, observations, make_context(texts=texts))) == pytest.approx([1.0, 0.0], abs=1e-9)


def test_a_relevant_chunk_that_the_collection_lacks_counts_and_nothing_is_like_it() -> None:
    texts = {"a": "the arm turns at its base"}
    observation = observe(results(make_chunk("x", texts["a"]), make_chunk("y", "zebra")), {"a": 1, "gone": 1})
    context = make_context(texts=texts)
    assert [scored(metric, [observation], context) for metric in OF_STRINGS] == [[pytest.approx(1.0)], [0.5]]
    nothing = make_context(texts={"b": "else"})
    assert [scored(metric, [observation], nothing) for metric in OF_STRINGS] == [[0.0], [0.0]]

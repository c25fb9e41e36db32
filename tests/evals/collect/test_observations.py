"""What an observation says of itself."""

from dataclasses import FrozenInstanceError

import pytest

from evals.collect.observations import Failure, Unscored
from tests.support.observed import make_chunk, observe, results


@pytest.mark.parametrize(
    ("returned", "expected"), [("", ()), ("abc", ("a", "b", "c")), ("aab", ("a", "b")), ("abacb", ("a", "b", "c"))]
)
def test_ranked_ids_are_in_rank_order_each_once(returned: str, expected: tuple[str, ...]) -> None:
    assert observe(results(*returned)).ranked_ids == expected


def test_the_top_score_is_the_best_cosine_of_the_candidates() -> None:
    candidates = results("a", "b", "c", scores=[0.3, 0.7, 0.5])
    assert observe((), candidates=candidates).top_score == 0.7
    assert observe(candidates[:1], candidates=candidates).top_score == 0.7


def test_the_top_score_of_a_search_that_found_nothing_is_0() -> None:
    assert observe().top_score == 0.0


def test_records_cannot_be_changed() -> None:
    for record, name in (
        (observe(), "selection"),
        (Unscored(reason="r"), "reason"),
        (Failure(type="t", message="m"), "type"),
        (make_chunk("a"), "text"),
    ):
        with pytest.raises(FrozenInstanceError):
            setattr(record, name, None)

"""What became of a query, and the strip of all."""

from typing import Any

import pytest

from evals.collect.observations import Outcome
from evals.report.figures.why import queries_strip, why
from tests.support.results import hit, observation, result, verdict, without_scores

FOUND = [hit(n, 1 - n / 10, f"c{n}") for n in range(1, 8)]


@pytest.mark.parametrize(
    ("kept", "grades", "outcome", "expected"),
    [
        (3, {"c1": 1}, "SUCCESS", "right"),
        (0, {}, "SUCCESS", "rightly nothing"),
        (3, {"c1": 1}, "PARTIAL_SUCCESS", "details wrong"),
        (3, {}, "FAILURE", "wrongly answered"),
        (0, {"c1": 1}, "FAILURE", "nothing returned"),
        (3, {"c1": 1}, "FAILURE", "too few returned"),
        (3, {"c7": 1}, "FAILURE", "ranked too low"),
        (7, {"c6": 1}, "FAILURE", "ranked too low"),
        (3, {"elsewhere": 1}, "FAILURE", "not a candidate"),
    ],
)
def test_says_why_in_two_words(kept: int, grades: dict[str, int], outcome: Outcome, expected: str) -> None:
    assert why(observation("q", FOUND, kept, grades), verdict("q", outcome)) == expected


def rows(run: Any) -> dict[str, list[float]]:
    figure = queries_strip(run)
    assert figure is not None
    (axes,) = figure.axes
    labels = [text.get_text() for text in axes.get_yticklabels()]
    return dict(zip(labels, [list(ticks.get_positions()) for ticks in axes.collections], strict=True))  # type: ignore[attr-defined]


def test_every_query_is_a_tick_at_its_best_score() -> None:
    """Of the three one is right, one is out of scope and answered, and one found nothing above the threshold."""
    assert rows(result()) == {
        "wrongly answered · 1": [0.8],
        "nothing returned · 1": [0.29],
        "right · 1": [0.9],
    }


def test_without_scores_ticks_are_at_their_place_in_the_golden_data() -> None:
    assert sorted(place for ticks in rows(without_scores()).values() for place in ticks) == [1.0, 2.0, 3.0]

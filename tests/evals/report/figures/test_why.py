"""What became of a query, and the strip of all."""

import pytest

from evals.collect.observations import Observed, Outcome
from evals.grid.measure import Measured
from evals.report.building.queries import query_rows
from evals.report.figures.why import queries_strip
from tests.support.results import hit, observation, report_of, result, verdict, without_scores

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
        (5, {"c6": 1}, "FAILURE", "ranked too low"),
        (2, {"c3": 1}, "FAILURE", "cut by the threshold"),
        (3, {"c4": 1}, "FAILURE", "ranked too low"),
        (3, {"elsewhere": 1}, "FAILURE", "not a candidate"),
    ],
)
def test_the_cause_in_two_words(kept: int, grades: dict[str, int], outcome: Outcome, expected: str) -> None:
    made = result(
        observed=Observed(observations=(observation("q", FOUND, kept, grades),)),
        validation=report_of([verdict("q", outcome)]),
    )
    [row] = query_rows(made)
    assert row.cause == expected


def ticks_of(run: Measured) -> dict[str, list[float]]:
    figure = queries_strip(list(query_rows(run)), 0.3)
    assert figure is not None
    (axes,) = figure.axes
    labels = [text.get_text() for text in axes.get_yticklabels()]
    return dict(zip(labels, [list(ticks.get_positions()) for ticks in axes.collections], strict=True))  # type: ignore[attr-defined]


def test_every_query_is_a_tick_at_its_best_score() -> None:
    """Of the three one is right, one is out of scope and answered, and one found nothing above the threshold."""
    assert ticks_of(result()) == {
        "wrongly answered · 1": [0.8],
        "nothing returned · 1": [0.29],
        "right · 1": [0.9],
    }


def test_without_scores_ticks_are_at_their_place_in_the_golden_data() -> None:
    assert sorted(place for ticks in ticks_of(without_scores()).values() for place in ticks) == [1.0, 2.0, 3.0]

"""Unjudged chunks by cell: the share that is judged, and the objective if all others were most relevant. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from statistics import fmean, median

from evals.collect.observations import Observation
from evals.grid.cells import Grid
from evals.grid.choice import Choice
from evals.grid.objective import describe
from evals.metrics.incomplete_labels import judged
from evals.metrics.ranking import MEASURES, Measure

# Cells that are looked at, the best first.
MOST = 200
# A cell whose share of judged chunks is so far below the median of all is marked.
FAR_BELOW = 0.1
RANKING = re.compile(r"ranking/(\w+)_at_(\d+)")


@dataclass(frozen=True, kw_only=True)
class Unjudged:
    """The bearing of unjudged chunks on a choice.

    Attributes:
        judged: Cell to the mean share of its returned chunks that is judged.
        best_case: Cell to its objective with its unjudged chunks counted as relevant, of the query's highest grade. As
            measured they count as not relevant, which is the worst case.
        sparse: Cells of which far fewer chunks are judged than of the others.
        statement: Whether they could change the choice, in a sentence; empty where all are judged.
    """

    judged: Mapping[int, float]
    best_case: Mapping[int, float]
    sparse: frozenset[int]
    statement: str


def unjudged(grid: Grid, choice: Choice, weights: Mapping[str, float]) -> Unjudged | None:
    """Return what unjudged chunks could change about a choice.

    Args:
        grid: The grid.
        choice: The choice among its cells.
        weights: Metrics of the objective, with their weights; those that are not ranking measures stay as they are.

    Returns:
        None where the golden data judge no chunk not relevant, so that nothing is known of the others.
    """
    measures = [
        (weight, MEASURES[match[1]].of_list, int(match[2]))
        for name, weight in weights.items()
        if (match := RANKING.fullmatch(name)) and match[1] in MEASURES
    ]
    shares, best_case = dict[int, float](), dict[int, float]()
    values = _values(choice)
    for cell, value in values.items():
        inside = [o for o in grid.observed(cell).observations if o.case.in_scope and o.case.is_labelled]
        if not any(o.relevance.irrelevant for o in inside):
            return None
        shares[cell] = fmean(judged(o.ranked_ids, o.relevance, len(o.ranked_ids)) for o in inside)
        gains = (weight * fmean(_gain(o, measure, k) for o in inside) for weight, measure, k in measures)
        best_case[cell] = value + sum(gains)
    middle = median(shares.values())
    return Unjudged(
        judged=shares,
        best_case=best_case,
        sparse=frozenset(cell for cell, share in shares.items() if share < middle - FAR_BELOW),
        statement=_statement(grid, choice, values, shares, best_case) if min(shares.values()) < 1 else "",
    )


def _values(choice: Choice) -> dict[int, float]:
    """Return the first cells with their values, the recommended one before all; equal cells may find other chunks."""
    standings = (choice.recommended, *choice.standings)
    cells = ((cell, standing.value) for standing in standings for cell in standing.members)
    return {choice.recommended.cell: choice.recommended.value} | dict(islice(cells, MOST))


def _gain(observation: Observation, measure: Measure, k: int) -> float:
    """Return what a measure gains where the unjudged among the first k count as relevant as the most relevant."""
    ranked, grades = observation.ranked_ids, observation.relevance.grades
    unknown = [key for key in ranked[:k] if key not in grades and key not in observation.relevance.irrelevant]
    if not unknown:
        return 0.0
    counted = measure(ranked, {**dict.fromkeys(unknown, max(grades.values(), default=1)), **grades}, k)
    # One more relevant chunk at a low rank also raises the ideal, and may lower nDCG.
    return max(0.0, counted - measure(ranked, grades, k))


def _statement(
    grid: Grid,
    choice: Choice,
    values: Mapping[int, float],
    shares: Mapping[int, float],
    best_case: Mapping[int, float],
) -> str:
    recommended, limit = choice.recommended.cell, choice.recommended.value + choice.margin
    over = [cell for cell, value in values.items() if value <= limit < best_case[cell] and cell != recommended]
    if not over:
        return (
            "Unjudged chunks do not change this: with them counted as relevant, no other cell rises to more than "
            f"{choice.margin:g} above the recommended one"
        )
    first = max(over, key=lambda cell: best_case[cell])
    likewise = f"; so could {len(over) - 1} more cells" if len(over) > 1 else ""
    return (
        f"Unjudged chunks could change this: {shares[first]:.0%} of what {describe(grid, first)} returns is judged, "
        f"against {shares[recommended]:.0%} of the recommended cell's; with the others counted as relevant it would "
        f"reach {best_case[first]:.3f} in place of {values[first]:.3f}{likewise}"
    )

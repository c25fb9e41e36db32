"""The choice among the cells of a grid, as the report has it. Pure."""

from evals.grid.choice import Choice, HeldOut, Standing, explain
from evals.grid.unjudged import Unjudged
from evals.report.model.choice import ChoiceSection, HeldOutEntry, StandingEntry

# Standings beyond these are left out, from the end; never a member of the confidence set or the recommended.
MOST_STANDINGS = 200
FALSE_ANSWER = "scope/false_answer"
# Share of falsely answered queries above which a recommendation says so.
MOST_FALSE_ANSWERS = 0.5


def choice_section(
    choice: Choice,
    held_out: HeldOut | None,
    false_answers: float | None = None,
    unjudged: Unjudged | None = None,
    most: int = MOST_STANDINGS,
) -> ChoiceSection:
    """Return the recommended cell and why, the confidence set of best cells, and the figure on held-out queries.

    Args:
        choice: The choice.
        held_out: The figure, None without held-out queries.
        false_answers: Share of the out-of-scope queries that the recommended cell answers, None where not known.
        unjudged: What unjudged chunks could change, None where nothing is known of them.
        most: Number of standings beyond which some are left out.
    """
    first, *others = explain(choice)
    return ChoiceSection(
        explanation=[first + _warning(false_answers), *others],
        unjudged=unjudged.statement if unjudged else "",
        objective=choice.objective,
        margin=choice.margin,
        n=choice.n,
        dropped=choice.dropped,
        cells=choice.n_cells,
        allowed=choice.n_allowed,
        best=choice.best.cell,
        recommended=choice.recommended.cell,
        proved=choice.proved,
        reason=choice.reason,
        queries_needed=choice.queries_needed,
        note=choice.note,
        set=[standing.cell for standing in choice.best_set],
        standings=[_standing(rank, standing, unjudged) for rank, standing in reported(choice, most)],
        held_out=HeldOutEntry.of(held_out) if held_out else None,
    )


def _warning(false_answers: float | None) -> str:
    if false_answers is None or false_answers <= MOST_FALSE_ANSWERS:
        return ""
    return (
        f". It answers {false_answers:.0%} of the out-of-scope queries: constrain that with "
        f"--objective.constraints '{FALSE_ANSWER} <= {MOST_FALSE_ANSWERS:g}'"
    )


def reported(choice: Choice, most: int = MOST_STANDINGS) -> list[tuple[int, Standing]]:
    """Return the standings that are reported, each with its place from 1."""
    ranked = enumerate(choice.standings, 1)
    return [(n, s) for n, s in ranked if n <= most or s.in_set or s.cell == choice.recommended.cell]


def _standing(rank: int, standing: Standing, unjudged: Unjudged | None) -> StandingEntry:
    return StandingEntry(
        place=rank,
        cell=standing.cell,
        members=list(standing.members),
        label=standing.label,
        cost=standing.cost,
        value=standing.value,
        ci_low=standing.interval.low,
        ci_high=standing.interval.high,
        in_set=standing.in_set,
        difference=standing.difference,
        lower=standing.lower,
        judged=unjudged.judged.get(standing.cell) if unjudged else None,
        best_case=unjudged.best_case.get(standing.cell) if unjudged else None,
        sparsely_judged=unjudged is not None and standing.cell in unjudged.sparse,
    )

"""A choice in three lines. Pure; rounding happens here."""

from evals.grid.choice.standings import Choice, Standing
from evals.stats.intervals import Interval


def explain(choice: Choice) -> tuple[str, str, str]:
    """Explain the recommended cell, the best cell, the number of cells that may be as good, and the reason."""
    return _recommended(choice), _best(choice), f"Reason: {choice.reason}"


def _recommended(choice: Choice) -> str:
    judged = "" if choice.judged is None else f", {choice.judged} of them judged"
    return f"Recommended: {_described(choice.recommended, choice.objective)} (n={choice.n}{judged}{_dropped(choice)})"


def _best(choice: Choice) -> str:
    count = sum(len(standing.members) for standing in choice.best_set)
    of = f"{choice.n_allowed:,} cells"
    if choice.n_proved_worse:
        of = f"the {of} judged to the end (of {choice.n_cells:,}; the others are not the best of these queries)"
    elif choice.n_allowed < choice.n_cells:
        of = f"{choice.n_allowed:,} cells that meet the constraints (of {choice.n_cells:,})"
    # 95% is said of all cells: those that judging dropped may be the best for other queries.
    certainty = choice.note or f"{count:,} of {of} may be the best{'' if choice.n_proved_worse else ' (95%)'}"
    measured = "Best as measured" if choice.judged is None else "Best by corrected verdicts"
    return f"{measured}: {_described(choice.best)}; {certainty}"


def _described(standing: Standing, objective: str = "") -> str:
    more = len(standing.members) - 1
    others = f", and {more:,} more cell{'s' * (more > 1)} with the same scores" if more else ""
    value = f"{objective} {standing.value:.3f}".lstrip()
    return f"{standing.label}{others} · {value} {_ends(standing.interval)} · {standing.cost:,.0f} tokens"


def _ends(interval: Interval) -> str:
    if interval.low is None or interval.high is None:
        return "(interval not computable)"
    return f"({interval.low:.3f} … {interval.high:.3f})"


def _dropped(choice: Choice) -> str:
    return f", {choice.dropped} not scored in all cells" if choice.dropped else ""

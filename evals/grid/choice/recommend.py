"""The recommended standing, and the reason."""

from collections.abc import Sequence

from evals.grid.choice.standings import Bools, Standing

PREFERRED = "of these it has the least strict threshold, then the lowest cost"


def recommend(standings: Sequence[Standing], margin: float, near: Bools | None = None) -> tuple[Standing, bool]:
    """Return the cheapest standing that is cheaper than the best and proved within the margin, or else the best.

    Args:
        standings: The best first.
        margin: Largest loss, in units of the objective.
        near: [cells], those that may be recommended in place of the best; None for all.

    Returns:
        It, and whether it is proved within the margin.
    """
    best = standings[0]
    near_enough = [s for s in standings if near is None or near[list(s.members)].any()]
    proved = [s for s in near_enough if s.cost < best.cost and _within(s, margin)]
    chosen = min(proved, key=lambda s: (s.cost, -s.value), default=best)
    return chosen, _within(chosen, margin)


def reason(
    standings: Sequence[Standing],
    chosen: Standing,
    margin: float,
    n: int,
    queries_needed: int | None,
    note: str,
    *,
    sampled: bool = False,
) -> str:
    """Explain in a sentence why `chosen` is recommended.

    Args:
        standings: The best first.
        chosen: One of them.
        margin: Largest loss, in units of the objective.
        n: Queries.
        queries_needed: For a cheaper one to be preferred.
        note: Reason why nothing is computable, or empty.
        sampled: True if a judge saw a sample of the queries, and the labels have a part in which is the best.
    """
    best, by = standings[0], "by corrected verdicts" if sampled else "as measured"
    if len(standings) == 1:
        n_tied = len(best.members)
        return (
            f"all {n_tied} cells scored the same on every query, and {PREFERRED}"
            if n_tied > 1
            else "it is the only cell"
        )
    if note:
        return f"it is the best {by}; whether a cheaper one is as good is {note}"
    if chosen is not best:
        return (
            f"it costs {chosen.cost:,.0f} context tokens instead of {best.cost:,.0f} and is proved not worse than the "
            f"best cell by more than {margin:g} (at most {-(chosen.lower or 0.0):.3f}, 95%)"
        )
    behind = f"at most {-chosen.lower:.3f} behind the truly best" if chosen.lower else "no cell is truly better"
    measured = f"it is the best {by} ({behind}, 95%)"
    if not any(s.cost < best.cost for s in standings):
        return f"{measured}, and none is cheaper"
    likes = _likes(chosen, margin)
    if queries_needed is None:
        return f"{measured}, and every cheaper cell is behind it by {margin:g} or more{likes}"
    return (
        f"{measured}; {n} queries are not enough to prefer a cheaper one, "
        f"about {_rounded(queries_needed):,} would be{likes}"
    )


def _likes(chosen: Standing, margin: float) -> str:
    """Warn against reading equal scores as equal cells."""
    if len(chosen.members) == 1 or _within(chosen, margin):
        return ""
    return f"; {len(chosen.members)} cells scored the same so far, which more queries may tell apart; {PREFERRED}"


def _within(standing: Standing, margin: float) -> bool:
    return standing.lower is not None and standing.lower >= -margin


def _rounded(number: int) -> int:
    """Round up to two digits: the number is not known better."""
    unit = int(10 ** max(0, len(str(number)) - 2))
    return -(-number // unit) * unit

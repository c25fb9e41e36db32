"""Which queries moved between two runs, most first. Pure."""

from collections.abc import Iterator, Sequence

from evals.report.comparison.differences import score_of
from evals.report.comparison.directions import direction
from evals.report.comparison.records import Difference, Moved, Pairing
from evals.report.headline import deepest
from evals.stats.intervals import SAME

BY = ("ranking/ndcg_at_K", "scope/abstention")
"""By these, at the deepest that both runs have: one is over the queries in scope, the other over those out of it."""


def movers(wanted: Sequence[str], differences: Sequence[Difference]) -> list[str]:
    """The metrics that queries are ordered by: those wanted, or the default ones, or else the first that moved.

    Args:
        wanted: Names; empty for the default.
        differences: The metrics that were compared.
    """
    paired = [one for one in differences if one.paired]
    names = {one.metric for one in paired}
    chosen = [name for name in wanted or [deepest(pattern, names) for pattern in BY] if name in names]
    fallback = [one.metric for one in paired if one.wins + one.losses]
    return chosen if chosen or wanted else fallback[:1]


def moved(pairing: Pairing, metrics: Sequence[str]) -> list[Moved]:
    """The queries whose score changed, by the metric by which it changed most; the worse one first where two are even.

    Args:
        pairing: The queries of both runs.
        metrics: Names of metrics that score queries.
    """
    found = [max(each, key=lambda one: abs(one.gain)) for each in _moves(pairing, metrics) if each]
    return sorted(found, key=lambda one: (-abs(one.gain), one.gain, one.baseline.id))


def _moves(pairing: Pairing, metrics: Sequence[str]) -> Iterator[list[Moved]]:
    for baseline, other in pairing.rows:
        each = []
        for metric in metrics:
            before, after = score_of(baseline, metric), score_of(other, metric)
            if not isinstance(before, float | int) or not isinstance(after, float | int):
                continue
            gain = before - after if direction(metric) == "lower" else after - before
            if abs(gain) > SAME:
                move = Moved(metric=metric, gain=gain, before=before, after=after, baseline=baseline, other=other)
                each.append(move)
        yield each

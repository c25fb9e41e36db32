"""The queries that moved between two runs, those that moved most first. Pure."""

from collections.abc import Iterator, Sequence

from evals.metrics import declared
from evals.report.comparison.differences import score_of
from evals.report.comparison.records import Difference, Moved, Pairing
from evals.report.headline import deepest
from evals.stats.intervals import SAME

# Default order, at the largest K of both runs: one metric covers the queries in scope, the other those out of scope.
BY = ("ranking/ndcg_at_K", "scope/abstention")


def movers(metrics: Sequence[str], differences: Sequence[Difference]) -> list[str]:
    """Return the metrics that queries are ordered by: those given, or the default ones where a query moved by them.

    By the first metric that a query moved by otherwise.

    Args:
        metrics: Names; empty for the default.
        differences: The metrics that were compared.
    """
    paired = [difference for difference in differences if difference.paired]
    names = {difference.metric for difference in paired}
    chosen = [name for name in metrics or [deepest(pattern, names) for pattern in BY] if name in names]
    changed = [difference.metric for difference in paired if difference.wins + difference.losses]
    return chosen if metrics or not changed or not set(chosen).isdisjoint(changed) else changed[:1]


def moved(pairing: Pairing, metrics: Sequence[str]) -> list[Moved]:
    """Return the queries whose score changed, by the metric by which it changed most; of equal ones the worse first.

    Args:
        pairing: The queries of both runs.
        metrics: Names of metrics that score queries.
    """
    largest = [max(moves, key=lambda move: abs(move.gain)) for moves in _moves(pairing, metrics) if moves]
    return sorted(largest, key=lambda move: (-abs(move.gain), move.gain, move.baseline.id))


def _moves(pairing: Pairing, metrics: Sequence[str]) -> Iterator[list[Moved]]:
    for baseline, other in pairing.rows:
        moves = []
        for metric in metrics:
            before, after = score_of(baseline, metric), score_of(other, metric)
            if not isinstance(before, float | int) or not isinstance(after, float | int):
                continue
            gain = before - after if declared(metric).direction == "lower" else after - before
            if abs(gain) > SAME:
                move = Moved(metric=metric, gain=gain, before=before, after=after, baseline=baseline, other=other)
                moves.append(move)
        yield moves

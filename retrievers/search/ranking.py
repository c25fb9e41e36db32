"""The total order of candidates: score descending, then chunk id, then point id. Pure.

A chunk's id is part of its payload, which is not read for every candidate. It is needed only where scores are equal, so
the order is made in two steps: find the candidates whose place depends on it (`tied`), then order by their ids.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from retrievers.store.chunk_table import Codes

Floats = NDArray[np.float64]
Places = NDArray[np.intp]
"""Places of candidates in an array, from 0."""
Name = Callable[[int], tuple[str, str]]
"""The chunk id and the point id of a code."""


def tied(scores: Floats, depth: int, *, every_place: bool) -> Places:
    """Return the places for which a chunk id decides who is among the best `depth` or, for `every_place`, where.

    Args:
        scores: Of all candidates.
        depth: Number of candidates that count.
        every_place: True if their places matter, and not only their membership.
    """
    best = np.sort(scores)[::-1]
    equal = best[1:] == best[:-1]
    if not equal.any():
        return np.empty(0, dtype=np.intp)
    if every_place:
        repeated = best[1:][equal]
        return np.flatnonzero(np.isin(scores, repeated[repeated >= best[min(depth, len(best)) - 1]]))
    if len(best) > depth and best[depth - 1] == best[depth]:
        return np.flatnonzero(scores == best[depth])
    return np.empty(0, dtype=np.intp)


def in_order(codes: Codes, scores: Floats, depth: int, undecided: Places | None, name: Name) -> Places:
    """Return the places of the best `depth` candidates in the total order.

    A collection made elsewhere may give several points one chunk id; the point id then decides.

    Args:
        codes: All candidates.
        scores: Their scores.
        depth: Number of candidates to keep.
        undecided: The places that are `tied`; None to let equal scores stand in any order.
        name: The ids of a candidate; asked for those that are tied alone.
    """
    if undecided is None or not len(undecided):
        return np.argsort(-scores, kind="stable")[:depth]
    names = {index: name(int(codes[index])) for index in undecided.tolist()}
    values, nameless = scores.tolist(), ("", "")
    order = sorted(range(len(values)), key=lambda index: (-values[index], names.get(index, nameless)))
    return np.asarray(order[:depth], dtype=np.intp)

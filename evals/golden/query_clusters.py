"""Queries as people ask them, to groups that ask the same. Pure."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from retrievers.config.languages import words


def clusters(
    queries: Sequence[str], embed: Callable[[Sequence[str]], NDArray[np.float64]], near: float
) -> list[list[str]]:
    """Return groups of queries, the most frequent group first; in each the most frequent wording first.

    Queries of the same words are one. Then each joins the most frequent one that it is near to.

    Args:
        queries: Queries, repeated as often as they were asked.
        embed: Queries to vectors of length 1.
        near: Cosine from which on two queries ask the same.
    """
    wordings: dict[tuple[str, ...], Counter[str]] = {}
    for query in queries:
        wordings.setdefault(tuple(words(query)) or (query,), Counter())[query] += 1
    groups = sorted(wordings.values(), key=lambda wording: (-wording.total(), min(wording)))
    if not groups:
        return []
    vectors = embed([wording.most_common(1)[0][0] for wording in groups])
    leaders: list[int] = []
    joined: dict[int, Counter[str]] = {}
    for number, wording in enumerate(groups):
        cosines = vectors[leaders] @ vectors[number] if leaders else np.zeros(0)
        best = int(np.argmax(cosines)) if leaders else -1
        if leaders and cosines[best] >= near:
            joined[leaders[best]] += wording
        else:
            leaders.append(number)
            joined[number] = Counter(wording)
    ordered = sorted(joined.values(), key=lambda counts: (-counts.total(), min(counts)))
    return [[query for query, count in counts.most_common() for _ in range(count)] for counts in ordered]

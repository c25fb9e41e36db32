"""Golden queries searched exactly: what the approximate search missed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeGuard

import numpy as np

from evals.collect.passes import ROUNDING, Progress
from retrievers.retriever.protocol import FindsNeighbours, Retriever
from retrievers.search.candidates import Candidates, CandidateTable

# Exact search goes as much further, so that points that rounding puts behind the last one are known to be as near.
MARGIN = 20


def is_approximate(retriever: Retriever) -> bool:
    """Return True if a retriever's search for vectors may miss near ones, and can be compared with an exact one."""
    info = retriever.info
    exact = (retriever.settings.search_params or {}).get("exact")
    return info is not None and info.is_approximate and not exact and _compares(retriever)


def _compares(retriever: Retriever) -> TypeGuard[FindsNeighbours]:
    """Return True if a retriever searches for vectors, and its collection lets it do so exactly."""
    if not isinstance(retriever, FindsNeighbours) or retriever.settings.mode == "keyword":
        return False
    return retriever.info is None or retriever.info.limits.exact


def with_ann_recall(
    retriever: Retriever, table: CandidateTable, depths: Sequence[int], progress: Progress
) -> CandidateTable:
    """Return the table with the recall of the search for vectors, query by query; as it is where there is none.

    Args:
        retriever: The retriever that found the candidates.
        table: Golden queries, with their vectors.
        depths: The numbers of nearest chunks; one beyond what the retriever searches for is left out.
        progress: Called with the stage, the number of queries done, and that of all.

    Raises:
        RetrievalError: A search failed.
    """
    measured = [k for k in depths if k <= retriever.settings.candidates]
    if not measured or not _compares(retriever):
        return table
    recalls, chunks, settings = list[Mapping[int, float]](), retriever.chunk_table(), retriever.settings
    for start in range(0, len(table), retriever.batch_size):
        vectors: Any = table.vectors[start : start + retriever.batch_size]
        exact = retriever.neighbours(vectors, {"exact": True}, max(measured) + MARGIN, chunks)
        found = retriever.neighbours(vectors, settings.search_params, settings.candidates, chunks)
        pairs = zip(exact, found, strict=True)
        recalls += [{k: recall(truth, points, k) for k in measured} for truth, points in pairs]
        progress("searching exactly", len(recalls), len(table))
    return replace(table, ann_recall=tuple(recalls))


def recall(exact: Candidates, found: Candidates, k: int) -> float:
    """Return the share of the k nearest points that a search has among its first k, 0 to 1.

    Near is what is as near as the k-th exact one, so that which of several equally near ones was found does not
    matter; scores that differ by rounding are equal. The scores of the search itself, which may be those of quantised
    vectors, only say which its first k are. 1 for an empty collection, in which nothing can be missed.
    """
    count = min(k, len(exact))
    if not count:
        return 1.0
    last = np.sort(exact.scores)[::-1][count - 1]
    least = last - ROUNDING * max(1.0, abs(last))
    first = found.codes[np.argsort(-found.scores, kind="stable")][:count]
    return float(np.isin(first, exact.codes[exact.scores >= least]).sum() / count)

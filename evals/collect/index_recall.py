"""Golden queries searched exactly: what the approximate search missed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeGuard

import numpy as np

from evals.collect.passes import ROUNDING, Progress
from retrievers.retriever.protocol import FindsNeighbours, Retriever
from retrievers.search.candidates import Candidates, CandidateTable, Chunks

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
    if not _compares(retriever):
        return table
    recalls: list[Mapping[int, float]] = []
    for start in range(0, len(table), retriever.batch_size):
        recalls.extend(_recalls(retriever, table.vectors[start : start + retriever.batch_size], depths))
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


def _recalls(retriever: FindsNeighbours, vectors: Sequence[Any], depths: Sequence[int]) -> list[Mapping[int, float]]:
    """Return for each vector the recall at each depth that is searched for."""
    settings = retriever.settings
    measured = [k for k in depths if k <= settings.candidates]
    if not measured:
        return [{} for _ in vectors]
    chunks: Chunks = retriever.chunk_table()
    exact = retriever.neighbours(vectors, {"exact": True}, max(measured) + MARGIN, chunks)
    found = retriever.neighbours(vectors, settings.search_params, settings.candidates, chunks)
    return [{k: recall(truth, points, k) for k in measured} for truth, points in zip(exact, found, strict=True)]

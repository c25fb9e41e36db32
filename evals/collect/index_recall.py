"""Golden queries searched exactly: what the approximate search missed, and what other parameters would find."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, TypeGuard

import numpy as np

from evals.collect.observations import IndexTrial
from evals.collect.passes import ROUNDING, Progress
from evals.collect.saved.retriever import SavedRetriever
from retrievers.config import QuantizationSearchConfig, SearchConfig
from retrievers.retriever.protocol import FindsNeighbours, Retriever
from retrievers.search.candidate_table import Candidates, CandidateTable, Chunks

# Exact search goes as much further, so that points that rounding puts behind the last one are known to be as near.
MARGIN = 20
WIDER = (2, 4, 8)


def is_approximate(retriever: Retriever) -> bool:
    """Return True if a retriever's search for vectors may miss near ones, and can be compared with an exact one."""
    if isinstance(retriever, SavedRetriever):
        return any(retriever.variant.table.ann_recall)
    info = retriever.info
    return info is not None and info.is_approximate and not retriever.settings.search.exact and _compares(retriever)


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
    configured = retriever.settings.search
    recalls: list[Mapping[int, float]] = []
    for start in range(0, len(table), retriever.batch_size):
        [more] = _recalls(retriever, table.vectors[start : start + retriever.batch_size], depths, [configured])
        recalls.extend(more)
        progress("searching exactly", len(recalls), len(table))
    return replace(table, ann_recall=tuple(recalls))


def trials(
    retriever: Retriever, table: CandidateTable, depths: Sequence[int], progress: Progress
) -> tuple[IndexTrial, ...]:
    """Return the recall that wider beams would have, and rescoring where vectors are quantised.

    Args:
        retriever: The retriever; a search that cannot be widened has no trials.
        table: Golden queries, with their vectors.
        depths: The numbers of nearest chunks.
        progress: Called with the stage, the number of queries done, and that of all.

    Raises:
        RetrievalError: A search failed.
    """
    if not (is_approximate(retriever) and _compares(retriever)):
        return ()
    tried = _other_parameters(retriever)
    gathered: list[list[Mapping[int, float]]] = [[] for _ in tried]
    for start in range(0, len(table), retriever.batch_size):
        vectors = table.vectors[start : start + retriever.batch_size]
        for of_trial, recalls in zip(gathered, _recalls(retriever, vectors, depths, list(tried.values())), strict=True):
            of_trial.extend(recalls)
        progress("trying wider searches", start + len(vectors), len(table))
    return tuple(
        IndexTrial(settings=name, recall={k: fmean(each[k] for each in recalls) for k in recalls[0]})
        for name, recalls in zip(tried, gathered, strict=True)
    )


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


def _recalls(
    retriever: FindsNeighbours, vectors: Sequence[Any], depths: Sequence[int], searches: Sequence[SearchConfig]
) -> list[list[Mapping[int, float]]]:
    """Return for each search, and each vector, the recall at each depth that is searched for."""
    depth = retriever.settings.candidates
    measured = [k for k in depths if k <= depth]
    if not measured:
        return [[{} for _ in vectors] for _ in searches]
    chunks: Chunks = retriever.chunk_table()
    exact = retriever.neighbours(vectors, SearchConfig(exact=True), max(measured) + MARGIN, chunks)
    return [
        [
            {k: recall(truth, points, k) for k in measured}
            for truth, points in zip(exact, retriever.neighbours(vectors, search, depth, chunks), strict=True)
        ]
        for search in searches
    ]


def _other_parameters(retriever: FindsNeighbours) -> dict[str, SearchConfig]:
    """Return the parameters that are tried, by the settings that choose them."""
    info, search = retriever.info, retriever.settings.search
    assert info is not None
    by_name: dict[str, SearchConfig] = {}
    if info.in_hnsw:
        beam = max(search.hnsw_ef or info.ef_construct, retriever.settings.candidates + 1)
        most = info.limits.hnsw_ef or WIDER[-1] * beam
        for wider in dict.fromkeys(min(most, times * beam) for times in WIDER):
            by_name[f"search.hnsw_ef {wider}"] = search.model_copy(update={"hnsw_ef": wider})
    if info.quantization and not search.quantization.ignore:
        factor = min(2.0, info.limits.oversampling or 2.0)
        rescored = QuantizationSearchConfig(rescore=True, oversampling=factor)
        by_name[f"search.quantization.rescore with oversampling {factor:g}"] = search.model_copy(
            update={"quantization": rescored}
        )
    return by_name

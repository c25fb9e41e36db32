"""Holes of the labels: chunks that nobody judged, or that judge and labels disagree on, most decisive first. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import log2

from evals.golden.evidence import Relevance
from evals.golden.labelling.annotator_agreement import Pair
from evals.golden.labelling.pool import PooledCase
from retrievers.records import Chunk


def holes(
    rankings: Iterable[Mapping[str, Sequence[Chunk]]],
    relevance: Mapping[str, Relevance],
    disagreements: Collection[Pair],
) -> dict[Pair, float]:
    """Return the pairs of query and chunk that a label could change a figure by, with their weight.

    The weight is what the chunk can add to the DCG of all systems together, Σ 1 / log2(rank + 1): a chunk that many
    rank high moves their figures most.

    Args:
        rankings: For each system its chunks by case id, in rank order.
        relevance: What the golden data says of these chunks.
        disagreements: Pairs of which a judge says another thing than the golden data.
    """
    weights: dict[Pair, float] = {}
    for ranking in rankings:
        for case_id, chunks in ranking.items():
            judged = relevance[case_id].grades.keys() | relevance[case_id].irrelevant
            for rank, chunk in enumerate(chunks, 1):
                pair = (case_id, chunk.chunk_id)
                if chunk.chunk_id not in judged or pair in disagreements:
                    weights[pair] = weights.get(pair, 0.0) + 1 / log2(rank + 1)
    return weights


def most_decisive(pooled: Iterable[PooledCase], weights: Mapping[Pair, float]) -> list[PooledCase]:
    """Return the pairs of a pool that have a weight: queries by their heaviest chunk, and chunks, heaviest first."""

    def weight(case_id: str, chunk: Chunk) -> float:
        return weights.get((case_id, chunk.chunk_id), 0.0)

    entries = [
        PooledCase(
            case=entry.case,
            chunks=tuple(
                sorted(
                    (chunk for chunk in entry.chunks if weight(entry.case.id, chunk)),
                    key=lambda chunk: -weight(entry.case.id, chunk),
                )
            ),
        )
        for entry in pooled
    ]
    entries = [entry for entry in entries if entry.chunks]
    return sorted(entries, key=lambda entry: -weight(entry.case.id, entry.chunks[0]))

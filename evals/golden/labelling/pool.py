"""The pool: for each query the chunks that some system ranked high, in an order that says nothing of the systems. Pure.

Source: pooling as TREC does it (Spärck Jones and van Rijsbergen 1975; Voorhees and Harman 2005, TREC, chapter 3).
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from evals.golden.case import Case
from retrievers.records import Chunk


@dataclass(frozen=True, kw_only=True)
class PooledCase:
    """A query, and the chunks to judge for it, shuffled."""

    case: Case
    chunks: tuple[Chunk, ...]


def pool(cases: Sequence[Case], rankings: Iterable[Mapping[str, Sequence[Chunk]]], seed: int) -> list[PooledCase]:
    """Return the union of rankings by query, queries and chunks in random order.

    The order of a query's chunks depends on the seed, its id and theirs alone, so that a system that is added later
    moves none of them to the front, and every annotator reads the same order.

    Args:
        cases: Golden queries.
        rankings: For each system its chunks by case id, cut at the pool's depth.
        seed: Seed of the order.
    """
    union: dict[str, dict[str, Chunk]] = {}
    for ranking in rankings:
        for case_id, chunks in ranking.items():
            union.setdefault(case_id, {}).update({chunk.chunk_id: chunk for chunk in chunks})
    pooled = [
        PooledCase(
            case=case,
            chunks=tuple(sorted(union[case.id].values(), key=lambda chunk: _place(seed, case.id, chunk.chunk_id))),
        )
        for case in cases
        if union.get(case.id)
    ]
    return sorted(pooled, key=lambda entry: _place(seed, entry.case.id))


def _place(seed: int, *names: str) -> float:
    return random.Random("\0".join([str(seed), *names])).random()

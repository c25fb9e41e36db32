"""The part of a report that labels can change: its depth, its holes and disagreements, what labels changed since."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import log2
from typing import Any

from evals.config.sweep import AXES
from evals.golden.case import Case
from evals.golden.evidence import Relevance
from evals.golden.labelling.annotator_agreement import Pair
from evals.golden.labelling.pool import PooledCase
from evals.golden.returned_evidence import resolve_returned
from evals.report.model import Report
from retrievers.records import Chunk


def deciding_depth(report: Report, settings: Mapping[str, Any]) -> int:
    """Return the depth to which the chunks of a retrieval decide.

    It is the run's top_k; of a grid, the largest of the cells that may be best and retrieve so. It is 0 where there is
    none, and the largest of all that may be best for a retrieval that the grid does not have.

    Args:
        report: The run or the grid.
        settings: Settings of the retrieval, by dotted name.
    """
    grid = report.grid
    if grid is None or grid.choice is None:
        return int(report.config["retriever"]["top_k"])
    cells = {
        cell: (number, top_k)
        for cell, number, top_k in zip(grid.cells.index, grid.cells.configuration, grid.cells.top_k, strict=True)
    }
    best = [cells[standing.cell] for standing in grid.choice.best_set if standing.cell in cells]
    alike = {
        number
        for number, configuration in enumerate(grid.configurations)
        if all(
            settings.get(AXES[name].setting if name in AXES else name, value) == value
            for name, value in configuration.parameters.items()
        )
    }
    return max((top_k for number, top_k in best if number in alike or not alike), default=0)


def disagreements(report: Report, cases: Sequence[Case]) -> set[Pair]:
    """Return case and chunk id of the verdicts that differ from the report's labels, and that no person has decided."""
    decided = {(case.id, chunk_id) for case in cases for chunk_id in case.human_verdicts}
    return {
        (row.id, hit.chunk_id)
        for row in report.queries
        for hit in row.retrieved
        if hit.verdict is not None and hit.verdict != int(hit.grade > 0)
    } - decided


def known_of(cases: Sequence[Case], rankings: Sequence[Mapping[str, Sequence[Chunk]]]) -> Mapping[str, Relevance]:
    """Return what golden data says of the chunks of some rankings."""
    union = {
        case.id: list({chunk.chunk_id: chunk for ranking in rankings for chunk in ranking.get(case.id, ())}.values())
        for case in cases
    }
    return resolve_returned(cases, union, None)


def changed_since(report: Report, relevance: Mapping[str, Relevance]) -> str:
    """Return what the golden data of today says of the chunks that a report returned, beside what it said then."""
    before, after = [0, 0, 0], [0, 0, 0]  # chunks judged, chunks relevant, queries with a relevant chunk
    returned, queries = 0, 0
    for row in report.queries:
        if not row.in_scope or row.id not in relevance:
            continue
        now, ids = relevance[row.id], [hit.chunk_id for hit in row.retrieved]
        returned, queries = returned + len(ids), queries + 1
        for counts, relevant, irrelevant in (
            (before, row.relevant.keys(), set(row.irrelevant)),
            (after, now.grades.keys(), now.irrelevant),
        ):
            counts[0] += sum(chunk_id in relevant or chunk_id in irrelevant for chunk_id in ids)
            counts[1] += sum(chunk_id in relevant for chunk_id in ids)
            counts[2] += not relevant.isdisjoint(ids)
    return (
        f"Of the {returned} chunks that {report.name} returned in scope: judged {before[0]} → {after[0]}, relevant "
        f"{before[1]} → {after[1]}; queries with a relevant chunk {before[2]} → {after[2]} of {queries}"
    )


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

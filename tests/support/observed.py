"""Small observations by hand (chunks, candidates, results, cases), and metrics of the table on them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from evals.cases.case import Case
from evals.cases.pages import SourcePages
from evals.cases.relevance import Relevance
from evals.collect.observations import Observation, Score
from evals.collect.pool import Pool
from evals.metrics import metric_named
from evals.metrics.declaration import Context, QueryMetric
from evals.metrics.results import Results
from retrievers.records import Chunk, RetrievedChunk, StageTimings
from retrievers.search.candidates import Candidates, ChunkList, Hits, SearchFacts, joined

NAN = float("nan")


def candidates_of(hits: Sequence[RetrievedChunk], text: str = "query", **facts: Any) -> Hits:
    """Return candidates of a query that took 1 ms, with further facts of it (`no_cosine`, `distance`, ...)."""
    return found_candidates(hits, **{"text": text, "timings": StageTimings(total_ms=1.0), **facts})[0]


def found_candidates(hits: Sequence[RetrievedChunk], chunks: ChunkList | None = None, **facts: Any) -> Candidates:
    """Return what a search found for one query, in the order that is given; their chunks are added to `chunks`."""
    chunks = ChunkList() if chunks is None else chunks
    own = [
        {"score": hit.score, "original_rank": hit.original_rank, "original_score": hit.original_score, **hit.scores}
        for hit in hits
    ]
    columns = {
        name: np.asarray([[NAN if (value := each.get(name)) is None else value for each in own]], dtype=np.float64)
        for name in dict.fromkeys(["score", *(name for each in own for name in each)])
    }
    distance = facts.get("distance", "cosine")
    told = {"scale": hits[0].score_scale if hits else distance, **facts}
    codes = np.asarray([[chunks.code(hit.chunk) for hit in hits]], dtype=np.int64)
    return Candidates(codes=codes, columns=columns, chunks=chunks, facts=(SearchFacts(**told),))


PAGE = "/docs/page"


def make_chunk(chunk_id: str, text: str | None = None, **fields: Any) -> Chunk:
    values = {"source_url": PAGE, **fields}
    return Chunk(chunk_id=chunk_id, point_id=f"point-{chunk_id}", text=f"text of {chunk_id}" if text is None else text,
                 **values)  # fmt: skip


def results(*chunks: Chunk | str, scores: Sequence[float] | None = None) -> tuple[RetrievedChunk, ...]:
    found = [make_chunk(chunk) if isinstance(chunk, str) else chunk for chunk in chunks]
    given = scores if scores is not None else [0.9 - 0.01 * place for place in range(len(found))]
    return tuple(
        RetrievedChunk(rank=rank, score=score, score_scale="cosine", scores={"semantic": score}, chunk=chunk)
        for rank, (chunk, score) in enumerate(zip(found, given, strict=True), 1)
    )


def make_case(case_id: str = "q", **fields: Any) -> Case:
    values: dict[str, Any] = {"id": case_id, "query": f"query {case_id}", **fields}
    if values.get("in_scope", True) and not values.get("evidence"):
        values.setdefault("relevant_ids", {"a": 1})
    return Case.model_validate(values)


def observe(
    returned: Sequence[RetrievedChunk] = (),
    grades: Mapping[str, int] | None = None,
    *,
    items: Sequence[frozenset[str]] | None = None,
    irrelevant: Collection[str] = (),
    candidates: Sequence[RetrievedChunk] | None = None,
    case: Case | None = None,
    total_ms: float = 1.0,
) -> Observation:
    grades = grades or {}
    found = candidates_of(returned if candidates is None else candidates, timings=StageTimings(total_ms=total_ms))
    relevance = Relevance(
        grades=grades,
        items=tuple(items) if items is not None else tuple(frozenset([i]) for i in grades),
        irrelevant=frozenset(irrelevant),
    )
    return Observation(
        case=case or make_case(), relevance=relevance, candidates=found, selection=candidates_of(returned)
    )


def make_context(
    *, required: Sequence[str] = (), sources: SourcePages | None = None, texts: Mapping[str, str] | None = None
) -> Context:
    return Context(required=tuple(required), sources=sources, relevant_texts=texts or {}, seed=0)


def results_of(observations: Sequence[Observation]) -> Results:
    chunks, tables = ChunkList(), []
    places = np.full((len(observations), max((len(o.selection) for o in observations), default=0) or 1), -1)
    for row, observation in enumerate(observations):
        table = found_candidates(observation.candidates, chunks)
        left = table.codes[0].tolist()
        for rank, chunk in enumerate(observation.selection.chunks):
            places[row, rank] = place = left.index(chunks.code(chunk))
            left[place] = -1  # a chunk may be found twice
        tables.append(replace(table, facts=(observation.candidates.facts,)))
    pool = Pool(
        cases=tuple(o.case for o in observations),
        tables=(joined(tables),),
        relevance=(tuple(o.relevance for o in observations),),
    )
    return Results(pool.lists([0]), np.arange(len(observations)), places)


def scored(
    metric: QueryMetric | str, observations: Sequence[Observation], context: Context | None = None
) -> list[Score]:
    results, found = results_of(observations), metric_of(metric)
    values, (rows, _) = found.values(results, context or make_context()), results.of(found.scope, labelled=False)
    return [values[row] for row in rows.tolist()]


def scorer(metric: str) -> Callable[..., Score]:
    return lambda observation, context=None: scored(metric, [observation], context)[0]


def metric_of(name: QueryMetric | str) -> QueryMetric:
    metric = metric_named(name) if isinstance(name, str) else name
    assert isinstance(metric, QueryMetric)
    return metric

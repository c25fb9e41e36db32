"""Small observations by hand: chunks, results, cases, and all that a metric is computed from."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from evals.cases.case import Case
from evals.cases.pages import SourcePages
from evals.cases.relevance import Relevance
from evals.collect.observations import Observation
from evals.metrics.declaration import Context
from retrievers.records import Chunk, RetrievedChunk, StageTimings
from tests.support.candidates import candidates_of

PAGE = "/docs/page"


def make_chunk(chunk_id: str, text: str | None = None, **fields: Any) -> Chunk:
    """Return a chunk of `PAGE` with a text of its own."""
    values = {"source_url": PAGE, **fields}
    return Chunk(chunk_id=chunk_id, point_id=f"point-{chunk_id}", text=f"text of {chunk_id}" if text is None else text,
                 **values)  # fmt: skip


def results(*chunks: Chunk | str, scores: Sequence[float] | None = None) -> tuple[RetrievedChunk, ...]:
    """Return chunks (or ids of chunks) as a ranked result, by default with falling scores from 0.9."""
    found = [make_chunk(chunk) if isinstance(chunk, str) else chunk for chunk in chunks]
    given = scores if scores is not None else [0.9 - 0.01 * place for place in range(len(found))]
    return tuple(
        RetrievedChunk(rank=rank, score=score, score_scale="cosine", scores={"semantic": score}, chunk=chunk)
        for rank, (chunk, score) in enumerate(zip(found, given, strict=True), 1)
    )


def make_case(case_id: str = "q", **fields: Any) -> Case:
    """Return an in-scope case, unless `in_scope=False` is among the fields."""
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
    """Return the observation of a case with these relevant chunks; the candidates are the results if not given."""
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
    """Return the inputs of metrics besides observations, with seed 0."""
    return Context(required=tuple(required), sources=sources, relevant_texts=texts or {}, seed=0)

"""Runs over observations put together by hand: one of three queries, one of which a sample was judged."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from evals.collect.observations import Observation, Score
from evals.config.experiment import ExperimentConfig
from evals.grid.measure import Measured, measure_pool
from evals.grid.sampled import sampled_summary
from evals.judge.tasks import PRECISION
from evals.metrics import METRICS
from evals.metrics.declaration import Collaborators
from evals.report.build import build_report
from evals.report.model import CollectionFacts, Facts, Report
from evals.sampling.order import NOT_DRAWN
from retrievers.records import RetrievedChunk
from tests.support.experiment import silent
from tests.support.observed import make_case, make_chunk, observe, results_of


def hit(rank: int, score: float, chunk_id: str, **values: Any) -> RetrievedChunk:
    place = {"file_path": f"{chunk_id}.md", "start_line": rank, "end_line": rank + 1, "module": "m"}
    about = {"source_url": f"/docs/{chunk_id}", "heading": f"Heading of {chunk_id}"}
    chunk = make_chunk(chunk_id, **{**place, **about, **values})
    return RetrievedChunk(rank=rank, score=score, score_scale="cosine", scores={"semantic": score}, chunk=chunk)


def observation(
    name: str, candidates: Sequence[RetrievedChunk], kept: int, grades: dict[str, int] | None = None, **values: Any
) -> Observation:
    case = make_case(name, **{"relevant_ids": grades or {}, "in_scope": bool(grades), **values})
    return observe(candidates[:kept], grades, candidates=candidates, case=case)


RIGHT = observation("right", [hit(1, 0.9, "a"), hit(2, 0.5, "b"), hit(3, 0.2, "c")], 2, {"a": 2, "c": 1})
WRONG = observation("wrong", [hit(1, 0.8, "b"), hit(2, 0.1, "a")], 1)
EMPTY = observation("empty", [hit(n, 0.3 - n / 100, f"d{n}") for n in range(1, 6)], 0, {"d5": 1})
FEW = ("ranking/hit_rate_at_5", "ragas/id_context_recall", "content/topic_match", "scope/abstention", "queries/*")
FACTS = Facts(
    started_at="2026-01-02T03:04:05+00:00",
    dataset="golden.jsonl",
    dataset_fingerprint="beef",
    collection=CollectionFacts(name="robots", points=1234, fingerprint="c0ffee"),
    retriever="QdrantRetriever",
    embedding="wordllama:l2",
    commit="abc-dirty",
    versions={"python": "3.11", "ragas": "0.4.3"},
)


def config(name: str = "by hand", **retriever: Any) -> ExperimentConfig:
    settings = {"top_k": 3, "candidates": 5, **(retriever or {"mode": "semantic", "threshold": 0.3})}
    return ExperimentConfig.model_validate({"name": name, "metrics": FEW, "retriever": settings})


def report(made: Measured | None = None, known: Facts = FACTS) -> Report:
    return build_report(made or result(), known, run="", ragas_check=None)


def result(*given: Observation, **changes: Any) -> Measured:
    context = {name: changes.pop(name) for name in ("judging", "trust") if name in changes}
    pool = replace(results_of(given or (RIGHT, WRONG, EMPTY)).lists.pool, texts={}, notes=((),))
    made = measure_pool(changes.pop("config", config()), pool, Collaborators(retrievers=(), progress=silent))
    return replace(made, context=replace(made.context, **context), **changes)


# A sample of the queries was judged

JUDGED: Sequence[Score] = (1.0, 0.5, 0.25, 0.0, 1.0, 0.75) * 4
"""Scores of the first queries; the others were not drawn."""
LABELS: Sequence[float] = (1.0, 0.5, 0.5, 0.0, 1.0, 0.5) * 4 + (1.0, 0.5, 0.0) * 12


def sampled_result(judged: Sequence[Score] = JUDGED, labels: Sequence[float] = LABELS) -> Measured:
    """Return a run of as many queries as there are labels, of two types."""
    metric: Any = METRICS[PRECISION]
    ids = [f"q{place}" for place in range(len(labels))]
    scores = [*judged, *[NOT_DRAWN] * (len(labels) - len(judged))]
    cases = [
        observation(name, [hit(1, 0.9, "x")], 1, {"x": 1}, query_type=("factual", "keyword")[place % 2])
        for place, name in enumerate(ids)
    ]
    return result(
        *cases,
        scores={PRECISION: dict(zip(ids, scores, strict=True))},
        proxies={PRECISION: dict(zip(ids, labels, strict=True))},
        summaries=(sampled_summary(metric, scores, labels, "labels/context_precision", weight=None),),
    )

"""Finished runs put together by hand: one of three queries, one without scores, one of which a sample was judged."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from evals.cases.case import Case
from evals.cases.relevance import Relevance
from evals.collect.observations import (
    Failure,
    Gate,
    Observation,
    Observed,
    Outcome,
    Score,
    Summary,
    Unscored,
    ValidationReport,
)
from evals.config.experiment import ExperimentConfig
from evals.grid.measure import Measured
from evals.grid.sampled import sampled_summary
from evals.judge.tasks import PRECISION
from evals.metrics import METRICS
from evals.metrics.criteria import judge
from evals.metrics.declaration import QueryMetric
from evals.report.build import build_report
from evals.report.model import CollectionFacts, Facts, Report
from evals.sampling.order import NOT_DRAWN
from retrievers.records import RetrievedChunk
from tests.support.observed import candidates_of, make_chunk, make_context, results_of


def hit(rank: int, score: float, chunk_id: str, **values: Any) -> RetrievedChunk:
    place = {"file_path": f"{chunk_id}.md", "start_line": rank, "end_line": rank + 1, "module": "m"}
    about = {"source_url": f"/docs/{chunk_id}", "heading": f"Heading of {chunk_id}"}
    chunk = make_chunk(chunk_id, **{**place, **about, **values})
    return RetrievedChunk(rank=rank, score=score, score_scale="cosine", scores={"semantic": score}, chunk=chunk)


def observation(
    name: str, candidates: Sequence[RetrievedChunk], kept: int, grades: dict[str, int] | None = None, **values: Any
) -> Observation:
    row: dict[str, Any] = {"id": name, "query": f"query {name}", "relevant_ids": grades or {}, "in_scope": bool(grades)}
    return Observation(
        case=Case.model_validate(row | values),
        relevance=Relevance(grades=grades or {}, items=tuple(frozenset([key]) for key in grades or {})),
        candidates=(known := candidates_of(candidates, row["query"])),
        selection=known.at(range(kept)),
    )


def verdict(outcome: Outcome, *reasons: str, relevance: float = 0.0) -> dict[str, Any]:
    return {
        "outcomes": outcome,
        "reasons": reasons,
        "metadata_accuracy": None,
        "content_relevance": relevance,
        "accuracy_scores": relevance,
        "times_ms": 1.5,
    }


def report_of(verdicts: Sequence[Mapping[str, Any]]) -> ValidationReport:
    columns: dict[str, Any] = {name: tuple(one[name] for one in verdicts) for name in verdict("SUCCESS")}
    return ValidationReport(**columns)


RIGHT = observation("right", [hit(1, 0.9, "a"), hit(2, 0.5, "b"), hit(3, 0.2, "c")], 2, {"a": 2, "c": 1})
WRONG = observation("wrong", [hit(1, 0.8, "b"), hit(2, 0.1, "a")], 1)
EMPTY = observation("empty", [hit(n, 0.3 - n / 100, f"d{n}") for n in range(1, 6)], 0, {"d5": 1})
SUMMARIES = (
    Summary(metric="ranking/hit_rate_at_5", value=0.5, ci_low=0.0945, ci_high=0.9055, n=2),
    Summary(metric="ranking/precision_at_3", value=1 / 6, n=2, note="not computable: too few"),
    Summary(metric="ragas/id_context_recall", value=0.5, n=19, n_failed=1, bound_low=0.25, bound_high=0.75),
    Summary(metric="content/topic_match", value=None, n_unscored=2, note="the case names no topics"),
    Summary(metric="latency/total_p95_ms", value=1234.56, ci_low=1000.0, ci_high=1500.04, n=6),
    Summary(metric="queries/pass_rate", value=1 / 3, ci_low=0.06, ci_high=0.79, n=3),
)
GATES = (
    Gate(metric="ranking/hit_rate_at_5", condition=">= 0.4", figure=0.5, passed=True, reason=""),
    Gate(metric="content/topic_match", condition=">= 0.4", figure=None, passed=False, reason="no value: no topics"),
)


FACTS = Facts(
    started_at="2026-01-02T03:04:05+00:00",
    dataset="golden.jsonl",
    dataset_fingerprint="beef",
    in_scope=2,
    out_of_scope=1,
    collection=CollectionFacts(name="robots", points=1234, fingerprint="c0ffee"),
    retriever="QdrantRetriever",
    relevance="collection",
    embedding="wordllama:l2",
    commit="abc-dirty",
    versions={"python": "3.11", "ragas": "0.4.3"},
    seed=0,
)


def facts(**changes: Any) -> Facts:
    return FACTS.model_copy(update=changes)


def config(name: str = "by hand", **retriever: Any) -> ExperimentConfig:
    settings = {"top_k": 3, "candidates": 5, **(retriever or {"mode": "semantic", "threshold": 0.3})}
    return ExperimentConfig.model_validate({"name": name, "retriever": settings})


def report(made: Measured | None = None, known: Facts = FACTS) -> Report:
    return build_report(made or result(), known, run="", ragas_check=None)


def result(**changes: Any) -> Measured:
    observations = (RIGHT, WRONG, EMPTY)
    made = Measured(
        config=config(),
        observed=Observed(observations=observations),
        results=results_of(observations),
        context=make_context(),
        scores={
            "ranking/hit_rate_at_5": {"right": 1.0, "empty": 0.0},
            "ragas/id_context_recall": {"right": 0.5, "empty": Failure(type="ValueError", message="no contexts")},
            "content/topic_match": {name: Unscored(reason="the case names no topics") for name in ("right", "empty")},
            "scope/abstention": {"wrong": 0.0},
        },
        summaries=SUMMARIES,
        gates=GATES,
        validation=report_of(
            [
                verdict("SUCCESS", relevance=0.5),
                verdict("FAILURE", "out of scope, but 1 chunk was returned"),
                verdict("FAILURE", "returned 0 chunks, expected at least 1", "and more", "and yet more"),
            ]
        ),
        notes=("one thing to know",),
    )
    context = {name: changes.pop(name) for name in ("judging", "trust") if name in changes}
    if "observed" in changes:
        changes.setdefault("results", results_of(changes["observed"].observations))
    return replace(made, context=replace(made.context, **context), **changes)


def without_scores() -> Measured:
    """Return the same run of a retriever that gives no scores and whose chunks cannot be listed."""

    def bare(found: Sequence[RetrievedChunk]) -> tuple[RetrievedChunk, ...]:
        return tuple(replace(one, score=None, score_scale="none", scores={}) for one in found)

    whole = result()
    observations = tuple(
        replace(
            o,
            candidates=(known := candidates_of(bare(o.candidates), no_cosine="it gives no scores")),
            selection=known.at(range(len(o.selection))),
            relevance=replace(o.relevance, incomplete="cannot be listed"),
        )
        for o in whole.observed.observations
    )
    return replace(
        whole,
        config=config(python="mine:make"),
        observed=replace(whole.observed, observations=observations, listed=False),
        results=results_of(observations),
    )


UNLISTED = facts(retriever="Bm25", relevance="returned", embedding=None, collection=None)
"""The facts of that run."""


# A sample of the queries was judged

JUDGED: Sequence[Score] = (1.0, 0.5, 0.25, 0.0, 1.0, 0.75) * 4
"""Scores of the first queries; the others were not drawn."""
LABELS: Sequence[float] = (1.0, 0.5, 0.5, 0.0, 1.0, 0.5) * 4 + (1.0, 0.5, 0.0) * 12


def sampled_result(
    judged: Sequence[Score] = JUDGED,
    labels: Sequence[float] = LABELS,
    criteria: Mapping[str, str] | None = None,
    types: Sequence[str] = ("factual", "keyword"),
) -> Measured:
    """Return a run of as many queries as there are labels, whose types take turns."""
    metric: Any = METRICS[PRECISION]
    assert isinstance(metric, QueryMetric)
    ids = [f"q{place}" for place in range(len(labels))]
    scores = [*judged, *[NOT_DRAWN] * (len(labels) - len(judged))]
    summary = sampled_summary(metric, scores, labels, "labels/context_precision", weight=None)
    cases = [
        observation(name, [hit(1, 0.9, "x")], 1, {"x": 1}, query_type=types[place % len(types)])
        for place, name in enumerate(ids)
    ]
    return result(
        observed=Observed(observations=tuple(cases)),
        scores={PRECISION: dict(zip(ids, scores, strict=True))},
        proxies={PRECISION: dict(zip(ids, labels, strict=True))},
        summaries=(summary,),
        gates=judge(criteria or {}, [summary]),
        validation=report_of([verdict("SUCCESS") for _ in ids]),
    )

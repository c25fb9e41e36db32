"""Metrics of queries as scorers of `mlflow.genai.evaluate`: they read the retriever's spans of a trace.

A scorer gives the value that `evals.evaluate` gives for the query, or no assessment where that is unscored.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from math import isnan
from typing import TYPE_CHECKING, Any

from evals.collect.observations import Failure, Observation, Score, Unscored
from evals.errors import ExperimentError
from evals.golden.in_memory import golden_set
from evals.metrics import choose
from evals.metrics.base import Context, Metric, QueryMetric, within
from evals.metrics.declaration import LABELS
from evals.metrics.depth import Reach
from evals.metrics.grounds import Grounds, ground
from evals.report.headline import headline
from evals.tracking.asked_case import Asked
from evals.tracking.retrieved_documents import TracedRetrieval, retrieved
from retrievers.config import MetadataConfig, RetrieverConfig
from retrievers.config.layers import environment
from retrievers.foreign.listing import chunk_of
from retrievers.records import RetrievedChunk
from retrievers.search.candidate_table import Candidates
from retrievers.search.table_builder import table_of_hits

if TYPE_CHECKING:
    from mlflow.entities import Feedback, Trace
    from mlflow.genai.scorers import Scorer

    from evals.golden.in_memory import GoldenData

# Metrics that one query's returned chunks give; others need the candidates, the whole run, sources or a judge.
FAMILIES = ("ranking/", "scope/", "ragas/")
NO_COSINE = "the documents of the trace carry no cosine similarity"


def scorers(
    golden: "GoldenData | None" = None,
    metrics: Sequence[str] = (),
    *,
    retriever: Any = None,
    top_k: int | None = None,
    metadata: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
) -> list["Scorer"]:
    """Return metrics as scorers for `mlflow.genai.evaluate`, one each.

    A trace's case is found by its query (or by the tag `query_id`, which our own traces have).

    Args:
        golden: Golden queries, as for `evals.evaluate`. Without, each row's expectations hold its case, as
            `python -m evals.golden export mlflow` writes them.
        metrics: Names or patterns of ranking, scope and id metrics; those of a first screen when left out.
        retriever: What retrieves, as for `evals.evaluate`. Where its chunks can be listed, all relevant ones are known,
            which recall, average precision and nDCG need for evidence. It is left open, and not asked anything.
        top_k: Number of results that count; that of the retriever when left out, else 5.
        metadata: Settings of `retriever.metadata`, such as `{"map": {"source_url": "source"}}`.
        env: Environment that holds API keys; the process environment and `.env` when left out.

    Raises:
        DatasetError: The golden data has faults, or evidence does not resolve.
        ExperimentError: No such metric, or one that a trace cannot give.
    """
    keys = environment(os.environ) if env is None else env
    cases = None if golden is None else golden_set(golden)
    settings = RetrieverConfig.model_validate({"metadata": {"required": (), **metadata}} if metadata else {})
    returned = grounds = Grounds(relevance={}, texts=None)
    places, reads, unknown = top_k or settings.top_k, settings.metadata, NO_COSINE
    if retriever is not None:
        from retrievers.retriever.given import adopt_given
        from retrievers.retriever.qdrant import QdrantRetriever

        with ExitStack() as opened:
            adopted, own = adopt_given(retriever, settings, top_k, keys)
            if adopted is not retriever:
                opened.callback(adopted.close)
            places = own.top_k
            if isinstance(retriever, QdrantRetriever):
                # Its documents have the names of chunks' fields.
                reads, unknown = MetadataConfig(), ""
            if cases is not None:
                grounds = ground(cases, adopted)
    asked = Asked(cases.cases if cases else None)

    def observe(trace: "Trace", expectations: Mapping[str, Any]) -> Observation:
        documents = retrieved(trace)
        case = asked.case(trace.info.tags.get("query_id"), documents.questions, expectations)
        candidates = _candidates(case.query, documents, reads, unknown)
        relevance = grounds.relevance.get(case.id) or returned.among([case], candidates.table)[case.id]
        selection = candidates.at(range(min(places, len(candidates))))
        return Observation(case=case, relevance=relevance, candidates=candidates, selection=selection)

    context = Context(required=(), sources=None, relevant_texts=grounds.texts, seed=0)
    return [_scorer(metric, observe, context) for metric in _chosen(metrics, places)]


def _chosen(patterns: Sequence[str], top_k: int) -> list[QueryMetric]:
    """Return the metrics of patterns that a trace can give.

    Raises:
        ExperimentError: A pattern fits none.
    """
    chosen = choose(
        patterns or [f"{family}*" for family in FAMILIES], (), reach=Reach(returned=top_k, candidates=top_k)
    )
    declared = {name: metric for name, metric in chosen.items() if _is_given(metric)}
    lacking = [name for name in patterns if name in chosen.keys() - declared.keys()] or (
        list(chosen) if not declared else []
    )
    if lacking:
        raise ExperimentError(
            f"metrics: a trace cannot give {', '.join(lacking[:3])}: it holds what one query returned; expected "
            "ranking/*, scope/* or ragas/id_* of queries (evals.evaluate gives the others)"
        )
    names = list(declared) if patterns else headline(declared)
    return [metric for name in names if isinstance(metric := declared[name], QueryMetric)]


def _is_given(metric: Metric) -> bool:
    return (
        isinstance(metric, QueryMetric)
        and metric.of == "returned"
        and metric.needs <= LABELS
        and metric.name.startswith(FAMILIES)
    )


def _scorer(
    metric: QueryMetric, observe: Callable[["Trace", Mapping[str, Any]], Observation], context: Context
) -> "Scorer":
    from mlflow.genai.scorers import scorer

    def score(*, trace: "Trace", expectations: dict[str, Any] | None) -> "Feedback | None":
        observation = observe(trace, expectations or {})
        if not within([observation], metric.scope):
            return None
        [value] = metric.scores([observation], context)
        return _feedback(metric, value)

    scoring: Scorer = scorer(score, name=metric.name, description=metric.about)
    return scoring


def _feedback(metric: QueryMetric, value: Score) -> "Feedback | None":
    """Return a score as an assessment; none where there is no score."""
    from mlflow.entities import AssessmentError, AssessmentSource, Feedback

    if isinstance(value, Unscored):
        return None
    failed = AssessmentError(error_code=value.type, error_message=value.message) if isinstance(value, Failure) else None
    return Feedback(
        name=metric.name,
        value=None if isinstance(value, Failure) else value,
        error=failed,
        rationale=metric.about,
        source=AssessmentSource(source_type="CODE", source_id="retrieval-evals"),
    )


def _candidates(query: str, found: TracedRetrieval, reads: MetadataConfig, unknown: str) -> Candidates:
    """Return the documents of a trace as the candidates of a query; `unknown` tells why none has no cosine either."""
    cosines = [_cosine(document.metadata) for document in found.documents]
    hits = [
        RetrievedChunk(
            rank=rank,
            score=None,
            score_scale="none",
            scores={} if isnan(cosine) else {"semantic": cosine},
            chunk=chunk_of(document, reads),
        )
        for rank, (document, cosine) in enumerate(zip(found.documents, cosines, strict=True), 1)
    ]
    lacking = NO_COSINE if any(map(isnan, cosines)) else "" if cosines else unknown
    return replace(table_of_hits(hits), texts=(query,), no_cosine=(lacking,))[0]


def _cosine(metadata: Mapping[str, Any]) -> float:
    """Return the cosine in the metadata that `QdrantRetriever` and our own traces write; NaN without."""
    if metadata.get("distance", "cosine") != "cosine":
        return float("nan")
    scores = metadata.get("scores")
    value = scores.get("semantic") if isinstance(scores, Mapping) else metadata.get("score.semantic")
    return float(value) if isinstance(value, int | float) else float("nan")

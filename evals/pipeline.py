"""The flow of an evaluation, every collaborator passed in."""

from collections.abc import Mapping, Sequence
from typing import Any

from evals import candidates, gates, stats
from evals.config import ExperimentConfig
from evals.dataset.load import GoldenSet
from evals.dataset.relevance import Relevance, evidence_urls, resolve
from evals.metrics import VERDICT_METRIC, choose
from evals.metrics.base import Context, Metric, QueryMetric, summarise, within
from evals.records import Observation, Observed, RunResult, Score, Summary, ValidationReport
from evals.sources import Sources
from evals.verdicts import validate
from retrievers.records import Chunk
from retrievers.retriever import QdrantRetriever
from retrievers.selection import select


def evaluate(
    config: ExperimentConfig,
    golden: GoldenSet,
    retriever: QdrantRetriever,
    sources: Sources | None,
    facts: Mapping[str, Any],
    progress: candidates.Progress,
) -> RunResult:
    """Run golden queries through a retriever and score what came back.

    Args:
        config: The experiment.
        golden: Its golden queries.
        retriever: What is evaluated.
        sources: The source pages, None when not known.
        facts: What makes runs comparable, handed on to the result.
        progress: Told how far the work is.

    Raises:
        RetrievalError: Evidence does not resolve, or a search failed.
    """
    metrics = choose(config.metrics, config.latency.concurrency)
    gates.check_names(config.criteria, [*metrics, VERDICT_METRIC])
    chunks = retriever.chunks({"source_url": evidence_urls(golden.cases)})
    relevance = resolve(golden.cases, chunks, golden.places)
    observed = observe(config, golden, retriever, relevance, progress)
    context = Context(
        required=config.retriever.metadata.required,
        sources=sources,
        relevant_texts=_texts(relevance, chunks),
        seed=config.seed,
    )
    scores, summaries = score(metrics, observed, context)
    serial = next((p for p in observed.latency if p.concurrency == 1), None)
    validation = validate(observed.observations, serial, context)
    summaries.append(_pass_rate(validation))
    return RunResult(
        name=config.name,
        config=config.model_dump(mode="json"),
        facts=facts,
        observed=observed,
        scores=scores,
        summaries=summaries,
        gates=gates.judge(config.criteria, summaries),
        validation=validation,
        notes=_notes(golden, observed),
    )


def observe(
    config: ExperimentConfig,
    golden: GoldenSet,
    retriever: QdrantRetriever,
    relevance: Mapping[str, Relevance],
    progress: candidates.Progress,
) -> Observed:
    """Retrieve every case once at full depth, then time single calls and repeat queries."""
    found = candidates.collect(retriever, golden.cases, progress)
    latency = candidates.measure_latency(
        retriever,
        golden.cases,
        warmup=config.latency.warmup,
        repeats=config.latency.repeats,
        concurrency=config.latency.concurrency,
        progress=progress,
    )
    repetitions = candidates.repeat(
        retriever, golden.cases, found, repeats=config.determinism.repeats, progress=progress
    )
    top_k, threshold = config.retriever.top_k, config.retriever.threshold
    observations = tuple(
        Observation(
            case=case,
            relevance=relevance[case.id],
            candidates=found[case.id],
            selection=select(found[case.id].chunks, top_k, threshold).chunks,
        )
        for case in golden.cases
    )
    return Observed(observations=observations, latency=latency, repetitions=repetitions)


def score(
    metrics: Mapping[str, Metric], observed: Observed, context: Context
) -> tuple[dict[str, dict[str, Score]], list[Summary]]:
    """Every metric: its score for each query it is over, and its summary."""
    scores: dict[str, dict[str, Score]] = {}
    summaries: list[Summary] = []
    for name, metric in metrics.items():
        if isinstance(metric, QueryMetric):
            chosen = within(observed.observations, metric.scope)
            values = metric.score(chosen, context)
            scores[name] = {o.case.id: value for o, value in zip(chosen, values, strict=True)}
            summaries.append(summarise(name, values, metric.interval, context.seed))
        else:
            summaries.append(metric.summarise(observed, context))
    return scores, summaries


def _texts(relevance: Mapping[str, Relevance], chunks: Sequence[Chunk]) -> dict[str, str]:
    wanted = {chunk_id for item in relevance.values() for chunk_id in item.grades}
    return {chunk.chunk_id: chunk.text for chunk in chunks if chunk.chunk_id in wanted}


def _pass_rate(validation: ValidationReport) -> Summary:
    found = stats.wilson(validation.passed, validation.total)
    return Summary(
        metric=VERDICT_METRIC, value=validation.pass_rate, ci_low=found.low, ci_high=found.high, n=validation.total
    )


def _notes(golden: GoldenSet, observed: Observed) -> list[str]:
    notes = []
    for kind, wanted in (("in-scope", True), ("out-of-scope", False)):
        count = sum(case.in_scope == wanted for case in golden.cases)
        if count == 0:
            notes.append(f"the golden data holds no {kind} query: metrics over them have no value")
    for timed in observed.latency:
        if timed.differing:
            notes.append(
                f"at concurrency {timed.concurrency} the results of {len(timed.differing)} queries differ from "
                f"the serial ones: {', '.join(timed.differing[:5])}"
            )
    return notes

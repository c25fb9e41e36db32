"""The flow of an evaluation, every collaborator passed in."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evals import candidates, gates, stats
from evals.config import ExperimentConfig
from evals.dataset.load import GoldenSet
from evals.dataset.relevance import Relevance, evidence_urls, labelled_ids, resolve
from evals.judge.judge import Judge
from evals.judge.records import Judging
from evals.metrics import VERDICT_METRIC, choose, llm_metrics
from evals.metrics.base import Context, Metric, QueryMetric, summarise, within
from evals.records import LatencyPass, Observation, Observed, Repetition, RunResult, Score, Summary, ValidationReport
from evals.sources import Sources
from evals.verdicts import validate
from retrievers.config import dump
from retrievers.records import Chunk
from retrievers.retriever import QdrantRetriever


@dataclass(frozen=True, kw_only=True)
class Grounds:
    """What is relevant in a collection: to each case, by its id; and chunk id to text of every chunk that is."""

    relevance: Mapping[str, Relevance]
    texts: Mapping[str, str]


def ground(golden: GoldenSet, retriever: QdrantRetriever) -> Grounds:
    """Find the chunks that golden queries call relevant. No query is embedded or searched for.

    Raises:
        DatasetError: Evidence does not resolve; every fault is listed.
        StoreError: The collection cannot be read.
    """
    urls, ids = evidence_urls(golden.cases), labelled_ids(golden.cases)
    chunks = retriever.chunks({"source_url": urls}) if urls else []
    chunks += _named(ids, retriever) if ids else []
    relevance = resolve(golden.cases, chunks, golden.places)
    wanted = {chunk_id for item in relevance.values() for chunk_id in item.grades}
    return Grounds(relevance=relevance, texts={c.chunk_id: c.text for c in chunks if c.chunk_id in wanted})


def evaluate(
    config: ExperimentConfig,
    golden: GoldenSet,
    grounds: Grounds,
    retriever: QdrantRetriever,
    sources: Sources | None,
    facts: Mapping[str, Any],
    progress: candidates.Progress,
    judge: Judge | None = None,
) -> RunResult:
    """Run golden queries through a retriever and score what came back.

    Args:
        config: The experiment.
        golden: Its golden queries.
        grounds: What is relevant to them.
        retriever: What is evaluated.
        sources: The source pages, None when not known.
        facts: What makes runs comparable, handed on to the result.
        progress: Told how far the work is.
        judge: Who grades the metrics that need a judge; None without one.

    Raises:
        RetrievalError: A search failed, or the judge refused its very first call.
    """
    metrics = choose(
        [*config.metrics, *config.criteria], config.latency.concurrency, judged=config.judge.model is not None
    )
    gates.check_names(config.criteria, [*metrics, VERDICT_METRIC])
    observed = observe(config, metrics, golden, retriever, grounds.relevance, progress)
    judging = (
        judge.judge(metrics, observed.observations) if judge and not llm_metrics.NAMES.isdisjoint(metrics) else None
    )
    context = context_of(config, grounds, sources, judging)
    scores, summaries = score(metrics, observed, context)
    return finish(config, observed, scores, summaries, context, facts)


def context_of(config: ExperimentConfig, grounds: Grounds, sources: Sources | None, judging: Judging | None) -> Context:
    """What metrics need besides what was observed."""
    return Context(
        required=config.retriever.metadata.required,
        sources=sources,
        relevant_texts=grounds.texts,
        seed=config.seed,
        judging=judging,
    )


def finish(
    config: ExperimentConfig,
    observed: Observed,
    scores: Mapping[str, Mapping[str, Score]],
    summaries: Sequence[Summary],
    context: Context,
    facts: Mapping[str, Any],
) -> RunResult:
    """A run out of its scores: the verdicts of its queries, and whether it meets its criteria."""
    serial = next((p for p in observed.latency if p.concurrency == 1), None)
    validation = validate(observed.observations, serial, context)
    whole = [*summaries, _pass_rate(validation)]
    return RunResult(
        name=config.name,
        config=dump(config),
        facts=facts,
        observed=observed,
        scores=scores,
        summaries=whole,
        gates=gates.judge(config.criteria, whole),
        validation=validation,
        notes=_notes(observed, context.judging),
        judging=context.judging,
    )


def observe(
    config: ExperimentConfig,
    metrics: Collection[str],
    golden: GoldenSet,
    retriever: QdrantRetriever,
    relevance: Mapping[str, Relevance],
    progress: candidates.Progress,
) -> Observed:
    """Retrieve every case once at full depth; time single calls and repeat queries if a metric needs it."""
    found = candidates.collect(retriever, golden.cases, progress)
    latency: tuple[LatencyPass, ...] = ()
    if any(name.startswith("latency/") for name in metrics):
        latency = candidates.measure_latency(
            retriever,
            golden.cases,
            warmup=config.latency.warmup,
            repeats=config.latency.repeats,
            concurrency=config.latency.concurrency,
            progress=progress,
        )
    repetitions: tuple[Repetition, ...] = ()
    if any(name.startswith("determinism/") for name in metrics):
        repeats = config.determinism.repeats
        repetitions = candidates.repeat(retriever, golden.cases, found, repeats=repeats, progress=progress)
    observations = tuple(
        Observation(
            case=case,
            relevance=relevance[case.id],
            candidates=found[case.id],
            selection=retriever.select(found[case.id].chunks).chunks,
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


def _named(ids: Sequence[str], retriever: QdrantRetriever) -> list[Chunk]:
    """The chunks of those ids; where chunks have none of their own they are known by their point's."""
    found = retriever.chunks({"chunk_id": ids})
    rest = sorted({*ids} - {chunk.chunk_id for chunk in found})
    return found + (retriever.chunks({"point_id": rest}) if rest else [])


def _pass_rate(validation: ValidationReport) -> Summary:
    found = stats.wilson(validation.passed, validation.total)
    return Summary(
        metric=VERDICT_METRIC, value=validation.pass_rate, ci_low=found.low, ci_high=found.high, n=validation.total
    )


def _notes(observed: Observed, judging: Judging | None) -> list[str]:
    notes = []
    for kind, wanted in (("in-scope", True), ("out-of-scope", False)):
        count = sum(o.case.in_scope == wanted for o in observed.observations)
        if count == 0:
            notes.append(f"the golden data holds no {kind} query: metrics over them have no value")
    for timed in observed.latency:
        if timed.differing:
            notes.append(
                f"at concurrency {timed.concurrency} the results of {len(timed.differing)} queries differ from "
                f"the serial ones: {', '.join(timed.differing[:5])}"
            )
    if judging is None:
        notes.append("there is no judge (judge.model): no LLM-graded metric was computed")
    elif judging.incomplete:
        notes.append(f"not everything was judged: {judging.incomplete}")
    return notes

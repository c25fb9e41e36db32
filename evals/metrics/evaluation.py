"""The flow of an evaluation, every collaborator passed in."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evals.collect import passes as candidates
from evals.collect.observations import LatencyPass, Observation, Observed, Repetition, Score, Summary, ValidationReport
from evals.config.experiment import ExperimentConfig
from evals.golden.case import Case
from evals.golden.evidence import Relevance, evidence_urls, labelled_ids, names_no_page, resolve
from evals.golden.loading import GoldenSet
from evals.golden.returned_evidence import check_evidence, resolve_returned
from evals.golden.source_pages import SourcePages, Sources
from evals.judge.trust.audit import marked
from evals.judge.trust.measuring import measure
from evals.judge.verdicts import Judging
from evals.metrics import NEED_A_JUDGE, VERDICT_METRIC, choose
from evals.metrics import criteria as gates
from evals.metrics.base import Context, Metric, QueryMetric, summarise, within
from evals.metrics.caveats import depth_notes, notes
from evals.metrics.collaborators import Collaborators
from evals.metrics.depth import reach
from evals.metrics.run_result import RunResult
from evals.metrics.verdicts import validate
from evals.stats import intervals as stats
from retrievers.config import dump
from retrievers.records import Candidates, Chunk
from retrievers.retriever.protocol import Retriever


@dataclass(frozen=True, kw_only=True)
class Grounds:
    """What is relevant in a collection: to each case, by its id; and chunk id to text of every chunk that is.

    Where the retriever's chunks cannot be listed, `relevance` is empty, to be resolved in what it returns, and `texts`
    None; `sources` then tells page and heading of a chunk that does not name them.
    """

    relevance: Mapping[str, Relevance]
    texts: Mapping[str, str] | None
    sources: Sources | None = None

    def among(self, cases: Sequence[Case], found: Mapping[str, Candidates]) -> Mapping[str, Relevance]:
        """What is relevant to each case, given what was found for it.

        Raises:
            ExperimentError: Chunks that cannot be listed do not say where they are from.
        """
        if self.texts is not None:
            return self.relevance
        returned = {case.id: [hit.chunk for hit in found[case.id].chunks] for case in cases}
        return resolve_returned(cases, returned, self.sources)


def ground(golden: GoldenSet, retriever: Retriever, sources: Sources | None = None) -> Grounds:
    """Find the chunks that golden queries call relevant. No query is embedded or searched for.

    Args:
        golden: Golden queries.
        retriever: Whose chunks are listed. Where they cannot be, evidence is looked for in the source pages.
        sources: The source pages, None when not known.

    Raises:
        DatasetError: Evidence does not resolve; every fault is listed.
        StoreError: The collection cannot be read.
    """
    if retriever.info is None:
        if isinstance(sources, SourcePages):
            check_evidence(golden.cases, sources, golden.places)
        return Grounds(relevance={}, texts=None, sources=sources)
    urls, ids = evidence_urls(golden.cases), labelled_ids(golden.cases)
    if names_no_page(golden.cases):
        chunks = retriever.chunks()
    else:
        chunks = retriever.chunks({"source_url": urls}) if urls else []
    chunks += _named(ids, retriever) if ids else []
    relevance = resolve(golden.cases, chunks, golden.places)
    wanted = {chunk_id for item in relevance.values() for chunk_id in item.grades}
    return Grounds(relevance=relevance, texts={c.chunk_id: c.text for c in chunks if c.chunk_id in wanted})


def evaluate(
    config: ExperimentConfig,
    golden: GoldenSet,
    grounds: Grounds,
    collaborators: Collaborators,
    facts: Mapping[str, Any],
) -> RunResult:
    """Run golden queries through a retriever and score what came back.

    Args:
        config: The experiment.
        golden: Its golden queries.
        grounds: What is relevant to them.
        collaborators: The retriever that is evaluated, with source pages and judge where there are any.
        facts: What makes runs comparable, handed on to the result.

    Raises:
        RetrievalError: A search failed, or the judge refused its very first call.
    """
    metrics = choose(
        [*config.metrics, *config.criteria],
        config.latency.concurrency,
        judged=config.judge.model is not None,
        reach=reach(config.retriever),
    )
    gates.check_names(config.criteria, [*metrics, VERDICT_METRIC])
    observed = observe(config, metrics, golden, collaborators.retriever, grounds, collaborators.progress)
    judge, judging = collaborators.judge, None
    if judge and not NEED_A_JUDGE.isdisjoint(metrics):
        judging = judge.judge(metrics, observed.observations, config.seed)
        judging = judge.again(judging, metrics, observed.observations, config.seed)
    context = with_trust(context_of(config, grounds, collaborators.sources, judging), observed)
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


def with_trust(context: Context, observed: Observed) -> Context:
    """The context with how far the judge can be trusted by what it said of these observations."""
    if context.judging is None:
        return context
    return replace(context, trust=measure(context.judging, observed.observations, context.seed))


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
    bisected = context.judging.bisected if context.judging else None
    whole = [*marked(summaries, bisected, observed.observations), _pass_rate(validation)]
    return RunResult(
        name=config.name,
        config=dump(config),
        facts=facts,
        observed=observed,
        scores=scores,
        summaries=whole,
        gates=gates.judge(config.criteria, whole),
        validation=validation,
        notes=[
            *depth_notes([summary.metric for summary in summaries], config.retriever),
            *notes(observed, config.retriever.top_k, context.judging, context.sources),
        ],
        judging=context.judging,
        trust=context.trust,
    )


def observe(
    config: ExperimentConfig,
    metrics: Collection[str],
    golden: GoldenSet,
    retriever: Retriever,
    grounds: Grounds,
    progress: candidates.Progress,
) -> Observed:
    """Retrieve every case once at full depth; time single calls and repeat queries if a metric needs it."""
    found = candidates.collect(retriever, golden.cases, progress)
    relevance = grounds.among(golden.cases, found)
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
    return Observed(
        observations=observations,
        latency=latency,
        repetitions=repetitions,
        listed=retriever.info is not None,
        retriever_notes=retriever.notes,
    )


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
            summaries.append(summarise(name, values, metric.interval))
        else:
            summaries.append(metric.summarise(observed, context))
    return scores, summaries


def _named(ids: Sequence[str], retriever: Retriever) -> list[Chunk]:
    """The chunks of those ids; where chunks have none of their own they are known by their point's."""
    found = retriever.chunks({"chunk_id": ids})
    rest = sorted({*ids} - {chunk.chunk_id for chunk in found})
    return found + (retriever.chunks({"point_id": rest}) if rest else [])


def _pass_rate(validation: ValidationReport) -> Summary:
    found = stats.wilson(validation.passed, validation.total)
    return Summary(
        metric=VERDICT_METRIC, value=validation.pass_rate, ci_low=found.low, ci_high=found.high, n=validation.total
    )

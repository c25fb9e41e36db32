"""The flow of an evaluation; every collaborator is an argument."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from evals.collect import passes as candidates
from evals.collect.index_recall import is_approximate, with_ann_recall
from evals.collect.observations import (
    Observed,
    Score,
    Summary,
    ValidationReport,
    observations_of,
)
from evals.collect.saved.retriever import NOT_MEASURED, SavedRetriever
from evals.config.experiment import ExperimentConfig
from evals.golden.loading import GoldenSet
from evals.golden.source_pages import Sources
from evals.judge.trust.measuring import measure
from evals.judge.verdicts import Judging
from evals.metrics import METRICS, NEED_A_JUDGE, VERDICT_METRIC, choose, index, needs
from evals.metrics import criteria as gates
from evals.metrics.base import NO_LABELS, Context, Metric, QueryMetric, within
from evals.metrics.caveats import depth_notes, notes
from evals.metrics.collaborators import Collaborators
from evals.metrics.depth import reach
from evals.metrics.grounds import Grounds
from evals.metrics.metadata import usual_in
from evals.metrics.run_result import RunResult
from evals.metrics.sampled import summary_of
from evals.metrics.sampled_judging import judge_sample
from evals.metrics.verdicts import validate
from evals.stats import intervals as stats
from retrievers.retriever.protocol import Retriever
from retrievers.search.candidate_table import CandidateTable


def evaluate(
    config: ExperimentConfig,
    golden: GoldenSet,
    grounds: Grounds,
    collaborators: Collaborators,
) -> RunResult:
    """Run golden queries through a retriever and score what came back.

    Args:
        config: The experiment.
        golden: Its golden queries.
        grounds: Relevant chunks of the queries.
        collaborators: The retriever that is evaluated, with source pages and judge where there are any.

    Raises:
        RetrievalError: A search failed, or the judge refused its very first call.
    """
    metrics = choose(
        [*config.metrics, *config.criteria],
        config.latency.concurrency,
        judged=config.judge.model is not None,
        approximate=is_approximate(collaborators.retriever),
        reach=reach(config.retriever),
    )
    gates.check_names(config.criteria, [*metrics, VERDICT_METRIC])
    retriever, progress = collaborators.retriever, collaborators.progress
    observed = observe(golden, retriever, grounds, progress, exactly=needs(metrics, "index"))
    observed = with_passes(config, metrics, observed, retriever, progress)
    judge, judging = collaborators.judge, None
    if judge and not NEED_A_JUDGE.isdisjoint(metrics):
        blank = context_of(config, grounds, collaborators.sources, None, observed)
        judging = judge_sample(judge, metrics, observed.observations, blank)
        # After the first pass, so that a budget buys first verdicts before second ones.
        judging = judge.again(judging, metrics, observed.observations, config.seed)
    context = with_trust(context_of(config, grounds, collaborators.sources, judging, observed), observed)
    scores, summaries = score(metrics, observed, context)
    return finish(config, observed, scores, summaries, context)


def context_of(
    config: ExperimentConfig, grounds: Grounds, sources: Sources | None, judging: Judging | None, observed: Observed
) -> Context:
    """Return the inputs of metrics besides the observations."""
    required = config.retriever.metadata.required
    return Context(
        required=usual_in(observed) if required is None else required,
        sources=sources,
        relevant_texts=grounds.texts,
        seed=config.seed,
        judging=judging,
    )


def with_trust(context: Context, observed: Observed) -> Context:
    """Add the quality of the judge, by its verdicts on these observations."""
    if context.judging is None:
        return context
    return replace(context, trust=measure(context.judging, observed.observations, context.seed))


def finish(
    config: ExperimentConfig,
    observed: Observed,
    scores: Mapping[str, Mapping[str, Score]],
    summaries: Sequence[Summary],
    context: Context,
) -> RunResult:
    """Build a run from its scores: the verdicts of its queries, and its criteria."""
    # Times of the verdicts come from serial calls; concurrent ones wait for each other.
    serial = next((p for p in observed.latency if p.concurrency == 1), None)
    validation = validate(observed.observations, serial, context, config.retriever.top_k)
    whole = [*summaries, _pass_rate(validation)]
    return RunResult(
        config=_requiring(context.required, config),
        observed=observed,
        scores=scores,
        summaries=whole,
        gates=gates.judge(config.criteria, whole),
        validation=validation,
        notes=[
            *depth_notes([summary.metric for summary in summaries], config.retriever),
            *notes(observed, config.retriever.top_k, context.judging, context.sources),
        ],
        proxies=_proxies(scores, observed, context),
        tier_scores=_tier_scores(scores, observed, context),
        judging=context.judging,
        trust=context.trust,
    )


def _proxies(
    scores: Mapping[str, Mapping[str, Score]], observed: Observed, context: Context
) -> dict[str, dict[str, Score]]:
    """Return what the proxies of the judged metrics give: they do without a judge, and score every query."""
    proxies: dict[str, dict[str, Score]] = {}
    for name in scores if context.judging else ():
        metric = METRICS.get(name)
        if isinstance(metric, QueryMetric) and metric.proxy:
            chosen = within(observed.observations, metric.scope)
            values = metric.proxy.scores(chosen, context)
            proxies[name] = {o.case.id: value for o, value in zip(chosen, values, strict=True)}
    return proxies


def _tier_scores(
    scores: Mapping[str, Mapping[str, Score]], observed: Observed, context: Context
) -> dict[str, list[tuple[str, Mapping[str, Score]]]]:
    """Return what the cheaper judges of a cascade give, by judged metric."""
    lower = context.judging.tiers[:-1] if context.judging else ()
    judged = {name: METRICS[name] for name in scores if name in NEED_A_JUDGE} if lower else {}
    own = [(tier.model, score(judged, observed, replace(context, judging=tier))[0]) for tier in lower]
    return {name: [(model, of_tier[name]) for model, of_tier in own] for name in judged}


def _requiring(required: tuple[str, ...], config: ExperimentConfig) -> ExperimentConfig:
    """Return the experiment with the metadata fields that were required, so that the report names them."""
    metadata = config.retriever.metadata.model_copy(update={"required": required})
    return config.model_copy(update={"retriever": config.retriever.model_copy(update={"metadata": metadata})})


def observe(
    golden: GoldenSet,
    retriever: Retriever,
    grounds: Grounds,
    progress: candidates.Progress,
    like: CandidateTable | None = None,
    *,
    exactly: bool = False,
) -> Observed:
    """Retrieve every case once, in batches at full depth; chunks and vectors are shared with another variant's.

    Args:
        golden: The golden queries.
        retriever: The retriever.
        grounds: Relevant chunks of the queries.
        progress: Called with the stage, the number of queries done, and that of all.
        like: What another variant found for the same queries.
        exactly: Search exactly, too, and note what the approximate search missed.
    """
    table = candidates.collect(retriever, golden.cases, progress, like)
    if exactly:
        table = with_ann_recall(retriever, table, index.DEPTHS, progress)
    relevance = grounds.among(golden.cases, table)
    return Observed(
        observations=observations_of(golden.cases, relevance, table, retriever.settings),
        listed=retriever.info is not None,
        retriever_notes=retriever.notes,
    )


def with_passes(
    config: ExperimentConfig,
    metrics: Collection[str],
    observed: Observed,
    retriever: Retriever,
    progress: candidates.Progress,
) -> Observed:
    """Time single calls, repeat queries and try wider searches, as far as the metrics need it and the retriever can.

    What was done before is not done again.

    Args:
        config: The numbers of calls.
        metrics: The names of metrics.
        observed: The golden queries, with their candidates.
        retriever: The retriever that found them.
        progress: Called with the stage, the number of calls done, and that of all.

    Raises:
        RetrievalError: A call failed.
    """
    if isinstance(retriever, SavedRetriever):
        return replace(observed, unmeasured=NOT_MEASURED)
    cases = [observation.case for observation in observed.observations]
    latency, repetitions = observed.latency, observed.repetitions
    if needs(metrics, "latency") and not latency:
        latency = candidates.measure_latency(
            retriever,
            cases,
            warmup=config.latency.warmup,
            repeats=config.latency.repeats,
            concurrency=config.latency.concurrency,
            progress=progress,
        )
    if needs(metrics, "determinism") and not repetitions:
        repeats = config.determinism.repeats
        repetitions = candidates.repeat(retriever, cases, observed.table, repeats=repeats, progress=progress)
    return replace(observed, latency=latency, repetitions=repetitions)


def score(
    metrics: Mapping[str, Metric], observed: Observed, context: Context
) -> tuple[dict[str, dict[str, Score]], list[Summary]]:
    """Compute every metric: its score for each query in its scope, and its summary."""
    scores: dict[str, dict[str, Score]] = {}
    summaries: list[Summary] = []
    for name, metric in metrics.items():
        if isinstance(metric, QueryMetric):
            chosen = within(observed.observations, metric.scope)
            values = metric.scores(chosen, context)
            scores[name] = {o.case.id: value for o, value in zip(chosen, values, strict=True)}
            summaries.append(summary_of(metric, values, chosen, context))
        else:
            summaries.append(metric.summarise(observed, context))
    return scores, summaries


def _pass_rate(validation: ValidationReport) -> Summary:
    decided = validation.total - validation.unlabelled
    interval = stats.wilson(validation.passed, decided)
    return Summary(
        metric=VERDICT_METRIC,
        value=validation.pass_rate,
        ci_low=interval.low,
        ci_high=interval.high,
        n=decided,
        n_unscored=validation.unlabelled,
        note=NO_LABELS.reason if validation.unlabelled else "",
    )

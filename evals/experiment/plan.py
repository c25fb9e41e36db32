"""`--plan`: the calls of a run and their cost, without a call of the judge."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from evals.collect import passes as candidates
from evals.collect.index_recall import is_approximate
from evals.collect.observations import Observation, Observed, observations_of
from evals.collect.saved.retriever import SavedRetriever
from evals.config.experiment import ExperimentConfig
from evals.experiment.loading import Inputs
from evals.golden.evidence import Relevance
from evals.golden.loading import GoldenSet
from evals.grid.building import ObservedVariant, build, configure
from evals.grid.evaluation import grid_metrics
from evals.grid.expected_margins import can_be_expected, expected_margins
from evals.grid.judging_rounds import known_without_a_judge
from evals.grid.scoring import distinct
from evals.judge.call_estimate import JudgePlan, MarginCost, plan, stopped
from evals.judge.cascade import tier_sizes
from evals.judge.judge import Judge
from evals.judge.tasks import PRECISION
from evals.metrics import NEED_A_JUDGE, choose, needs
from evals.metrics.base import Metric
from evals.metrics.collaborators import Collaborators
from evals.metrics.depth import reach
from evals.metrics.evaluation import context_of, observe
from evals.metrics.expected_width import USUAL_AGREEMENT, agreement, expected_widths
from evals.metrics.grounds import ground
from evals.metrics.sampled import can_be_judged
from evals.report.plan import render_plan, retrieval_calls
from retrievers.retriever.protocol import Retriever


def describe_plan(inputs: Inputs, collaborators: Collaborators, *, width: int) -> str:
    """Retrieve once, which embeds every query, and count what everything else would call.

    Args:
        inputs: The experiment.
        collaborators: The retriever, or one for each variant of a sweep, and the judge if there is one.
        width: Width of the terminal, in columns.

    Raises:
        RetrievalError: A search failed.
    """
    config, judge = inputs.config, collaborators.judge
    approximate = any(map(is_approximate, collaborators.retrievers))
    metrics = grid_metrics(config, approximate=approximate) if inputs.sweep else _metrics(config, judge, approximate)
    selected = _selected(inputs, collaborators)
    calls = _tier_plans(judge, list(metrics), selected, config.seed) if judge else []
    if len(calls) == 1 and PRECISION in metrics:
        calls = [_with_widths(calls[0], inputs, collaborators, _longest(selected))]
        if inputs.sweep and calls[0].margin is not None and can_be_expected(config.objective, [*NEED_A_JUDGE]):
            calls = [_with_margins(calls[0], inputs, collaborators, metrics)]
    held_out = _held_out_calls(inputs, judge, collaborators) if judge else None
    return render_plan(calls, _searches(inputs, metrics, collaborators), held_out=held_out, width=width, color=False)


def _tier_plans(judge: Judge, metrics: Sequence[str], selected: Sequence[Observation], seed: int) -> list[JudgePlan]:
    """Return the plan of each judge of a cascade, the cheapest first, or of the only one."""
    if judge.below is None:
        return [plan(judge, metrics, selected, _longest(selected), seed)]
    queries = len({observation.case.id for observation in selected if observation.case.in_scope})
    plans = [
        plan(tier, metrics, selected, _longest(selected), seed)
        for tier, size in zip(judge.tiers, tier_sizes(judge, queries), strict=True)
        if size
    ]
    whole = stopped(judge.config.budget, plans)
    return [replace(one, stopped=whole if one is plans[-1] else "") for one in plans]


def _with_widths(
    calls: JudgePlan, inputs: Inputs, collaborators: Collaborators, longest: Sequence[Observation]
) -> JudgePlan:
    """Add to samples of several sizes how wide an interval they are expected to give, by the golden labels."""
    known = ground(inputs.golden, collaborators.retriever, collaborators.sources)
    if known.texts is None:
        # Relevance would be over returned chunks: the labels' metric is not known before them all.
        return calls
    labelled = [
        replace(o, relevance=known.relevance[o.case.id])
        for o in longest
        if can_be_judged(PRECISION, o.case) and o.case.id in known.relevance
    ]
    widths = expected_widths(labelled, calls.verdicts, [each.queries for each in calls.samples], inputs.config.seed)
    samples = tuple(replace(each, width=width) for each, width in zip(calls.samples, widths, strict=True))
    return replace(calls, samples=samples, agreement=agreement(labelled, calls.verdicts))


def _with_margins(
    calls: JudgePlan, inputs: Inputs, collaborators: Collaborators, metrics: Mapping[str, Metric]
) -> JudgePlan:
    """Add how many verdicts proving a cell within margins of the best is expected to take, by the golden labels."""
    config, sweep = inputs.config, inputs.sweep
    known = ground(inputs.golden, collaborators.retriever, collaborators.sources)
    if known.texts is None or sweep is None:
        return calls
    observed = [
        ObservedVariant(variant=variant, observed=observe(inputs.golden, retriever, known, collaborators.progress))
        for variant, retriever in zip(sweep.variants, collaborators.retrievers, strict=True)
    ]
    context = context_of(config, known, collaborators.sources, None, observed[0].observed)
    of_objective = {name: metrics[name] for name in config.objective.metrics}
    grid = build(
        sweep, config.sweep, configure(sweep, observed), known_without_a_judge(of_objective, config.objective), context
    )
    agreed = USUAL_AGREEMENT if calls.agreement is None else calls.agreement
    margins = expected_margins(of_objective, config.objective, grid, context, calls.verdicts, 1 - agreed)
    costs = [
        MarginCost(
            margin=one.margin,
            calls=one.verdicts,
            share=one.share,
            usd=None if calls.usd is None else calls.usd * one.share,
        )
        for one in margins
    ]
    return replace(calls, margins=tuple(costs))


def _metrics(config: ExperimentConfig, judge: Judge | None, approximate: bool) -> Mapping[str, Metric]:
    patterns, judged = [*config.metrics, *config.criteria], judge is not None
    length = reach(config.retriever)
    return choose(patterns, config.latency.concurrency, judged=judged, approximate=approximate, reach=length)


def _selected(inputs: Inputs, collaborators: Collaborators) -> list[Observation]:
    """Return what the judge would see: the result of every query, of a sweep every distinct selection of it."""
    observed_runs = [_found(retriever, inputs.golden, collaborators.progress) for retriever in collaborators.retrievers]
    if inputs.sweep is None:
        return [observation for one in observed_runs for observation in one.observations]
    variants = zip(inputs.sweep.variants, observed_runs, strict=True)
    configurations = configure(
        inputs.sweep, [ObservedVariant(variant=variant, observed=one) for variant, one in variants]
    )
    return [observation for one in configurations for observation in distinct(one).observations]


def _searches(inputs: Inputs, metrics: Mapping[str, Metric], collaborators: Collaborators) -> list[str]:
    """Return the calls of retrieval, line by line; of a sweep the lines of every variant begin with its name."""
    if isinstance(collaborators.retriever, SavedRetriever):
        return [f"none: all candidates are in the saved retrieval {collaborators.retriever.retrieval.name!r}"]
    config, cases = inputs.config, len(inputs.golden.cases)
    further = _further_searches(config, metrics, cases)
    names = [""]
    of_the_chosen: list[str] = []
    if inputs.sweep:
        names = [f"{variant.name}: " for variant in inputs.sweep.variants]
        every = _further_searches(config, config.objective.constraints, cases)
        latency, repeated = further[0] - every[0], further[1] - every[1]
        if latency or repeated:
            of_the_chosen = [
                f"the chosen variant: {latency:,} further searches to measure latency, {repeated:,} to repeat queries"
            ]
        further = every
    if needs(metrics, "index"):
        of_the_chosen.append(
            f"{2 * cases:,} searches{' a variant' if inputs.sweep else ''} by vectors that are known, half of them "
            "exact, to compare the index with; where it misses near ones, up to five a query more"
        )
    return [
        f"{name}{line}"
        for name, retriever in zip(names, collaborators.retrievers, strict=True)
        for line in retrieval_calls(retriever.settings, cases, *further)
    ] + of_the_chosen


def _held_out_calls(inputs: Inputs, judge: Judge, collaborators: Collaborators) -> int | None:
    """Return the most calls that measuring the chosen cell on held-out queries takes; None where it takes none."""
    config, held_out = inputs.config, inputs.held_out
    if held_out is None or NEED_A_JUDGE.isdisjoint(config.objective.metrics):
        return None
    progress = collaborators.progress
    return max(_calls_of_a_cell(config, retriever, held_out, judge, progress) for retriever in collaborators.retrievers)


def _calls_of_a_cell(
    config: ExperimentConfig, retriever: Retriever, golden: GoldenSet, judge: Judge, progress: candidates.Progress
) -> int:
    """Count the calls that the objective takes at the widest cell of a variant: no other cell of it takes more."""
    widest = _found(retriever, golden, progress).observations
    return sum(one.total.calls for one in _tier_plans(judge, list(config.objective.metrics), widest, config.seed))


def _longest(observations: Sequence[Observation]) -> list[Observation]:
    """Return the largest selection of each query: of a sweep it is not known yet which will be judged again."""
    longest: dict[str, Observation] = {}
    for observation in observations:
        largest = longest.get(observation.case.id)
        if largest is None or len(observation.selection) > len(largest.selection):
            longest[observation.case.id] = observation
    return list(longest.values())


def _found(retriever: Retriever, golden: GoldenSet, progress: candidates.Progress) -> Observed:
    table = candidates.collect(retriever, golden.cases, progress)
    nothing = {case.id: Relevance() for case in golden.cases}
    return Observed(observations=observations_of(golden.cases, nothing, table, retriever.settings))


def _further_searches(config: ExperimentConfig, metrics: Iterable[str], cases: int) -> tuple[int, int]:
    latency = determinism = 0
    if needs(metrics, "latency"):
        latency = config.latency.warmup + config.latency.repeats * cases * len(config.latency.concurrency)
    if needs(metrics, "determinism"):
        determinism = config.determinism.repeats * cases
    return latency, determinism

"""`--plan`: what a run would call and cost, found out without a call of the judge."""

from collections.abc import Mapping, Sequence

from evals.collect import passes as candidates
from evals.collect.observations import Observation, Observed
from evals.config.experiment import ExperimentConfig
from evals.experiment.loading import Inputs
from evals.golden.evidence import Relevance
from evals.golden.loading import GoldenSet
from evals.grid.building import Retrieved, configure
from evals.grid.evaluation import grid_metrics
from evals.grid.scoring import distinct
from evals.judge.judge import Judge
from evals.judge.plan import plan
from evals.metrics import NEED_A_JUDGE, choose
from evals.metrics.base import Metric
from evals.metrics.collaborators import Collaborators
from evals.metrics.depth import reach
from evals.report.plan import render_plan, retrieval_calls
from retrievers.retriever.protocol import Retriever


def describe_plan(inputs: Inputs, collaborators: Collaborators, *, width: int) -> str:
    """Retrieve once, which embeds every query, and count what everything else would call.

    Args:
        inputs: The experiment.
        collaborators: The retriever, or one for each variant of a sweep, and the judge if there is one.
        width: Of the terminal.

    Raises:
        RetrievalError: A search failed.
    """
    config, judge = inputs.config, collaborators.judge
    metrics = grid_metrics(config) if inputs.sweep else _metrics(config, judge)
    selected = _selected(inputs, collaborators)
    made = plan(judge, list(metrics), selected, _longest(selected), config.seed) if judge else None
    held_out = _held_out_calls(inputs, judge, collaborators) if judge else None
    return render_plan(made, _searches(inputs, metrics, collaborators), held_out=held_out, width=width, color=False)


def _metrics(config: ExperimentConfig, judge: Judge | None) -> Mapping[str, Metric]:
    patterns, judged = [*config.metrics, *config.criteria], judge is not None
    return choose(patterns, config.latency.concurrency, judged=judged, reach=reach(config.retriever))


def _selected(inputs: Inputs, collaborators: Collaborators) -> list[Observation]:
    """What the judge would see: what every query returned, of a sweep every distinct selection of it."""
    found = [_found(retriever, inputs.golden, collaborators.progress) for retriever in collaborators.retrievers]
    if inputs.sweep is None:
        return [observation for one in found for observation in one.observations]
    variants = zip(inputs.sweep.variants, found, strict=True)
    kept = configure(inputs.sweep, [Retrieved(variant=variant, observed=one) for variant, one in variants])
    return [observation for one in kept for observation in distinct(one).observations]


def _searches(inputs: Inputs, metrics: Mapping[str, Metric], collaborators: Collaborators) -> list[str]:
    """What retrieval calls, line by line; of a sweep the lines of every variant begin with its name."""
    cases = len(inputs.golden.cases)
    further = _further_searches(inputs.config, metrics, cases)
    names = [f"{variant.name}: " for variant in inputs.sweep.variants] if inputs.sweep else [""]
    return [
        f"{name}{line}"
        for name, retriever in zip(names, collaborators.retrievers, strict=True)
        for line in retrieval_calls(retriever.settings, cases, *further)
    ]


def _held_out_calls(inputs: Inputs, judge: Judge, collaborators: Collaborators) -> int | None:
    """The most calls that measuring the chosen cell on held-out queries takes; None where it takes none."""
    config, held_out = inputs.config, inputs.held_out
    if held_out is None or NEED_A_JUDGE.isdisjoint(config.objective.metrics):
        return None
    progress = collaborators.progress
    return max(_calls_of_a_cell(config, one, held_out, judge, progress) for one in collaborators.retrievers)


def _calls_of_a_cell(
    config: ExperimentConfig, retriever: Retriever, golden: GoldenSet, judge: Judge, progress: candidates.Progress
) -> int:
    """The calls that the objective takes at the widest cell of a variant: no other cell of it takes more."""
    widest = _found(retriever, golden, progress).observations
    return plan(judge, list(config.objective.metrics), widest, (), config.seed).total.calls


def _longest(observations: Sequence[Observation]) -> list[Observation]:
    """For each query the largest of its selections: of a sweep it is not known yet which will be judged again."""
    longest: dict[str, Observation] = {}
    for one in observations:
        known = longest.get(one.case.id)
        if known is None or len(one.selection) > len(known.selection):
            longest[one.case.id] = one
    return list(longest.values())


def _found(retriever: Retriever, golden: GoldenSet, progress: candidates.Progress) -> Observed:
    found = candidates.collect(retriever, golden.cases, progress)
    nothing = Relevance(grades={}, items=())
    return Observed(
        observations=tuple(
            Observation(
                case=case,
                relevance=nothing,
                candidates=found[case.id],
                selection=retriever.select(found[case.id].chunks).chunks,
            )
            for case in golden.cases
        )
    )


def _further_searches(config: ExperimentConfig, metrics: Mapping[str, Metric], cases: int) -> tuple[int, int]:
    latency = determinism = 0
    if any(name.startswith("latency/") for name in metrics):
        latency = config.latency.warmup + config.latency.repeats * cases * len(config.latency.concurrency)
    if any(name.startswith("determinism/") for name in metrics):
        determinism = config.determinism.repeats * cases
    return latency, determinism

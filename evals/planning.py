"""`--plan`: what a run would call and cost, found out without a call of the judge."""

from collections.abc import Mapping, Sequence

from evals import candidates
from evals.collaborators import Collaborators
from evals.config import ExperimentConfig
from evals.dataset.load import GoldenSet
from evals.dataset.relevance import Relevance
from evals.grid.axes import Plan as Sweep
from evals.grid.build import Retrieved, configure
from evals.grid.pipeline import grid_metrics
from evals.grid.scoring import distinct
from evals.judge.judge import Judge
from evals.judge.plan import plan
from evals.metrics import NEED_A_JUDGE, choose
from evals.records import Observation, Observed
from evals.report.plan import render_plan, retrieval_calls
from retrievers.protocol import Retriever


def describe_plan(
    config: ExperimentConfig,
    golden: GoldenSet,
    collaborators: Collaborators,
    *,
    sweep: Sweep | None = None,
    held_out: GoldenSet | None = None,
    width: int,
) -> str:
    """Retrieve once, which embeds every query, and count what everything else would call.

    Args:
        config: The experiment.
        golden: Its golden queries.
        collaborators: The retriever, or one for each variant of a sweep, and the judge if there is one.
        sweep: The grid's plan, None for a single run.
        held_out: The queries on which the chosen cell is measured again, None without any.
        width: Of the terminal.

    Raises:
        RetrievalError: A search failed.
    """
    judge, retrievers = collaborators.judge, collaborators.retrievers
    metrics = choose([*config.metrics, *config.criteria], config.latency.concurrency, judged=judge is not None)
    if sweep is not None:
        metrics = grid_metrics(config)
    found = [_found(retriever, golden, collaborators.progress) for retriever in retrievers]
    selected = [observation for one in found for observation in one.observations]
    if sweep is not None:
        variants = zip(sweep.variants, found, strict=True)
        kept = configure(sweep, [Retrieved(variant=variant, observed=one) for variant, one in variants])
        selected = [observation for one in kept for observation in distinct(one).observations]
    made = plan(judge, list(metrics), selected, _longest(selected), config.seed) if judge else None
    further = _further_searches(config, metrics, len(golden.cases))
    names = [""] if sweep is None else [f"{variant.name}: " for variant in sweep.variants]
    lines = [
        f"{name}{line}"
        for name, retriever in zip(names, retrievers, strict=True)
        for line in retrieval_calls(retriever.settings, len(golden.cases), *further)
    ]
    further_calls = None
    if judge and held_out and not NEED_A_JUDGE.isdisjoint(config.objective.metrics):
        further_calls = max(
            _calls_of_a_cell(config, one, held_out, judge, collaborators.progress) for one in retrievers
        )
    return render_plan(made, lines, held_out=further_calls, width=width, color=False)


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


def _further_searches(config: ExperimentConfig, metrics: Mapping[str, object], cases: int) -> tuple[int, int]:
    latency = determinism = 0
    if any(name.startswith("latency/") for name in metrics):
        latency = config.latency.warmup + config.latency.repeats * cases * len(config.latency.concurrency)
    if any(name.startswith("determinism/") for name in metrics):
        determinism = config.determinism.repeats * cases
    return latency, determinism

"""The flow of a grid: every variant retrieved once, every cell scored, the leading one as a run of its own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial

from evals.collect import passes as candidates
from evals.collect.index_recall import is_approximate
from evals.collect.observations import Observation
from evals.config.experiment import ExperimentConfig
from evals.errors import ExperimentError
from evals.golden.loading import GoldenSet
from evals.grid.abstaining import Abstaining, abstaining, wanted_rates
from evals.grid.axes import Plan
from evals.grid.building import ObservedVariant, build, configure, pass_rate, with_summaries
from evals.grid.cells import Configuration, Grid
from evals.grid.choice import Choice, HeldOut
from evals.grid.compared_cell import compared_cell
from evals.grid.judging_rounds import CellProof, Stop, judge_until_proved, known_without_a_judge
from evals.grid.objective import Ranking, describe, needed, rank
from evals.grid.recommending import decide
from evals.grid.sampled_cells import cell_summary
from evals.grid.scoring import distinct
from evals.judge.cascade import judge_below
from evals.judge.verdicts import Judging
from evals.metrics import METRICS, NEED_A_JUDGE, VERDICT_METRIC, choose, needs
from evals.metrics.base import Context, Metric, QueryMetric
from evals.metrics.collaborators import Collaborators
from evals.metrics.declaration import Need
from evals.metrics.depth import reach
from evals.metrics.evaluation import context_of, finish, observe, with_passes, with_trust
from evals.metrics.grounds import Grounds
from evals.metrics.run_result import RunResult
from evals.metrics.sampled_judging import judge_sample
from retrievers.errors import nearest

# What is measured of one variant alone, unless a constraint names it.
MEASURED_APART: tuple[Need, ...] = ("latency", "determinism", "index")


@dataclass(frozen=True, kw_only=True)
class GridResult(RunResult):
    """A finished grid. As a run it is that of the recommended cell: its scores, intervals, criteria, verdicts.

    Attributes:
        ranking: Its cells by the objective.
        choice: Which cell to use, and what is known about it; None where cells cannot be ranked, and the run is then
            of the first.
        abstaining: Effect of thresholds under the cell's configuration, at its cut; None where none is in force.
        held_out: The recommended cell on queries that had no part in the choice; None without any.
        proof: What the verdicts that were bought prove of the cells, where judging ends once a cell is proved near the
            best (`judge.stop`); else None.
        compared: A second cell (see `compared_cell`) as a run, with the scores of its queries, to be set beside the
            recommended one; None where there is none, or where queries are not logged as traces.
    """

    grid: Grid
    ranking: Ranking
    choice: Choice | None
    abstaining: Abstaining | None = None
    held_out: HeldOut | None = None
    compared: RunResult | None = None
    proof: CellProof | None = None

    @property
    def chosen(self) -> int | None:
        """The cell that was chosen; None where cells cannot be ranked."""
        return None if self.choice is None else self.choice.recommended.cell


def grid_metrics(config: ExperimentConfig, *, approximate: bool = False) -> dict[str, Metric]:
    """Return the metrics of a grid: those chosen, those of the criteria and the objective, and context tokens.

    Those that read further than any of its cells returns are there when they are named.

    Raises:
        ExperimentError: A name or pattern fits no metric, or the objective is none over queries.
    """
    judged, levels = config.judge.model is not None, config.latency.concurrency
    every: dict[str, Metric] = {
        **choose(["*"], levels, judged=True, approximate=True),
        VERDICT_METRIC: pass_rate(),
    }
    for name in needed(config.objective):
        if name not in every:
            raise ExperimentError(f"objective: no metric {name!r}{nearest(name, every)} (--list-metrics shows all)")
    for name in config.objective.metrics:
        if not isinstance(every[name], QueryMetric):
            raise ExperimentError(
                f"objective: {name!r} has no score for each query, by which cells are compared; "
                f"it can be a constraint: objective.constraints: {{{name}: '<= ...'}}"
            )
    patterns = _asked_for(config)
    length = reach(config.retriever, config.sweep.top_k, config.sweep.candidates)
    chosen = choose(patterns, levels, judged=judged, approximate=approximate, reach=length)
    passes = any(fnmatchcase(VERDICT_METRIC, pattern) for pattern in patterns)
    return {name: metric for name, metric in every.items() if name in chosen or (passes and name == VERDICT_METRIC)}


def retrieve(
    config: ExperimentConfig,
    plan: Plan,
    golden: GoldenSet,
    grounds: Grounds,
    collaborators: Collaborators,
) -> list[ObservedVariant]:
    """Run golden queries through every variant, once each at full depth.

    Latency and determinism are measured here where a constraint names them; else on the chosen variant alone.

    Args:
        config: The experiment.
        plan: The variants of its sweep.
        golden: Its golden queries.
        grounds: Relevant chunks of these queries.
        collaborators: A retriever for each variant, in their order.

    Raises:
        RetrievalError: A search failed.
    """
    named, progress = config.objective.constraints, collaborators.progress
    exactly = needs(_metrics(config, collaborators), "index")
    retrieved: list[ObservedVariant] = []
    for variant, retriever in zip(plan.variants, collaborators.retrievers, strict=True):
        named_progress = _with_name(progress, variant.name) if len(plan.variants) > 1 else progress
        # One table of chunks for all variants, so that no chunk is read twice.
        observed = observe(
            golden,
            retriever,
            grounds,
            named_progress,
            retrieved[0].observed.table if retrieved else None,
            exactly=exactly,
        )
        observed.table.release()
        retrieved.append(
            ObservedVariant(variant=variant, observed=with_passes(config, named, observed, retriever, named_progress))
        )
    return retrieved


def evaluate_grid(
    config: ExperimentConfig,
    plan: Plan,
    retrieved: Sequence[ObservedVariant],
    grounds: Grounds,
    collaborators: Collaborators,
) -> GridResult:
    """Score every cell of what was retrieved, and say which it comes down to.

    Args:
        config: The experiment.
        plan: The variants, cuts and thresholds of its sweep.
        retrieved: By variant, in their order.
        grounds: Relevant chunks of the golden queries.
        collaborators: Source pages and a judge, where there are any; it is asked once for each distinct selection.

    Raises:
        ExperimentError: No cell meets the constraints.
        JudgeError: The judge refused its very first call.
    """
    metrics = _metrics(config, collaborators)
    configurations = configure(plan, retrieved)
    judge, judging, proof = collaborators.judge, None, None
    blank = context_of(config, grounds, collaborators.sources, None, retrieved[0].observed)
    if judge and (margin := judge.config.stop.margin) is not None:
        unjudged = build(plan, config.sweep, configurations, known_without_a_judge(metrics, config.objective), blank)
        stop, cheaper = Stop(margin=margin, sample=judge.config.sample), None
        ask: Callable[[Sequence[Observation]], Judging] = partial(judge.judge, metrics, seed=config.seed)
        if judge.below:
            cheaper, ask = judge_below(judge, metrics, _selections(configurations), config.seed)
        judging, proof = judge_until_proved(ask, stop, metrics, config.objective, unjudged, blank, cheaper)
    elif judge and not NEED_A_JUDGE.isdisjoint(metrics):
        selections = _selections(configurations)
        judging = judge_sample(judge, metrics, selections, blank)
    context = replace(blank, judging=judging)
    grid = build(plan, config.sweep, configurations, metrics, context, proof.judged if proof else None)
    _release(configurations)
    remaining = proof.remaining if proof else None
    ranking = rank(grid, config.objective, judging.incomplete if judging else "", remaining)
    choice = decide(grid, ranking, config.objective, config.seed, proof)
    chosen = None if choice is None else choice.recommended.cell
    shown = 0 if chosen is None else chosen
    grid = _with_passes(grid, shown, config, metrics, context, collaborators)
    if judge and judging:
        if config.judge.rejudge:
            judging = judge.again(judging, metrics, grid.observed(shown).observations, config.seed)
        context = with_trust(replace(context, judging=judging), grid.observed(shown))
    run = run_of(grid, shown, config, metrics, context)
    # MLflow alone shows it.
    second = compared_cell(grid, choice) if config.tracking.enabled and config.tracking.traces else None
    compared = None if second is None else _queries_of(grid, second, config, metrics, context)
    abstains = abstaining(grid, shown, wanted_rates(config.objective.constraints))
    _release(configurations)
    return GridResult(
        config=run.config,
        observed=run.observed,
        scores=run.scores,
        summaries=run.summaries,
        gates=run.gates,
        validation=run.validation,
        notes=[*run.notes, *_notes(run, grid, ranking, chosen, proof)],
        judging=run.judging,
        trust=run.trust,
        grid=grid,
        ranking=ranking,
        choice=choice,
        abstaining=abstains,
        compared=compared,
        proxies=run.proxies,
        proof=proof,
    )


def _metrics(config: ExperimentConfig, collaborators: Collaborators) -> dict[str, Metric]:
    return grid_metrics(config, approximate=any(map(is_approximate, collaborators.retrievers)))


def run_of(
    grid: Grid,
    index: int,
    config: ExperimentConfig,
    metrics: Mapping[str, Metric],
    context: Context,
) -> RunResult:
    """A cell as a run of its own has it, out of the grid's scores.

    Args:
        grid: The grid.
        index: The cell's number.
        config: The experiment; in the result its retriever is that of the cell.
        metrics: Those of the grid; one that reads further than the cell returns must be named, as in a run of its own.
        context: Inputs of the metrics besides the observations.
    """
    own = config.model_copy(update={"retriever": grid.settings(index)})
    observed, length, named = grid.observed(index), reach(own.retriever), _asked_for(config)
    scores, summaries = {}, []
    for name, metric in metrics.items():
        if name == VERDICT_METRIC or (name not in named and length.is_exceeded_by(metric)):
            continue
        if isinstance(metric, QueryMetric):
            scores[name] = grid.scores(name, index)
            summaries.append(cell_summary(grid, metric, index))
        else:
            summaries.append(metric.summarise(observed, context))
    return finish(own, observed, scores, summaries, context)


def _queries_of(
    grid: Grid, index: int, config: ExperimentConfig, metrics: Mapping[str, Metric], context: Context
) -> RunResult:
    """A cell likewise, with what concerns single queries alone: no criteria, no figures of the whole run, no trust."""
    scored = {name: metric for name, metric in metrics.items() if isinstance(metric, QueryMetric)}
    return run_of(grid, index, config.model_copy(update={"criteria": {}}), scored, replace(context, trust=None))


def _with_passes(
    grid: Grid,
    index: int,
    config: ExperimentConfig,
    metrics: Mapping[str, Metric],
    context: Context,
    collaborators: Collaborators,
) -> Grid:
    """Measure latency and determinism of a cell's variant, as far as the metrics need it and it was not done."""
    if not any(needs(metrics, need) for need in MEASURED_APART):
        return grid
    number = grid.cell(index).configuration
    configuration, retriever = grid.configurations[number], collaborators.retrievers[number]
    observed = with_passes(config, metrics, configuration.observed, retriever, collaborators.progress)
    measured = with_summaries(replace(configuration, observed=observed), metrics, context)
    every = list(grid.configurations)
    return replace(grid, configurations=(*every[:number], measured, *every[number + 1 :]))


def _release(configurations: Sequence[Configuration]) -> None:
    """Drop what was read of tables in files from memory."""
    for configuration in configurations:
        configuration.observed.table.release()


def _asked_for(config: ExperimentConfig) -> list[str]:
    """Return the names and patterns of metrics that a grid is asked for."""
    return [*config.metrics, *config.criteria, *needed(config.objective)]


def _selections(configurations: Sequence[Configuration]) -> list[Observation]:
    return [observation for part in configurations for observation in distinct(part).observations]


def _notes(run: RunResult, grid: Grid, ranking: Ranking, chosen: int | None, proof: CellProof | None) -> list[str]:
    """Return what a reader must know of a run that is a cell of a grid."""
    origin = (
        f"the cells are not ranked ({ranking.reason}); these are the figures of {describe(grid, 0)}"
        if chosen is None
        else f"chosen out of {len(grid)} cells on these queries, so its figures are optimistic; "
        "a run on a split of its own is not"
    )
    return [*grid.notes, *_on_depth(grid, ranking), *_on_budget(run, ranking), origin]


def _on_budget(run: RunResult, ranking: Ranking) -> list[str]:
    """Return what a grid allows whose judging ended early."""
    if run.judging is None or not run.judging.incomplete or not ranking.order:
        return []
    judged = min(ranking.n.values())
    return [
        f"{run.judging.incomplete}: cells are compared on the {judged} queries that were judged in all of them, drawn "
        "at random and the same for every cell; the intervals hold for these, and a further run buys the rest alone"
    ]


def _on_depth(grid: Grid, ranking: Ranking) -> list[str]:
    """Return a note for each metric that reads deeper than some cells return chunks."""
    least = min(grid.top_ks)
    metrics = {name: METRICS.get(name) for name in ranking.weights}
    depths = {n: m.depth for n, m in metrics.items() if isinstance(m, QueryMetric) and m.of == "returned" and m.depth}
    return [
        f"{name} reads {depth} places: cells of a smaller top_k are ranked by the fewer chunks that they return"
        for name, depth in depths.items()
        if depth > least
    ]


def _with_name(progress: candidates.Progress, name: str) -> candidates.Progress:
    return lambda stage, done, total: progress(f"{name}: {stage}", done, total)

"""The flow of a grid: every variant retrieved once, every cell scored, the leading one as a run of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from evals.collect import passes as candidates
from evals.config.experiment import ExperimentConfig
from evals.errors import ExperimentError
from evals.golden.loading import GoldenSet
from evals.grid.abstaining import Abstaining, abstaining, wanted_rates
from evals.grid.axes import Plan
from evals.grid.building import Retrieved, build, configure, pass_rate
from evals.grid.cells import Grid
from evals.grid.choice import Choice, HeldOut
from evals.grid.objective import Ranking, describe, needed, rank
from evals.grid.recommending import decide
from evals.grid.scoring import distinct
from evals.metrics import BY_NAME_ONLY, METRICS, NEED_A_JUDGE, VERDICT_METRIC, choose
from evals.metrics.base import Context, Metric, QueryMetric, summarise
from evals.metrics.collaborators import Collaborators
from evals.metrics.depth import reach
from evals.metrics.evaluation import Grounds, context_of, finish, observe, with_trust
from evals.metrics.run_result import RunResult
from retrievers.config import RetrieverConfig
from retrievers.errors import nearest


@dataclass(frozen=True, kw_only=True)
class GridResult:
    """A finished grid, ready to be reported.

    Attributes:
        ranking: Its cells by the objective.
        choice: Which cell to use, and what is known about it; None where cells cannot be ranked, and `run` is then of
            the first.
        run: The recommended cell as a run of its own has it: scores, intervals, criteria, verdicts.
        abstaining: What thresholds do under the cell's configuration, at its cut; None where none is in force.
        held_out: The recommended cell on queries that had no part in the choice; None without any.
    """

    grid: Grid
    ranking: Ranking
    choice: Choice | None
    run: RunResult
    abstaining: Abstaining | None = None
    held_out: HeldOut | None = None

    @property
    def chosen(self) -> int | None:
        """The cell that was chosen; None where cells cannot be ranked."""
        return None if self.choice is None else self.choice.recommended.cell

    @property
    def settings(self) -> RetrieverConfig:
        """The retriever's settings of the cell that `run` is of."""
        return self.grid.settings(self.chosen or 0)


def grid_metrics(config: ExperimentConfig) -> dict[str, Metric]:
    """The metrics of a grid: those chosen, those of the criteria and the objective, and context tokens.

    Those that read further than any of its cells returns are there when they are named.

    Raises:
        ExperimentError: A name or pattern fits no metric, or the objective is none over queries.
    """
    judged, levels = config.judge.model is not None, config.latency.concurrency
    every: dict[str, Metric] = {**choose(["*", *BY_NAME_ONLY], levels, judged=True), VERDICT_METRIC: pass_rate()}
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
    chosen = choose(patterns, levels, judged=judged, reach=length)
    passes = any(fnmatchcase(VERDICT_METRIC, pattern) for pattern in patterns)
    return {name: metric for name, metric in every.items() if name in chosen or (passes and name == VERDICT_METRIC)}


def retrieve(
    config: ExperimentConfig,
    plan: Plan,
    golden: GoldenSet,
    grounds: Grounds,
    collaborators: Collaborators,
) -> list[Retrieved]:
    """Run golden queries through every variant, once each at full depth.

    Args:
        config: The experiment.
        plan: The variants of its sweep.
        golden: Its golden queries.
        grounds: What is relevant to them.
        collaborators: A retriever for each variant, in their order.

    Raises:
        RetrievalError: A search failed.
    """
    metrics, progress = grid_metrics(config), collaborators.progress
    retrieved = []
    for variant, retriever in zip(plan.variants, collaborators.retrievers, strict=True):
        named = _named(progress, variant.name) if len(plan.variants) > 1 else progress
        observed = observe(config, metrics, golden, retriever, grounds, named)
        retrieved.append(Retrieved(variant=variant, observed=observed))
    return retrieved


def evaluate_grid(
    config: ExperimentConfig,
    plan: Plan,
    retrieved: Sequence[Retrieved],
    grounds: Grounds,
    collaborators: Collaborators,
    facts: Mapping[str, Any],
) -> GridResult:
    """Score every cell of what was retrieved, and say which it comes down to.

    Args:
        config: The experiment.
        plan: The variants, cuts and thresholds of its sweep.
        retrieved: By variant, in their order.
        grounds: What is relevant.
        collaborators: Source pages and a judge, where there are any; it is asked once for each distinct selection.
        facts: What makes runs comparable, handed on to the result.

    Raises:
        ExperimentError: No cell meets the constraints.
        JudgeError: The judge refused its very first call.
    """
    metrics = grid_metrics(config)
    configurations = configure(plan, retrieved)
    judge, judging = collaborators.judge, None
    if judge and not NEED_A_JUDGE.isdisjoint(metrics):
        judging = judge.judge(metrics, [o for one in configurations for o in distinct(one).observations], config.seed)
    context = context_of(config, grounds, collaborators.sources, judging)
    grid = build(plan, config.sweep, configurations, metrics, context)
    ranking = rank(grid, config.objective, judging.incomplete if judging else "")
    choice = decide(grid, ranking, config.objective, config.seed)
    chosen = None if choice is None else choice.recommended.cell
    shown = 0 if chosen is None else chosen
    if judge and judging:
        if config.judge.rejudge:
            judging = judge.again(judging, metrics, grid.observed(shown).observations, config.seed)
        context = with_trust(replace(context, judging=judging), grid.observed(shown))
    return GridResult(
        grid=grid,
        ranking=ranking,
        choice=choice,
        run=_noted(run_of(grid, shown, config, metrics, context, facts), grid, ranking, chosen),
        abstaining=abstaining(grid, shown, wanted_rates(config.objective.constraints)),
    )


def run_of(
    grid: Grid,
    index: int,
    config: ExperimentConfig,
    metrics: Mapping[str, Metric],
    context: Context,
    facts: Mapping[str, Any],
) -> RunResult:
    """A cell as a run of its own has it, out of the grid's scores.

    Args:
        grid: The grid.
        index: The cell's number.
        config: The experiment; in the result its retriever is that of the cell.
        metrics: Those of the grid; one that reads further than the cell returns must be named, as in a run of its own.
        context: What metrics need besides what was observed.
        facts: What makes runs comparable.
    """
    own = config.model_copy(update={"retriever": grid.settings(index)})
    observed, length, named = grid.observed(index), reach(own.retriever), _asked_for(config)
    scores, summaries = {}, []
    for name, metric in metrics.items():
        if name == VERDICT_METRIC or (name not in named and length.is_exceeded_by(metric)):
            continue
        if isinstance(metric, QueryMetric):
            scores[name] = grid.scores(name, index)
            summaries.append(summarise(name, list(scores[name].values()), metric.interval))
        else:
            summaries.append(metric.summarise(observed, context))
    return finish(own, observed, scores, summaries, context, facts)


def _asked_for(config: ExperimentConfig) -> list[str]:
    """The names and patterns of metrics that a grid is asked for."""
    return [*config.metrics, *config.criteria, *needed(config.objective)]


def _noted(run: RunResult, grid: Grid, ranking: Ranking, chosen: int | None) -> RunResult:
    """The run with what a reader must know of where it comes from."""
    if chosen is None:
        said = f"the cells are not ranked ({ranking.reason}); these are the figures of {describe(grid, 0)}"
    else:
        said = (
            f"chosen out of {len(grid)} cells on these queries, so its figures are optimistic; "
            "a run on a split of its own is not"
        )
    return replace(run, notes=[*run.notes, *grid.notes, *_on_depth(grid, ranking), *_on_budget(run, ranking), said])


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
    """That some cells return fewer chunks than they are ranked by."""
    least = min(grid.top_ks)
    metrics = {name: METRICS.get(name) for name in ranking.weights}
    depths = {n: m.depth for n, m in metrics.items() if isinstance(m, QueryMetric) and m.of == "returned" and m.depth}
    return [
        f"{name} reads {depth} places: cells of a smaller top_k are ranked by the fewer chunks that they return"
        for name, depth in depths.items()
        if depth > least
    ]


def _named(progress: candidates.Progress, name: str) -> candidates.Progress:
    return lambda stage, done, total: progress(f"{name}: {stage}", done, total)

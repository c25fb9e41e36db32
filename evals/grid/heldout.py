"""The unbiased figure of the chosen cell: its score on queries that had no part in the choice."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from evals.cases.reading import GoldenSet
from evals.collect.observations import Summary
from evals.collect.pool import Find, Pool
from evals.config.experiment import DatasetConfig, ExperimentConfig, ThresholdConfig
from evals.errors import DatasetError
from evals.grid.axes import Plan
from evals.grid.cells import Grid
from evals.grid.choice import held_out, objective_scores
from evals.grid.decision import FALSE_ANSWER, Decision, Level
from evals.grid.measure import Measured, measure_pool
from evals.grid.sampled import figures_of
from evals.metrics import criteria as gates
from evals.metrics import metric_named
from evals.metrics.declaration import Collaborators, Context, QueryMetric
from evals.metrics.llm import respent

CHOSEN_ON, HELD_OUT = "dev", "test"


def load_held_out(
    config: ExperimentConfig, golden: GoldenSet, load: Callable[[DatasetConfig], GoldenSet]
) -> GoldenSet | None:
    """Load the golden queries of the held-out split, without the queries on which the cell is chosen.

    The split is `objective.held_out`. If that is left out and the grid is over `dev`, the split is `test`.

    Args:
        config: The experiment.
        golden: The golden queries on which the cell is chosen.
        load: Loads golden queries.

    Returns:
        The held-out queries; None if there are none and the settings name no split.

    Raises:
        DatasetError: The split that the settings name does not exist, or has only queries on which the cell is chosen.
    """
    split = config.objective.held_out
    if split is None and config.dataset.split != CHOSEN_ON:
        return None
    dataset = config.dataset.model_copy(update={"split": split or HELD_OUT, "ids": (), "limit": None})
    try:
        of_split = load(dataset)
    except DatasetError as error:
        if split is None:
            return None
        raise DatasetError(str(error).replace("dataset.split", "objective.held_out", 1)) from None
    chosen_on = {key for case in golden.cases for key in (case.id, case.query)}
    cases = tuple(case for case in of_split.cases if chosen_on.isdisjoint((case.id, case.query)))
    if split is not None and not cases:
        raise DatasetError(
            f"objective.held_out {split!r}: expected queries that have no part in the choice, but the cell is chosen "
            f"on all {len(of_split.cases)} of that split; choose on another one (--dataset.split)"
        )
    return replace(of_split, cases=cases) if cases else None


def with_held_out(config: ExperimentConfig, result: Measured, find: Find, collaborators: Collaborators) -> Measured:
    """Add the figures on held-out queries to a sweep: of the chosen cell and of the levels, with the cost of judging.

    Args:
        config: The experiment.
        result: The measurement with the sweep. It is returned unchanged if no cell was chosen.
        find: Finds the candidates of the held-out queries.
        collaborators: The judge and the source pages, if there are any.

    Raises:
        RetrievalError: A search failed.
    """
    swept = result.swept
    if swept is None or swept.choice is None:
        return result
    grid, judge = swept.grid, collaborators.judge
    cell = grid.cell(swept.choice.recommended.cell)
    levels = swept.decision.levels if swept.decision else ()
    others = {grid.cell(level.cell).variant for level in levels if level.cell is not None}
    numbers = [cell.variant, *sorted(others - {cell.variant})]
    pool = find(numbers)
    variant = replace(grid.variants[cell.variant], thresholds=(cell.threshold or 0.0,))
    # Only the metrics of the objective are measured, judged once, at the chosen threshold, without any conditions.
    objective = config.objective.model_copy(update={"constraints": {}})
    settings = {
        "metrics": tuple(objective.metrics),
        "criteria": {},
        "objective": objective,
        "judge": config.judge.model_copy(update={"rejudge": 0}),
        "threshold": ThresholdConfig(),
    }
    bench = replace(collaborators, retrievers=())
    plan = Plan(variants=(variant,), top_ks=(cell.top_k,))
    measured = measure_pool(config.model_copy(update=settings), pool.under([0]), bench, plan)
    assert measured.swept is not None
    if judge and result.judging:  # the cost of judging includes the held-out queries, and criteria read that cost
        context = replace(result.context, judging=judge.charged(result.judging))
        summaries = respent(result.summaries, context.judging or result.judging)
        result = replace(result, context=context, summaries=summaries, gates=gates.judge(config.criteria, summaries))
    missing = (measured.judging and measured.judging.incomplete) or measured.swept.ranking.reason
    judged = None if missing else measured.swept.grid
    decision = swept.decision and _with_levels(swept.decision, grid, pool, numbers, judged, measured.context)
    if missing:
        notes = [*result.notes, f"there is no figure on the held-out queries: {missing}"]
        return replace(result, swept=replace(swept, decision=decision), notes=notes)
    scores = objective_scores(measured.swept.grid, objective, measured.context)
    return replace(result, swept=replace(swept, held_out=held_out(swept.choice, scores), decision=decision))


def _with_levels(
    decision: Decision, grid: Grid, pool: Pool, numbers: Sequence[int], judged: Grid | None, context: Context
) -> Decision:
    """Add to each level what its cell finds for held-out queries, if it is known, and wrongly answers.

    Args:
        decision: The decision with the levels.
        grid: The grid of their cells.
        pool: Candidates of the held-out queries under some variants of the grid.
        numbers: Numbers of these variants.
        judged: The recommended cell alone, over these queries: of no other cell is a judged metric known. None if not
            all verdicts were bought.
        context: Inputs of the metrics.
    """
    figures = decision.recommended.figures
    metric, wrong = metric_named(figures.found.metric) if figures else None, metric_named(FALSE_ANSWER)
    if not isinstance(metric, QueryMetric) or not isinstance(wrong, QueryMetric):
        return decision
    unseen = Grid(plan=replace(grid.plan, variants=tuple(grid.variants[number] for number in numbers)), pool=pool)

    def figure(level: Level) -> Level:
        if level.cell is None:
            return level
        variant, place = divmod(level.cell, grid.size)
        index = numbers.index(variant) * grid.size + place
        found: Summary | None = None
        if not metric.is_judged:
            found = figures_of(unseen, metric, index, context)
        elif judged and level.cell == decision.recommended.cell:
            found = figures_of(judged, metric, 0, context)
        answered = figures_of(unseen, wrong, index, context)
        return replace(level, held_out=found, held_out_false_answer=None if answered.value is None else answered)

    levels = tuple(map(figure, decision.levels))
    return replace(decision, levels=levels, recommended=figure(decision.recommended))

"""The chosen cell on queries that had no part in the choice: its unbiased figure."""

from dataclasses import replace

from evals.cases.reading import GoldenSet, load_golden
from evals.collect.pool import Find
from evals.config.experiment import ExperimentConfig
from evals.errors import DatasetError
from evals.grid.axes import Plan
from evals.grid.choice import held_out, objective_scores
from evals.grid.measure import Measured, measure_pool
from evals.metrics import criteria as gates
from evals.metrics.collaborators import Collaborators
from evals.metrics.llm import respent

CHOSEN_ON, HELD_OUT = "dev", "test"


def load_held_out(config: ExperimentConfig) -> GoldenSet | None:
    """Load the golden queries of the split that is held out; None where there is none.

    It is `objective.held_out`, or `test` where the grid is over `dev` and there are cases of that split.

    Raises:
        DatasetError: The split that was named has no cases.
    """
    split = config.objective.held_out
    if split is None and config.dataset.split != CHOSEN_ON:
        return None
    dataset = config.dataset.model_copy(update={"split": split or HELD_OUT, "ids": (), "limit": None})
    try:
        return load_golden(dataset)
    except DatasetError:
        if split is None:
            return None
        raise


def with_held_out(
    config: ExperimentConfig, plan: Plan, result: Measured, find: Find, collaborators: Collaborators
) -> Measured:
    """Add the figure of the chosen cell on held-out queries to a grid, and the cost of judging them.

    Args:
        config: The experiment.
        plan: The sweep of the grid.
        result: The grid, and what was chosen.
        find: Finds the held-out queries.
        collaborators: The judge and the source pages, where there are any.

    Raises:
        RetrievalError: A search failed.
    """
    swept = result.swept
    if swept is None or swept.choice is None:
        return result
    cell, judge = swept.grid.cell(swept.choice.recommended.cell), collaborators.judge
    only = replace(plan.variants[cell.configuration], thresholds=(cell.threshold or 0.0,))
    alone = replace(plan, variants=(only,), top_ks=(cell.top_k,))
    # The metrics of the objective alone, judged once, without criteria and constraints.
    objective = config.objective.model_copy(update={"constraints": {}})
    once = config.judge.model_copy(update={"rejudge": 0})
    settings = {"metrics": tuple(objective.metrics), "criteria": {}, "objective": objective, "judge": once}
    own, bench = config.model_copy(update=settings), replace(collaborators, retrievers=())
    found = measure_pool(own, find([cell.configuration]), bench, alone)
    assert found.swept is not None
    if judge and result.judging:  # what judging cost is the cost of both, and criteria are held against that
        context = replace(result.context, judging=judge.charged(result.judging))
        summaries = respent(result.summaries, context.judging or result.judging)
        result = replace(result, context=context, summaries=summaries, gates=gates.judge(config.criteria, summaries))
    missing = (found.judging and found.judging.incomplete) or found.swept.ranking.reason
    if missing:
        return replace(result, notes=[*result.notes, f"there is no figure on the held-out queries: {missing}"])
    scores = objective_scores(found.swept.grid, objective, found.context)
    return replace(result, swept=replace(swept, held_out=held_out(swept.choice, scores)))

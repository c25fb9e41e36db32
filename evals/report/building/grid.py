"""The grid's section of the report, by columns. Pure."""

from math import isnan

import numpy as np
from numpy.typing import NDArray

from evals.grid.cells import Configuration, MetricScores
from evals.grid.choice import Choice
from evals.grid.evaluation import GridResult
from evals.grid.objective import Ranking
from evals.grid.unjudged import unjudged
from evals.report.building.choice import FALSE_ANSWER, choice_section, reported
from evals.report.building.proof import proof_section
from evals.report.model import GridSection, MetricEntry
from evals.report.model.abstention import AbstentionSection
from evals.report.model.choice import ChoiceSection
from evals.report.model.grid import CellColumns, ConfigurationEntry, GridMetric, RankingSection

# Cells beyond these are left out of the report, from the end of the ranking; never one whose standing is shown.
MOST_CELLS = 10_000
Cells = NDArray[np.int64]


def grid_section(result: GridResult, most: int = MOST_CELLS) -> GridSection:
    """Return the grid: axes, configurations, cells, and every metric by cell.

    Args:
        result: The grid.
        most: Number of cells beyond which some are left out.
    """
    grid, reported_cells = result.grid, _kept(len(result.grid), result.choice, result.ranking, most)
    cells = [grid.cell(index) for index in reported_cells.tolist()]
    return GridSection(
        axes={name: list(values) for name, values in grid.axes.items()},
        chosen=result.chosen,
        choice=_choice(result),
        ranking=_ranking(result.ranking, reported_cells),
        top_k=list(grid.top_ks),
        configurations=[_configuration(configuration) for configuration in grid.configurations],
        cells=CellColumns(
            count=len(grid),
            index=reported_cells.tolist(),
            configuration=[cell.configuration for cell in cells],
            top_k=[cell.top_k for cell in cells],
            threshold=[cell.threshold for cell in cells],
        ),
        metrics={name: _metric(metric, reported_cells) for name, metric in grid.metrics.items()},
        proof=proof_section(result),
        abstention=AbstentionSection.of(result.abstaining) if result.abstaining else None,
        notes=list(grid.notes),
    )


def _choice(result: GridResult) -> ChoiceSection | None:
    if result.choice is None:
        return None
    holes = unjudged(result.grid, result.choice, result.config.objective.metrics)
    return choice_section(result.choice, result.held_out, _false_answers(result), holes)


def _false_answers(result: GridResult) -> float | None:
    metric = result.grid.metrics.get(FALSE_ANSWER)
    if metric is None or result.choice is None:
        return None
    share = float(metric.summaries.mean[result.choice.recommended.cell])
    return None if isnan(share) else share


def _kept(count: int, choice: Choice | None, ranking: Ranking, most: int) -> Cells:
    """Return the numbers of the cells that are reported, ascending."""
    every = np.arange(count)
    if count <= most:
        return every
    standings = [standing.cell for _, standing in reported(choice)] if choice else []
    order = np.asarray(list(dict.fromkeys((*standings, *ranking.order))), dtype=np.int64)
    rest = np.setdiff1d(every, order)
    return np.sort(np.concatenate([order, rest])[: max(most, len(standings))])


def _ranking(ranking: Ranking, cells: Cells) -> RankingSection:
    shown = set(cells.tolist())
    return RankingSection(
        metrics=dict(ranking.weights),
        n=dict(ranking.n),
        dropped=dict(ranking.dropped),
        constraints=dict(ranking.constraints),
        excluded=ranking.excluded,
        reason=ranking.reason,
        order=[cell for cell in ranking.order if cell in shown],
        values=_numbers(ranking.values[cells]),
    )


def _configuration(configuration: Configuration) -> ConfigurationEntry:
    return ConfigurationEntry(
        name=configuration.name,
        parameters=dict(configuration.parameters),
        thresholds=len(configuration.thresholds),
        metrics={summary.metric: MetricEntry.of(summary) for summary in configuration.summaries},
    )


def _metric(metric: MetricScores, cells: Cells) -> GridMetric:
    summaries = metric.summaries
    same = np.array_equal(summaries.common, summaries.mean, equal_nan=True)
    return GridMetric(
        scope=metric.scope,
        mean=_numbers(summaries.mean[cells]),
        n=_counts(summaries.n[cells]),
        n_unscored=_counts(summaries.n_unscored[cells]),
        n_failed=_counts(summaries.n_failed[cells]),
        common=None if same else _numbers(summaries.common[cells]),
        n_common=summaries.n_common,
        n_dropped=summaries.n_dropped,
    )


def _numbers(values: NDArray[np.float64]) -> list[float | None]:
    return [None if isnan(value) else value for value in values.tolist()]


def _counts(values: Cells) -> int | list[int]:
    """Return one number where all cells have the same."""
    counts: list[int] = values.tolist()
    return counts[0] if len(set(counts)) == 1 else counts

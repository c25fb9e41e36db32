"""The section of a grid in the report, by columns: its cells, the choice, what was proved. Pure."""

from math import isfinite, isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evals.grid.cells import CellScores, Configuration
from evals.grid.choice import Choice, HeldOut, Standing, explain
from evals.grid.decision import Level, range_of
from evals.grid.judging import NEXT, CellProof
from evals.grid.measure import Swept
from evals.grid.objective import Ranking, describe
from evals.report.model import GridSection, MetricEntry
from evals.report.model.choice import (
    ChoiceSection,
    DecisionSection,
    HeldOutEntry,
    LevelEntry,
    StandingEntry,
    WeightEntry,
)
from evals.report.model.grid import (
    AbstentionSection,
    CellColumns,
    ConfigurationEntry,
    GridMetric,
    ProofSection,
    RankingSection,
)

# Cells beyond these are left out of the report, from the end of the ranking; never one whose standing is shown.
MOST_CELLS = 10_000
Cells = NDArray[np.int64]
# Standings beyond these are left out, from the end; never a member of the confidence set or the recommended.
MOST_STANDINGS = 200
FALSE_ANSWER = "scope/false_answer"
# Share of falsely answered queries above which a recommendation says so.
MOST_FALSE_ANSWERS = 0.5


def grid_section(result: Swept, most: int = MOST_CELLS) -> GridSection:
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
        decision=_decision(result),
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


def _choice(result: Swept) -> ChoiceSection | None:
    if result.choice is None:
        return None
    return choice_section(result.choice, result.held_out, _false_answers(result))


def _decision(result: Swept) -> DecisionSection | None:
    decision, choice, grid = result.decision, result.choice, result.grid
    if decision is None or choice is None:
        return None

    def settings(cell: int) -> dict[str, Any]:
        return {"cell": cell, "top_k": grid.cell(cell).top_k, "threshold": grid.cell(cell).threshold}

    def level(one: Level) -> LevelEntry:
        own = {"cell": None, "top_k": None, "threshold": None} if one.cell is None else settings(one.cell)
        return LevelEntry(
            limit=one.limit,
            retrieval="" if one.cell is None else grid.configurations[grid.cell(one.cell).configuration].name,
            metrics={figure.metric: MetricEntry.of(figure) for figure in one.figures},
            tokens=one.tokens,
            nearest=one.nearest,
            **own,
        )

    return DecisionSection(
        metric=decision.recommended.figures[0].metric,
        weight=decision.weight,
        in_scope=decision.in_scope,
        out_of_scope=decision.out_of_scope,
        levels=[level(one) for one in decision.levels],
        recommended=level(decision.recommended),
        by_weight=[WeightEntry(weight=weight, **settings(cell)) for weight, cell in decision.by_weight],
        may_be_best=range_of(grid, [cell for standing in choice.best_set for cell in standing.members]),
    )


def _false_answers(result: Swept) -> float | None:
    metric = result.grid.metrics.get(FALSE_ANSWER)
    if metric is None or result.choice is None:
        return None
    share = float(metric.mean[result.choice.recommended.cell])
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


def _metric(summaries: CellScores, cells: Cells) -> GridMetric:
    same = np.array_equal(summaries.common, summaries.mean, equal_nan=True)
    return GridMetric(
        scope=summaries.scope,
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


def choice_section(
    choice: Choice,
    held_out: HeldOut | None,
    false_answers: float | None = None,
    most: int = MOST_STANDINGS,
) -> ChoiceSection:
    """Return the recommended cell and why, the confidence set of best cells, and the figure on held-out queries.

    Args:
        choice: The choice.
        held_out: The figure, None without held-out queries.
        false_answers: Share of the out-of-scope queries that the recommended cell answers, None where not known.
        most: Number of standings beyond which some are left out.
    """
    first, *others = explain(choice)
    return ChoiceSection(
        explanation=[first + _warning(false_answers), *others],
        objective=choice.objective,
        margin=choice.margin,
        n=choice.n,
        dropped=choice.dropped,
        cells=choice.n_cells,
        allowed=choice.n_allowed,
        best=choice.best.cell,
        recommended=choice.recommended.cell,
        proved=choice.proved,
        reason=choice.reason,
        queries_needed=choice.queries_needed,
        note=choice.note,
        set=[standing.cell for standing in choice.best_set],
        standings=[_standing(rank, standing) for rank, standing in reported(choice, most)],
        held_out=HeldOutEntry.of(held_out) if held_out else None,
    )


def _warning(false_answers: float | None) -> str:
    if false_answers is None or false_answers <= MOST_FALSE_ANSWERS:
        return ""
    return (
        f". It answers {false_answers:.0%} of the out-of-scope queries: constrain that with "
        f"--objective.constraints '{FALSE_ANSWER} <= {MOST_FALSE_ANSWERS:g}'"
    )


def reported(choice: Choice, most: int = MOST_STANDINGS) -> list[tuple[int, Standing]]:
    """Return the standings that are reported, each with its place from 1."""
    ranked = enumerate(choice.standings, 1)
    return [(n, s) for n, s in ranked if n <= most or s.in_set or s.cell == choice.recommended.cell]


def _standing(rank: int, standing: Standing) -> StandingEntry:
    return StandingEntry(
        place=rank,
        cell=standing.cell,
        members=list(standing.members),
        label=standing.label,
        cost=standing.cost,
        value=standing.value,
        ci_low=standing.interval.low,
        ci_high=standing.interval.high,
        in_set=standing.in_set,
        difference=standing.difference,
        lower=standing.lower,
    )


def proof_section(result: Swept) -> ProofSection | None:
    """Return the proof for the recommended cell; None without `judge.stop`."""
    proof, cell = result.proof, result.chosen
    if proof is None:
        return None
    # Cells that scored the same on every query are one.
    members = list(result.choice.recommended.members) if result.choice else []
    bounds = [bound for bound in proof.within[members].tolist() if isfinite(bound)]
    bound = min(bounds, default=None)
    return ProofSection(
        statement=f"{_proved(result, proof, bound)}, {_bought(proof)}{_next(proof)}",
        margin=proof.margin,
        cell=cell,
        within=bound,
        remaining=int(proof.remaining.sum()),
        queries=proof.queries,
        queries_in_all=proof.eligible,
        questions=proof.questions,
        questions_in_all=proof.all_questions,
        next_within=proof.next_within,
    )


def _proved(result: Swept, proof: CellProof, bound: float | None) -> str:
    if bound is None or result.chosen is None:
        return f"Not proved: too few queries were judged to compare {len(result.grid):,} cells"
    name = describe(result.grid, result.chosen)
    of = f"the best of {len(result.grid):,} cells by all verdicts on these queries (95%)"
    if bound == 0:
        return f"Proved: {name} is {of}"
    head = "Proved" if bound <= proof.margin else f"Not proved within {proof.margin:g}"
    return f"{head}: {name} is at most {bound:.3f} below {of}"


def _bought(proof: CellProof) -> str:
    share = proof.questions / max(1, proof.all_questions)
    return (
        f"with {proof.questions:,} of {proof.all_questions:,} verdicts ({share:.0%}) on {proof.queries} of "
        f"{proof.eligible} queries"
    )


def _next(proof: CellProof) -> str:
    return "" if proof.next_within is None else f"; {NEXT} more would bring that to about {proof.next_within:.3f}"

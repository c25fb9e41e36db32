"""Which threshold and top_k to take: the table that stands first on terminal and page. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from evals.grid.decision import ANY, FALSE_ABSTENTION, FALSE_ANSWER
from evals.metrics import VERDICT_METRIC
from evals.report.model import GridSection
from evals.report.model.base import MetricEntry
from evals.report.model.choice import DecisionSection, LevelEntry
from evals.report.model.grid import AbstentionSection

# Weights at which the choice changes that are shown.
MOST_WEIGHTS = 6


@dataclass(frozen=True, kw_only=True)
class DecisionTable:
    """The table as text.

    Attributes:
        head: What is decided, and by what.
        columns: The headings; of the last two, which a narrow terminal leaves out, tokens and passes.
        rows: A row for each level, the recommended cell last.
        notes: What the rows rest on, a sentence each.
    """

    head: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]


def decision_table(grid: GridSection, passes: int) -> DecisionTable | None:
    """Return the table; None where the grid has no decision.

    Args:
        grid: The grid.
        passes: Number of queries that pass or fail.
    """
    decision = grid.decision
    if decision is None or grid.choice is None:
        return None
    levels = (*decision.levels, decision.recommended)
    retrievals = {level.retrieval for level in levels if level.cell is not None}
    alone = f" · {next(iter(retrievals))}" if len(retrievals) == 1 else ""
    count = sum(len(standing.members) for standing in grid.choice.standings if standing.in_set)
    return DecisionTable(
        head=f"{decision.in_scope} in scope, {decision.out_of_scope} out of scope · {grid.cells.count:,} cells{alone}",
        columns=(
            "wrong answers",
            "take",
            decision.metric.partition("/")[2],
            "wrongly answered",
            "wrongly silent",
            "tokens",
            "passes",
        ),
        rows=tuple(
            _row(decision, level, named=not alone, starred=level is decision.recommended, passes=passes)
            for level in levels
        ),
        notes=tuple(
            filter(
                None,
                (
                    _separation(grid),
                    f"★ best at weight {decision.weight:.3g} of out-of-scope queries (objective.out_of_scope); "
                    f"{count:,} of {grid.choice.allowed:,} cells may be as good (95%): {decision.may_be_best}",
                    _by_weight(decision),
                    _promised(grid.abstention),
                ),
            )
        ),
    )


def _row(decision: DecisionSection, level: LevelEntry, *, named: bool, starred: bool, passes: int) -> tuple[str, ...]:
    label = "★ recommended" if starred else "any" if level.limit == ANY else f"at most {100 * level.limit:.3g}%"
    if level.cell is None:
        return label, f"none (least {level.nearest:.0%})", *("–",) * 5
    passed = level.metrics[VERDICT_METRIC].value
    return (
        label,
        f"{level.retrieval} {_cut(level)}" if named else _cut(level),
        _with_ends(level.metrics[decision.metric]),
        _share(level.metrics[FALSE_ANSWER]),
        _share(level.metrics[FALSE_ABSTENTION]),
        "–" if level.tokens is None else f"{level.tokens:,.0f}",
        "–" if passed is None else f"{round(passed * passes)} of {passes}",
    )


def _cut(level: LevelEntry) -> str:
    return f"k{level.top_k}" + ("" if level.threshold is None else f" t{level.threshold:g}")


def _with_ends(metric: MetricEntry) -> str:
    if metric.value is None:
        return "–"
    ends = "" if metric.ci_low is None or metric.ci_high is None else f" ({metric.ci_low:.2f}…{metric.ci_high:.2f})"
    return f"{metric.value:.3f}{ends}"


def _share(metric: MetricEntry) -> str:
    if metric.value is None:
        return "–"
    ends = (
        ""
        if metric.ci_low is None or metric.ci_high is None
        else f" ({100 * metric.ci_low:.0f}…{100 * metric.ci_high:.0f})"
    )
    return f"{metric.value:.0%}{ends}"


def _separation(grid: GridSection) -> str:
    """Say so where no threshold tells the two kinds of query apart."""
    return grid.abstention.known.statement if grid.abstention and grid.abstention.known.separation == "none" else ""


def _promised(abstention: AbstentionSection | None) -> str:
    """Say which thresholds promise which rates of wrong answers."""
    if abstention is None or not abstention.promised:
        return ""
    said = []
    for one in abstention.promised:
        rate = f"at most {100 * one.rate:.3g}%"
        if one.threshold is not None and one.at is not None:
            silent = "" if one.at.false_abstention is None else f" ({one.at.false_abstention:.0%} silent)"
            said.append(f"{rate} t{one.threshold:g}{silent}")
        elif abstention.known.out_of_scope < one.queries:
            said.append(f"{rate} takes {one.queries} out-of-scope queries")
        else:
            said.append(f"{rate} none")
    return f"Promised for questions like these (95%): {' · '.join(said)}"


def _by_weight(decision: DecisionSection) -> str:
    """Say from which weight on which cell is the best."""
    changes: Sequence[str] = [
        f"{one.weight:.2f} k{one.top_k}" + ("" if one.threshold is None else f" t{one.threshold:g}")
        for one in decision.by_weight
    ]
    rest = f" · and {len(changes) - MOST_WEIGHTS} more" if len(changes) > MOST_WEIGHTS else ""
    return f"Best from weight: {' · '.join(changes[:MOST_WEIGHTS])}{rest}"

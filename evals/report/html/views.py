"""What the page says, as plain values: rounded, in order, not yet escaped. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import yaml

from evals.collect.observations import Observation, QueryVerdict, Summary
from evals.grid.choice import Standing, explain
from evals.grid.evaluation import GridResult
from evals.metrics.run_result import RunResult
from evals.report.document import rows
from evals.report.figures.why import COLORS, why
from evals.report.grid_terminal import approximation_lines, columns, held_out_lines
from evals.report.headline import deepest
from evals.report.judge import judging_lines
from evals.report.terminal import figure, remark
from evals.report.worst import expected, worst
from retrievers.terminal.present import score_text

Row = Mapping[str, Any]
MOST_QUERIES = 2_000
"""Queries beyond these are left out of the page, those that were answered well first."""
TOP_CELLS = 20
QUERY_SCORES = (
    "ranking/ndcg_at_K",
    "ranking/recall_at_K",
    "candidates/ndcg_at_10",
    "ragas/id_context_precision",
    "ragas/llm_context_recall",
    "ragas/llm_claim_recall",
)
"""Columns of the table of queries, where the run has them; `_at_K` at the deepest."""
WORST_FIRST = {name: place for place, name in enumerate(reversed(COLORS))}


def criteria(result: RunResult) -> list[Row]:
    """Each criterion with what was compared."""
    return [
        {
            "metric": gate.metric,
            "condition": gate.condition,
            "figure": figure(gate.metric, gate.figure),
            "passed": gate.passed,
            "verdict": gate.verdict,
            "reason": gate.reason,
        }
        for gate in result.gates
    ]


def metrics(result: RunResult) -> list[Row]:
    """Each metric that has a value, or a reason why it has none."""
    return [_metric(summary) for summary in result.summaries if summary.value is not None or _asked(summary)]


def cells(grid: GridResult) -> Row | None:
    """The head of the grid's table; None where its cells are not ranked."""
    if grid.choice is None:
        return None
    names = columns(grid.grid, grid.ranking)
    standings = grid.choice.standings
    shown = [s for place, s in enumerate(standings) if place < TOP_CELLS or s is grid.choice.recommended]
    return {
        "names": names,
        "count": len(grid.grid),
        "objective": grid.choice.objective,
        "rows": [_cell(grid, standing, standings.index(standing) + 1, names) for standing in shown],
    }


def recommendation(grid: GridResult) -> list[str]:
    """What the grid comes down to, a sentence a line."""
    if grid.choice is None:
        return [f"The cells are not ranked: {grid.ranking.reason}"]
    return [*explain(grid.choice), *held_out_lines(grid.held_out), *approximation_lines(grid)]


def abstention(grid: GridResult) -> list[str]:
    """What thresholds can do about queries that the documents do not answer."""
    known = grid.abstaining
    return [known.known.statement, *dict.fromkeys(one.statement for one in known.wanted)] if known else []


def worst_queries(result: RunResult) -> list[Row]:
    """The worst queries with what was retrieved instead, and what was expected."""
    made = {row["id"]: row for row in rows(result)}
    return [{**_query(o, verdict, made[o.case.id]), "expected": list(expected(o))} for o, verdict in worst(result)]


def queries(result: RunResult) -> list[Row]:
    """Every query, what became of it, and what was returned; the worst first."""
    verdicts = {verdict.query_id: verdict for verdict in result.validation.verdicts}
    made: list[Row] = [
        {**_query(o, verdicts[o.case.id], row), "expected": list(expected(o))}
        for o, row in zip(result.observed.observations, rows(result), strict=True)
    ]
    return sorted(made, key=lambda row: WORST_FIRST[row["why"]])[:MOST_QUERIES]


def query_scores(result: RunResult) -> list[str]:
    """The metrics that the table of queries shows."""
    return [name for pattern in QUERY_SCORES if (name := deepest(pattern, result.scores)) in result.scores]


def disagreements(result: RunResult) -> list[Row]:
    """Where judge and labels differ, what tells most first."""
    agreement = result.trust.agreement if result.trust else None
    if agreement is None:
        return []
    sources = {(o.case.id, hit.chunk.chunk_id): hit.source for o in result.observed.observations for hit in o.selection}
    return [
        {
            "query": row.query_id,
            "source": sources.get((row.query_id, row.chunk_id), row.chunk_id),
            "labelled": "relevant" if row.label else "not relevant",
            "judged": "useful" if row.verdict else "useless",
            "reason": row.reason,
        }
        for row in agreement.disagreements
    ]


def judge(result: RunResult) -> list[str]:
    """The judge in a few lines: what it cost, what is missing, what was not asked for; none without one."""
    return judging_lines(result.judging) if result.judging else []


def facts(result: RunResult) -> list[tuple[str, str]]:
    """Fingerprints, versions and times, flat."""
    return [(name, str(value)) for name, value in _flat("", result.facts) if value is not None]


def config_text(result: RunResult) -> str:
    """The settings as YAML."""
    return yaml.safe_dump(dict(result.config), sort_keys=False, allow_unicode=True)


def _asked(summary: Summary) -> bool:
    return bool(summary.n_unscored or summary.n_failed)


def _metric(summary: Summary) -> Row:
    low, high = (figure(summary.metric, end) for end in (summary.ci_low, summary.ci_high))
    return {
        "metric": summary.metric,
        "figure": figure(summary.metric, summary.value),
        "interval": f"{low} … {high}" if summary.ci_low is not None else "–",
        "n": summary.n,
        "remark": remark(summary),
    }


def _cell(grid: GridResult, standing: Standing, place: int, names: Sequence[str]) -> Row:
    cell = grid.grid.cell(standing.cell)
    low, high = standing.interval.low, standing.interval.high
    return {
        "place": place,
        "recommended": grid.choice is not None and standing is grid.choice.recommended,
        "in_set": standing.in_set,
        "same": len(standing.members) - 1,
        "configuration": grid.grid.configurations[cell.configuration].name,
        "top_k": cell.top_k,
        "threshold": "–" if cell.threshold is None else f"{cell.threshold:.6g}",
        "value": f"{standing.value:.3f}",
        "interval": "–" if low is None or high is None else f"{low:.3f} … {high:.3f}",
        "wins": "–" if standing.win_share is None else f"{standing.win_share:.0%}",
        "figures": [figure(name, _mean(grid, name, standing.cell)) for name in names],
    }


def _mean(grid: GridResult, name: str, cell: int) -> float | None:
    if name not in grid.grid.metrics:
        known = grid.grid.configurations[grid.grid.cell(cell).configuration].summaries
        return next((summary.value for summary in known if summary.metric == name), None)
    value = float(grid.grid.metrics[name].summaries.mean[cell])
    return value if np.isfinite(value) else None


def _query(observation: Observation, verdict: QueryVerdict, row: Row) -> Row:
    return {
        **row,
        "why": why(observation, verdict),
        "best": "–" if row["top_score"] is None else f"{row['top_score']:.3f}",
        "figures": {name: _score(value) for name, value in row["scores"].items()},
        "retrieved": [_hit(hit) for hit in row["retrieved"]],
        "best_below_threshold": [_hit(hit) for hit in row["best_below_threshold"]],
    }


def _hit(hit: Row) -> Row:
    said = hit["judge"]
    judged = "" if said is None else said.get("failed") or said.get("unscored") or said["reason"]
    verdict = "" if said is None or "verdict" not in said else ("useful" if said["verdict"] else "useless")
    claims = hit["claims"] if isinstance(hit["claims"], list) else []
    missing = "" if claims or not hit["claims"] else hit["claims"].get("failed") or hit["claims"].get("unscored")
    figure = score_text(hit["score"]).strip()
    return {**hit, "figure": figure, "judged": judged, "said": verdict, "claims": claims, "missing": missing}


def _score(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float | int) else "–"


def _flat(prefix: str, values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in values.items():
        found += _flat(f"{prefix}{name}.", value) if isinstance(value, Mapping) else [(f"{prefix}{name}", value)]
    return found

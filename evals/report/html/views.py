"""The content of the page as plain values: rounded, in order. Pure."""

from collections.abc import Mapping
from typing import Any, get_args

import yaml

from evals.report.best_cells import CellRow, best_cells, columns
from evals.report.causes import Cause
from evals.report.figure_text import ends, figure, signed
from evals.report.grid_terminal import recommendation
from evals.report.headline import deepest
from evals.report.judge_lines import cause
from evals.report.judge_lines import disagreements as disagreements_of
from evals.report.model import Hit, QueryRow, Report
from evals.report.model.report import ComparedSection, SliceMetric
from evals.report.terminal import counted, has_something, interval, remark
from evals.report.worst import worst, worst_first
from retrievers.terminal.present import score_text
from retrievers.text.printable import json_text, printable

Row = Mapping[str, Any]
TOP_CELLS = 20
# Rows of the table of queries, at most.
MOST_QUERIES = 2_000
FLIPS = 5
# Columns of the table of queries, where the run has them; `_at_K` at the deepest.
QUERY_SCORES = (
    "ranking/ndcg_at_K",
    "ranking/recall_at_K",
    "candidates/ndcg_at_10",
    "ragas/id_context_precision",
    "ragas/llm_context_recall",
)
WORST_FIRST: Mapping[str | None, int] = {name: place for place, name in enumerate(reversed(get_args(Cause)))}


def badge(report: Report) -> tuple[str, str]:
    """Return colour and text of the badge: met criteria alone are no praise where most queries fail."""
    if any(criterion.undecided for criterion in report.criteria) or report.incomplete:
        return "bad", "incomplete"
    if not report.passed:
        return "bad", "criteria not met"
    if report.head and report.head.tone != "good":
        rate = report.validation.pass_rate
        return "fair", "criteria met" if rate is None else f"criteria met, {1 - rate:.0%} of the queries fail"
    return "good", "all criteria met"


def differences(section: ComparedSection) -> list[Row]:
    """Return the metrics of a run beside another one."""
    return [
        {
            "metric": difference.metric,
            "other": figure(difference.metric, difference.other),
            "this": figure(difference.metric, difference.this),
            "difference": signed(difference.metric, difference.difference),
            "interval": "–"
            if difference.ci_low is None
            else f"{signed(difference.metric, difference.ci_low)} … {signed(difference.metric, difference.ci_high)}",
            "counts": f"{difference.wins} / {difference.ties} / {difference.losses}" if difference.n else "–",
            "verdict": difference.verdict,
        }
        for difference in section.differences
    ]


def flips(section: ComparedSection) -> list[Row]:
    """Return the queries that changed most, with both results."""
    return [
        {
            "id": flip.id,
            "query": flip.query,
            "change": f"{flip.metric} {figure(flip.metric, flip.other)} → {figure(flip.metric, flip.this)}",
            "before": [_hit(hit) for hit in flip.other_retrieved],
            "after": [_hit(hit) for hit in flip.this_retrieved],
        }
        for flip in section.flipped[:FLIPS]
    ]


def criteria(report: Report) -> list[Row]:
    """Return each criterion with its figure."""
    return [
        {
            "metric": criterion.metric,
            "condition": criterion.condition,
            "figure": figure(criterion.metric, criterion.figure),
            "passed": criterion.passed,
            "verdict": criterion.verdict,
            "reason": criterion.reason,
        }
        for criterion in report.criteria
    ]


def metrics(report: Report) -> list[Row]:
    """Return each metric that has a value, or a reason why it has none."""
    return [
        {
            "metric": name,
            "figure": figure(name, metric.value),
            "interval": interval(name, metric),
            "n": counted(metric),
            "remark": remark(metric),
        }
        for name, metric in report.metrics.items()
        if has_something(metric)
    ]


def recommended(report: Report) -> list[str]:
    """Return the recommendation of the grid, a sentence a line; empty for a single run."""
    if report.grid is None:
        return []
    proof = [report.grid.proof.statement] if report.grid.proof else []
    if report.grid.choice is None:
        return [*proof, f"The cells are not ranked: {report.grid.ranking.reason}"]
    return [*proof, *recommendation(report.grid, report.grid.choice)]


def cells(report: Report) -> Row | None:
    """Return the head of the grid's table; None without a grid, or where its cells are not ranked."""
    if report.grid is None or report.grid.choice is None:
        return None
    grid, choice = report.grid, report.grid.choice
    return {
        "names": columns(grid),
        "count": grid.cells.count,
        "objective": choice.objective,
        "rows": [_cell(row) for row in best_cells(grid, choice, TOP_CELLS)],
    }


def worst_queries(report: Report) -> list[Row]:
    """Return the worst queries with what was retrieved instead, and what was expected."""
    return [_query(row) for row in worst(report.queries)]


def queries(report: Report) -> list[Row]:
    """Return the queries with what was returned, the worst first; of more than a browser shows quickly the worst."""
    rows = report.queries if len(report.queries) <= MOST_QUERIES else worst_first(report.queries, MOST_QUERIES)
    return [_query(row) for row in sorted(rows, key=lambda row: WORST_FIRST.get(row.cause, 0))]


def query_scores(report: Report) -> list[str]:
    """Return the metrics that the table of queries shows."""
    scored = dict.fromkeys(name for row in report.queries for name in row.scores)
    return [name for pattern in QUERY_SCORES if (name := deepest(pattern, scored)) in scored]


def disagreements(report: Report) -> list[Row]:
    """Return the differences of judge and labels, the most telling first."""
    return [
        {
            "query": row.query_id,
            "source": source,
            "labelled": "relevant" if row.label else "not relevant",
            "judged": "useful" if row.verdict else "useless",
            "reason": row.reason,
        }
        for row, source in disagreements_of(report)
    ]


def facts(report: Report) -> list[tuple[str, str]]:
    """Return fingerprints, versions and times, flat."""
    return [(name, str(value)) for name, value in _flat("", report.facts.model_dump()) if value is not None]


def slices(report: Report) -> Row | None:
    """Return the slices with the leading metrics over each; None where there are not two of them."""
    names = [name for name in report.headline if any(name in part.metrics for part in report.slices)]
    rows = [
        {
            "name": part.name,
            "by": "type" if part.by == "query_type" else "tag",
            "n": part.n,
            "figures": [_of_slice(name, part.metrics[name]) if name in part.metrics else "–" for name in names],
        }
        for part in report.slices
    ]
    return {"names": names, "rows": rows} if len(rows) > 1 else None


def embedded(data: object) -> str:
    """Return data as JSON that cannot end a script element."""
    return printable(json_text(data, indent=None)).replace("<", "\\u003c")


def config_text(report: Report) -> str:
    """Return the settings as YAML."""
    return yaml.safe_dump(report.config, sort_keys=False, allow_unicode=True)


def _cell(row: CellRow) -> Row:
    standing = row.standing
    low, high = standing.ci_low, standing.ci_high
    return {
        "place": row.place,
        "recommended": row.recommended,
        "in_set": standing.in_set,
        "same": row.same,
        "configuration": row.configuration,
        "top_k": row.top_k,
        "threshold": row.threshold,
        "value": f"{standing.value:.3f}",
        "interval": "–" if low is None or high is None else f"{low:.3f} … {high:.3f}",
        "figures": row.figures,
    }


def _query(row: QueryRow) -> Row:
    return {
        **dict(row),
        "why": row.cause or "",
        "best": "–" if row.top_score is None else f"{row.top_score:.3f}",
        "figures": {
            name: f"{score:.3f}" if isinstance(score, float | int) else "–" for name, score in row.scores.items()
        },
        "retrieved": [_hit(hit) for hit in row.retrieved],
        "best_below_threshold": [_hit(hit) for hit in row.best_below_threshold],
    }


def _hit(hit: Hit) -> Row:
    verdict = hit.judge.verdict if hit.judge else None
    return {
        **dict(hit),
        "scored": f"{hit.scale} {score_text(hit.score).strip()}".strip(),
        "judged": "" if hit.judge is None else cause(hit.judge) or hit.judge.reason,
        "said": "" if verdict is None else "useful" if verdict else "useless",
    }


def _flat(prefix: str, values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = []
    for name, value in values.items():
        flat += _flat(f"{prefix}{name}.", value) if isinstance(value, Mapping) else [(f"{prefix}{name}", value)]
    return flat


def _of_slice(name: str, metric: SliceMetric) -> str:
    return f"{figure(name, metric.value)} ({ends(name, metric.ci_low, metric.ci_high)}), n {metric.n}"

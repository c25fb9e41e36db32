"""The content of the page as plain values: rounded, in order. Pure."""

from collections.abc import Mapping
from typing import Any, get_args

import yaml

from evals.collect.observations import Summary
from evals.judge.verdicts import ChunkVerdict
from evals.report.best_cells import best_cells, columns
from evals.report.figure_text import ends, figure
from evals.report.headline import deepest
from evals.report.judge_lines import cause
from evals.report.model import Cause, Hit, QueryRow, Report
from evals.report.worst import worst, worst_first
from retrievers.config.layers import flatten
from retrievers.terminal.present import score_text
from retrievers.text.printable import json_text, printable

Row = Mapping[str, Any]
TOP_CELLS = 20
# Rows of the table of queries, at most.
MOST_QUERIES = 2_000
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
    good, rate = not report.head or report.head.tone == "good", report.validation.pass_rate
    text = "no worse than the baseline" if report.baseline else "all criteria met" if good else "criteria met"
    failing = "" if rate is None or (good and not report.baseline) else f", {1 - rate:.0%} of the queries fail"
    return "good" if good else "fair", f"{text}{failing}"


def recommended(report: Report) -> list[str]:
    """Return the recommendation of the grid, a sentence a line; empty for a single run."""
    return [line for line in (report.grid.proof, *report.grid.explanation) if line] if report.grid else []


def cells(report: Report) -> Row | None:
    """Return the head of the grid's table; None without a grid, or where its cells are not ranked."""
    if report.grid is None or report.grid.choice is None:
        return None
    grid, choice = report.grid, report.grid.choice
    return {
        "names": columns(grid),
        "count": grid.cells.count,
        "objective": choice.objective,
        "rows": best_cells(grid, choice, TOP_CELLS),
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


def facts(report: Report) -> list[tuple[str, str]]:
    """Return fingerprints, versions and times, flat."""
    return [(name, str(value)) for name, value in flatten(report.facts.model_dump()) if value not in (None, {})]


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


def _query(row: QueryRow) -> Row:
    return {
        **dict(row),
        "row": row,
        "why": row.cause or "",
        "best": "–" if row.top_score is None else f"{row.top_score:.3f}",
        "figures": {
            name: f"{score:.3f}" if isinstance(score, float | int) else "–" for name, score in row.scores.items()
        },
    }


def found(hit: Hit) -> Row:
    """Return a chunk that was found, with its score and what a judge said of it."""
    verdict = hit.judge if isinstance(hit.judge, ChunkVerdict) else None
    return {
        **dict(hit),
        "source": hit.source,
        "preview": hit.preview,
        "breadcrumb": hit.chunk.breadcrumb,
        "scored": f"{hit.scale} {score_text(hit.score).strip()}".strip(),
        "judged": verdict.reason if verdict else cause(hit.judge),
        "said": "" if verdict is None else "useful" if verdict.verdict else "useless",
    }


def _of_slice(name: str, metric: Summary) -> str:
    return f"{figure(name, metric.value)} ({ends(name, metric.ci_low, metric.ci_high)}), n {metric.n}"

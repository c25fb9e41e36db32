"""From a report to its HTML page, with the data that figures are drawn from.

The templates escape every text.
"""

import base64
import hashlib
import zlib
from collections.abc import Mapping
from importlib.resources import files
from math import isclose
from typing import TYPE_CHECKING, Any

import yaml

from evals.collect.observations import VERDICT_METRIC
from evals.grid.decision import ABSTENTION, ANY, NO_OUT_OF_SCOPE
from evals.grid.objective import TOKENS
from evals.metrics import declared
from evals.metrics.declaration import DIGITS
from evals.report.grid_sections import columns, grid_sections, sweeps_thresholds
from evals.report.head import criteria_line, deepest, tone
from evals.report.model import GridSection, Report, ResultsByCell, preview
from evals.report.section import Column, Section, row_of
from evals.report.sections import (
    compared,
    criteria,
    disagreements,
    figure,
    metrics,
    rank_and_score,
    searched,
    shown_metrics,
    signed,
    signed_ends,
    slices,
    worst_first,
)
from retrievers.config.layers import flatten
from retrievers.text.shown import json_text, printable

if TYPE_CHECKING:
    from jinja2 import Environment

Columns = Mapping[str, Any]
# Metrics of a cell that are drawn besides those in the table of cells.
JUDGED = ("ragas/llm_context_precision", "ragas/llm_context_recall")
SIDES = ("scope/false_answer", "scope/false_abstention", TOKENS, VERDICT_METRIC)
HERE = "evals.report.html"
SCRIPTS = ("page.js", "figures.js", "grid.js", "explore.js")
# Rows of the table of cells, besides the recommended cell.
TOP_CELLS = 20
# Most rows of the table of queries.
MOST_QUERIES = 2_000
# Columns of the table of queries, if the run has them. `_at_K` is at the deepest K.
QUERY_SCORES = (
    "ranking/ndcg_at_K",
    "ranking/recall_at_K",
    "candidates/ndcg_at_10",
    "ragas/id_context_precision",
    "ragas/llm_context_recall",
    "ranking/mrr_at_K",
    "ranking/hit_rate_at_K",
)
MOST_SCORES = 5


def render_page(report: Report) -> str:
    """Return the page of a run, or of a grid and the cell that it recommends.

    The page loads nothing, and runs no script but its own: a policy in its head forbids everything else.

    Args:
        report: The run.
    """
    from markupsafe import Markup

    grid, drawn = report.grid, figure_data(report)
    decision = grid.decision if grid else None
    script = "".join(map(asset, SCRIPTS))
    # The policy in the head lets the script with this digest run.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # The metrics with a value, or with a query that could have one.
    measured = [name for name, m in report.metrics.items() if m.value is not None or m.n_unscored or m.n_failed]
    scored = [name for name, column in report.scores.items() if any(isinstance(one, float | int) for one in column)]
    shown: dict[str, Section | None] = {"warning": None, "decision": None, "cells": None}
    shown |= {part.name: part for part in (grid_sections(report, grid, TOP_CELLS) if grid else ())}
    shown |= {
        "headline": None if grid else metrics(report, shown_metrics(report, everything=False)),
        "criteria": criteria(report) if report.criteria else None,
        "baseline": compared(report.baseline, "baseline") if report.baseline else None,
        "slices": slices(report, report.headline),
        "metrics": metrics(report, measured, remarks=True),
        "disagreements": disagreements(report),
        "facts": _facts(report),
    }
    return (
        environment()
        .get_template("page.html.j2")
        .render(
            report=report,
            # A grid begins with the note that no query is out of scope.
            notes=[note for note in report.notes if note != NO_OUT_OF_SCOPE],
            recommendation=[text for text in (grid.proof, *grid.explanation) if text] if grid else [],
            levels=[*decision.levels, decision.recommended] if decision else [],
            sections=shown,
            queries=worst_first(report.queries, MOST_QUERIES),
            query_scores=[name for p in QUERY_SCORES if (name := deepest(p, scored)) in scored][:MOST_SCORES],
            config=yaml.safe_dump(report.config, sort_keys=False, allow_unicode=True),
            drawn=drawn,
            figures_data=Markup(embedded(drawn | {"grid": _with_zipped_queries(drawn["grid"])})),
            style=Markup(asset("page.css")),
            script=Markup(script),
            script_hash=digest,
        )
    )


def badge(report: Report) -> str:
    """Return the text of the badge: whether the run passed."""
    if report.incomplete:
        return "incomplete"
    if not report.passed:
        return "criteria not met"
    return "not proved worse than the baseline" if report.baseline else "criteria met"


def embedded(data: object) -> str:
    """Return data as JSON that cannot end a script element."""
    return printable(json_text(data, indent=None)).replace("<", "\\u003c")


def _with_zipped_queries(grid: Columns | None) -> Columns | None:
    """Return the data of a grid. Data by query are zipped and in base64, a tenth of their size."""
    if grid is None or grid["explored"] is None:
        return grid
    return {**grid, "explored": base64.b64encode(zlib.compress(embedded(grid["explored"]).encode())).decode()}


def _facts(report: Report) -> Section:
    """Return fingerprints, versions and times as a table of names and values."""
    known = [(name, value) for name, value in flatten(report.facts.model_dump()) if value not in (None, {})]
    return Section(columns=[Column(""), Column("")], rows=[row_of(name, str(value)) for name, value in known])


def environment() -> "Environment":
    """Return the environment of the templates beside this file."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader(HERE, ""),
        autoescape=True,
        finalize=_harmless,
        # A misspelt name in the template is an error, not an empty text.
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    functions = badge, criteria_line, figure, preview, rank_and_score, searched, signed, signed_ends, tone
    templates.globals.update({function.__name__: function for function in functions})
    return templates


def _harmless(value: Any) -> Any:
    """Return a value as the page shows it, before it is escaped."""
    # Markup, a subclass of str, is not changed, nor are numbers.
    return printable(value) if type(value) is str else value


def asset(name: str) -> str:
    """Return the text of a file beside this one."""
    return files(HERE).joinpath(name).read_text(encoding="utf-8")


def figure_data(report: Report) -> dict[str, Any]:
    """Return the data of each figure of a report; None for a figure without data."""
    grid = report.grid
    drawn = cells(grid) if grid else None
    if grid and drawn:
        drawn = {**drawn, "explored": explored(report, grid, grid.results) if grid.results else None}
    return {"grid": drawn, "scores": best_scores(report), "ranks": first_ranks(report)}


def explored(report: Report, grid: GridSection, results: ResultsByCell) -> Columns:
    """Return the data to compare cells query by query. Queries, chunks and cells are numbered by their places."""
    places = {chunk_id: place for place, chunk_id in enumerate(results.chunks)}
    decision = grid.decision
    limited = [level for level in (decision.levels if decision else ()) if level.limit < ANY]
    return {
        **results.model_dump(exclude={"chunks", "metrics"}),
        "addresses": grid.addresses,
        "weight": decision.weight if decision and _is_utility(grid) else None,
        # There is no band of a price, which may be part of the objective.
        "has_band": grid.ranking.metrics.keys() <= {*results.metrics, ABSTENTION},
        "levels": [(level.cell, f"≤ {100 * level.limit:.3g}%") for level in limited if level.cell is not None],
        "chunks": [
            [*map(printable, (chunk.source, chunk.breadcrumb, chunk.text))] for chunk in results.chunks.values()
        ],
        "queries": [
            {
                **{"id": row.id, "query": printable(row.query), "in_scope": row.in_scope},
                **{"type": row.query_type, "tags": row.tags},
                "relevant": [places[chunk_id] for chunk_id in row.relevant if chunk_id in places],
            }
            for row in report.queries
        ],
    }


def cells(grid: GridSection) -> Columns | None:
    """Return the data of a grid's cells; None if they are not ranked."""
    choice = grid.choice
    if choice is None:
        return None
    standings = [(cell, standing) for standing in choice.standings for cell in standing.members]
    names = [name for name in dict.fromkeys((*columns(grid), *JUDGED, *SIDES)) if name in grid.metrics]
    means = {grid.ranking.objective: grid.ranking.values} | {name: grid.metrics[name].mean for name in names}
    metrics = [_metric(name) | {"values": list(values)} for name, values in means.items()]
    if _is_utility(grid) or len(grid.ranking.metrics) > 1:  # a formula is too long for an axis
        metrics[0]["name"] = "objective"
    return {
        **{name: getattr(grid.cells, name) for name in ("configuration", "top_k", "threshold")},
        "configurations": [configuration.name for configuration in grid.configurations],
        "metrics": metrics,
        "cost": TOKENS,
        "recommended": choice.recommended.cell,
        "best": choice.best.cell,
        "may_be_best": [] if choice.note else sorted(choice.may_be_best),
        "allowed": sorted(grid.ranking.order),
        "intervals": {cell: [standing.interval.low, standing.interval.high] for cell, standing in standings},
    }


def _is_utility(grid: GridSection) -> bool:
    """Return True if the objective is a utility: the weights of both kinds of queries add up to 1."""
    if not grid.decision or not sweeps_thresholds(grid):
        return False
    weights = grid.ranking.metrics
    in_scope = sum(abs(weights.get(name, 0.0)) for name in (grid.results.metrics if grid.results else ()))
    return isclose(weights.get(ABSTENTION, 0.0), grid.decision.weight) and isclose(in_scope, 1 - grid.decision.weight)


def best_scores(report: Report) -> Columns | None:
    """Return the best score of every query before the threshold; None for a retriever without similarities."""
    settings = report.config["retriever"]
    on_cosine = settings.get("threshold_on") != "final" and settings.get("threshold_signal", "cosine") == "cosine"
    scores = [(row.in_scope, row.top_score) for row in report.queries if row.top_score is not None]
    if not scores or any(row.top_score is None and row.retrieved for row in report.queries):
        return None
    return {
        # A threshold on another score has another scale.
        "threshold": settings.get("threshold") if on_cosine else None,
        "in_scope": [score for in_scope, score in scores if in_scope],
        "out_of_scope": [score for in_scope, score in scores if not in_scope],
    }


def first_ranks(report: Report) -> Columns | None:
    """Return the rank of the first relevant candidate of every labelled query, before threshold and cut."""
    settings = report.config["retriever"]
    ranks = [row.first_relevant for row in report.queries if row.in_scope and row.cause != "not labelled"]
    return {"ranks": ranks, "top_k": settings["top_k"], "depth": settings["candidates"]} if ranks else None


def _metric(name: str) -> dict[str, Any]:
    declaration = declared(name)
    lower = declaration.direction == "lower" or name == TOKENS
    return {"name": name, "digits": DIGITS.get(declaration.unit, 3), "lower": lower}

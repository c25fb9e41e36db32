"""A report to the text of the page. Everything that comes from outside is escaped by the template."""

import base64
import hashlib
import zlib
from collections.abc import Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any, get_args

import yaml

from evals.grid.decision import NO_OUT_OF_SCOPE
from evals.report.grid_sections import grid_sections
from evals.report.head import criteria_line, deepest, tone
from evals.report.html.figures import Columns, figure_data
from evals.report.model import Cause, Report
from evals.report.section import Column, Section, row_of
from evals.report.sections import (
    compared,
    criteria,
    disagreements,
    figure,
    judge_lines,
    metrics,
    rank_and_score,
    searched,
    signed,
    signed_ends,
    slices,
    worst_first,
)
from retrievers.config.layers import flatten
from retrievers.text.printable import json_text, printable

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = "evals.report.html"
SCRIPTS = ("page.js", "figures.js", "grid.js", "explore.js")
# Rows of the table of cells, besides the recommended one.
TOP_CELLS = 20
# Most rows of the table of queries.
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


def render_page(report: Report) -> str:
    """Return the page of a run, or of a grid and the cell that it recommends.

    It loads nothing: a policy in its head forbids it, and lets no script run but its own.

    Args:
        report: The run.
    """
    from markupsafe import Markup

    grid, drawn = report.grid, figure_data(report)
    decision = grid.decision if grid else None
    script = "".join(map(asset, SCRIPTS))
    rows = report.queries if len(report.queries) <= MOST_QUERIES else worst_first(report.queries, MOST_QUERIES)
    # By this digest the policy in the head lets the script run.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # Those with a value, or a query that could have one.
    told = [name for name, one in report.metrics.items() if one.value is not None or one.n_unscored or one.n_failed]
    shown: dict[str, Section | None] = {"warning": None, "decision": None, "cells": None}
    shown |= {part.name: part for part in (grid_sections(report, grid, TOP_CELLS) if grid else ())}
    shown |= {
        "criteria": criteria(report) if report.criteria else None,
        "baseline": compared(report.baseline, "baseline") if report.baseline else None,
        "slices": slices(report, report.headline),
        "metrics": metrics(report, told, remarks=True),
        "disagreements": disagreements(report),
        "facts": _facts(report),
    }
    return (
        environment()
        .get_template("page.html.j2")
        .render(
            report=report,
            # Of a grid it is the first line.
            notes=[note for note in report.notes if note != NO_OUT_OF_SCOPE],
            badge=(tone(report), badge(report)),
            criteria_line=criteria_line(report),
            searched=searched(report.facts),
            recommendation=[text for text in (grid.proof, *grid.explanation) if text] if grid else [],
            levels=[*decision.levels, decision.recommended] if decision else [],
            sections=shown,
            queries=sorted(rows, key=lambda row: WORST_FIRST.get(row.cause, 0)),
            query_scores=[name for p in QUERY_SCORES if (name := deepest(p, report.scores)) in report.scores],
            judge=judge_lines(report),
            config=yaml.safe_dump(report.config, sort_keys=False, allow_unicode=True),
            drawn=drawn,
            figures_data=Markup(embedded(drawn | {"grid": _packed(drawn["grid"])})),
            style=Markup(asset("page.css")),
            script=Markup(script),
            script_hash=digest,
        )
    )


def badge(report: Report) -> str:
    """Return the text of the badge, which has the tone of the run."""
    if report.incomplete:
        return "incomplete"
    if not report.passed:
        return "criteria not met"
    return "no worse than the baseline" if report.baseline else "criteria met"


def embedded(data: object) -> str:
    """Return data as JSON that cannot end a script element."""
    return printable(json_text(data, indent=None)).replace("<", "\\u003c")


def _packed(grid: Columns | None) -> Columns | None:
    """Return the data of a grid with those by query zipped, in base64: a tenth of their size."""
    if grid is None or grid["explored"] is None:
        return grid
    return {**grid, "explored": base64.b64encode(zlib.compress(embedded(grid["explored"]).encode())).decode()}


def _facts(report: Report) -> Section:
    """Return fingerprints, versions and times, flat."""
    known = [(name, value) for name, value in flatten(report.facts.model_dump()) if value not in (None, {})]
    return Section(columns=[Column(""), Column("")], rows=[row_of(name, str(value)) for name, value in known])


def environment() -> "Environment":
    """Return what makes pages of the templates beside this file."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader(HERE, ""),
        autoescape=True,
        finalize=_finalized,
        # A misspelt name in the template is an error, not an empty text.
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update({each.__name__: each for each in (figure, rank_and_score, signed, signed_ends)})
    return made


def _finalized(value: Any) -> Any:
    """Return a value as the page shows it, before it is escaped; numbers and HTML stay."""
    # Markup is a subclass of str and must stay as it is.
    return printable(value) if type(value) is str else value


def asset(name: str) -> str:
    """Return the text of a file beside this one."""
    return files(HERE).joinpath(name).read_text(encoding="utf-8")

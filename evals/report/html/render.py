"""Run and figures to the text of the page. Everything that comes from outside is escaped by the template."""

import base64
import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from evals.grid.evaluation import GridResult
from evals.metrics.run_result import RunResult
from evals.report.figures import Picture, svg
from evals.report.html import views
from evals.report.terminal import searched, settings
from retrievers.text.printable import printable

if TYPE_CHECKING:
    from jinja2 import Template

HERE = "evals.report.html"


def render_page(result: RunResult, pictures: Mapping[str, Picture], grid: GridResult | None = None) -> str:
    """The page of a run, or of a grid and the cell that it recommends.

    It loads nothing: a policy in its head forbids it, and lets no script run but its own.

    Args:
        result: The run.
        pictures: Its figures by name, in the order of the page.
        grid: The grid whose recommended cell the run is.
    """
    from markupsafe import Markup

    script = _text("page.js")
    return _template().render(
        **_of_the_run(result),
        **_of_the_grid(grid),
        figures=[
            {"name": name, "svg": Markup(svg(picture.figure, name)), "caption": picture.caption}
            for name, picture in pictures.items()
        ],
        style=Markup(_text("page.css")),
        script=Markup(script),
        script_hash=_digest(script),
    )


def _of_the_run(result: RunResult) -> dict[str, Any]:
    return {
        "result": result,
        "passed": result.passed,
        "undecided": any(gate.undecided for gate in result.gates) or bool(result.incomplete),
        "settings": settings(result),
        "searched": searched(result.facts),
        "criteria": views.criteria(result),
        "metrics": views.metrics(result),
        "worst": views.worst_queries(result),
        "queries": views.queries(result),
        "query_scores": views.query_scores(result),
        "judge": views.judge(result),
        "disagreements": views.disagreements(result),
        "facts": views.facts(result),
        "config": views.config_text(result),
    }


def _of_the_grid(grid: GridResult | None) -> dict[str, Any]:
    return {
        "recommendation": views.recommendation(grid) if grid else [],
        "cells": views.cells(grid) if grid else None,
        "abstention": views.abstention(grid) if grid else [],
    }


def _template() -> "Template":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader(HERE, ""),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return made.get_template("page.html.j2")


def _shown(value: Any) -> Any:
    """What a value is written as, before it is escaped; numbers and what is HTML already stay."""
    return printable(value) if type(value) is str else value


def _text(name: str) -> str:
    return files(HERE).joinpath(name).read_text(encoding="utf-8")


def _digest(script: str) -> str:
    """What a content security policy calls a script by."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()

"""A report to the text of the page. Everything that comes from outside is escaped by the template."""

import base64
import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from evals.report import terminal
from evals.report.html import views
from evals.report.html.figures import figure_data
from evals.report.judge_lines import disagreements, judge_lines
from evals.report.model import Report
from evals.report.terminal import searched
from retrievers.text.printable import printable

if TYPE_CHECKING:
    from jinja2 import Template

HERE = "evals.report.html"
SCRIPTS = ("page.js", "figures.js", "grid.js")


def render_page(report: Report) -> str:
    """Return the page of a run, or of a grid and the cell that it recommends.

    It loads nothing: a policy in its head forbids it, and lets no script run but its own.

    Args:
        report: The run.
    """
    from markupsafe import Markup

    script = "".join(map(_text, SCRIPTS))
    drawn = figure_data(report)
    return _template().render(
        report=report,
        badge=views.badge(report),
        shown=views.found,
        text=terminal,
        slices=views.slices(report),
        searched=searched(report.facts),
        worst=views.worst_queries(report),
        queries=views.queries(report),
        query_scores=views.query_scores(report),
        judge=judge_lines(report.judge) if report.judge else [],
        disagreements=disagreements(report),
        facts=views.facts(report),
        config=views.config_text(report),
        recommendation=views.recommended(report),
        cells=views.cells(report),
        abstention=report.grid.abstention if report.grid else [],
        rows={row.id: row for row in report.queries},
        drawn=drawn,
        figures_data=Markup(views.embedded(drawn)),
        style=Markup(_text("page.css")),
        script=Markup(script),
        script_hash=_digest(script),
    )


def _template() -> "Template":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(HERE, ""),
        autoescape=True,
        finalize=_shown,
        # A misspelt name in the template is an error, not an empty text.
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.j2")


def _shown(value: Any) -> Any:
    """Return a value as the page shows it, before it is escaped; numbers and HTML stay."""
    # Markup is a subclass of str and must stay as it is.
    return printable(value) if type(value) is str else value


def _text(name: str) -> str:
    return files(HERE).joinpath(name).read_text(encoding="utf-8")


def _digest(script: str) -> str:
    """Return the digest by which a content security policy names a script."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()

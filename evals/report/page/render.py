"""Run and figures to the text of the page. Everything that comes from outside is escaped by the template."""

import base64
import hashlib
from collections.abc import Mapping
from importlib.resources import files

from evals.grid.pipeline import GridResult
from evals.records import RunResult
from evals.report.figures import Picture, svg
from evals.report.page import views
from evals.report.terminal import searched, settings

HERE = "evals.report.page"


def render_page(result: RunResult, pictures: Mapping[str, Picture], grid: GridResult | None = None) -> str:
    """The page of a run, or of a grid and the cell that it recommends.

    It loads nothing: a policy in its head forbids it, and lets no script run but its own.

    Args:
        result: The run.
        pictures: Its figures by name, in the order of the page.
        grid: The grid whose recommended cell the run is.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    made = Environment(
        loader=PackageLoader(HERE, ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = _text("page.js")
    return made.get_template("page.html.j2").render(
        result=result,
        passed=all(gate.passed for gate in result.gates),
        settings=settings(result),
        searched=searched(result.facts),
        criteria=views.criteria(result),
        metrics=views.metrics(result),
        recommendation=views.recommendation(grid) if grid else [],
        cells=views.cells(grid) if grid else None,
        abstention=views.abstention(grid) if grid else [],
        worst=views.worst_queries(result),
        queries=views.queries(result),
        query_scores=views.query_scores(result),
        judge=views.judge(result),
        disagreements=views.disagreements(result),
        facts=views.facts(result),
        config=views.config_text(result),
        figures=[
            {"name": name, "svg": Markup(svg(picture.figure, name)), "caption": picture.caption}
            for name, picture in pictures.items()
        ],
        style=Markup(_text("page.css")),
        script=Markup(script),
        script_hash=_digest(script),
    )


def _text(name: str) -> str:
    return files(HERE).joinpath(name).read_text(encoding="utf-8")


def _digest(script: str) -> str:
    """What a content security policy calls a script by."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()

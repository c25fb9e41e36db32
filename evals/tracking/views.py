"""All that MLflow shows of a run beside its values: kept beside the report until MLflow has it.

A report holds the beginnings of the chunks' texts and no figure: a run that is completed later would lack the rest.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from evals.collect.passes import Progress
from evals.grid.children import Child
from evals.report.description import description
from evals.report.html import render_page
from evals.report.model import GridSection, Report
from evals.report.traces import QueryTrace, kept_traces
from evals.tracking.tracker import Tracker
from evals.tracking.values import run_files

log = logging.getLogger(__name__)
SUFFIX = ".views"


@dataclass(frozen=True, kw_only=True)
class Views:
    """The views of a run.

    Attributes:
        digest: SHA-256 of the text of the report that they belong to.
        page: The report as a page.
        figures: Figures as SVG, by name; the files may come from somebody else, so a name is no path.
        traces: The queries of the run, or of a grid's recommended cell.
        cells: Cells of a grid with a run of their own.
        table: A grid by columns.
        along: Each metric of a grid along top_k.
        second: Cell that the recommended one is set beside.
        of_second: The queries of that cell.
    """

    digest: str
    page: str
    figures: Mapping[Annotated[str, Field(pattern=r"\A[\w-]+\z")], str]
    traces: Sequence[QueryTrace]
    cells: Sequence[Child] = ()
    table: Mapping[str, Sequence[Any]] | None = None
    along: Mapping[str, Sequence[tuple[int, float]]] | None = None
    second: int | None = None
    of_second: Sequence[QueryTrace] = ()


def log_views(tracker: Tracker, report: Report, text: str, views: Views, progress: Progress) -> None:
    """Write report, page and figures to MLflow, then the cells of a grid and the traces.

    Args:
        tracker: The run in MLflow.
        report: Its report.
        text: The report's text.
        views: What is shown of it.
        progress: Called as cells are written.

    Raises:
        TrackingError: MLflow failed.
    """
    figures = {f"figures/{name}.svg": figure for name, figure in views.figures.items()}
    tracker.log_files(run_files(report, text, views.page) | figures)
    if report.grid is None:
        tracker.log_traces(views.traces)
        return
    runs = tracker.log_grid(views.cells, views.table or {}, views.along or {}, progress)
    chosen, other = (None if cell is None else runs.get(cell) for cell in (report.grid.chosen, views.second))
    tracker.log_traces(views.traces, [tracker.run_id, chosen] if chosen else [tracker.run_id])
    if chosen and other and views.of_second:
        tracker.log_traces(views.of_second, [other])
        tracker.set_side_by_side(chosen, other)
    tracker.link_cells(description(report), views.cells, runs)


def keep(report: Path, views: Views) -> None:
    """Write views beside a report; where that fails, only the report describes the run."""
    try:
        _file(report).write_bytes(ADAPTER.dump_json(views, warnings=False))
    except OSError as error:
        log.debug("%s: cannot be written (%s)", _file(report), error.strerror)


def kept(file: Path, report: Report, digest: str, most: int) -> Views:
    """Return the views that were kept beside a report, or else what the report itself tells.

    Args:
        file: The file of the report.
        report: The report.
        digest: SHA-256 of its text.
        most: Most traces.
    """
    try:
        views = ADAPTER.validate_json(_file(file).read_bytes())
        if views.digest == digest:
            return views
    except (OSError, ValidationError):
        log.debug("no views are kept beside %s", file, exc_info=True)
    grid = report.grid
    return Views(
        digest=digest,
        page=render_page(report),
        figures={},
        traces=kept_traces(report, most),
        table=kept_table(grid) if grid else None,
        along=kept_along_top_k(grid) if grid else None,
    )


def discard(report: Path) -> None:
    """Remove the views that are kept beside a report."""
    _file(report).unlink(missing_ok=True)


def _file(report: Path) -> Path:
    return report.with_name(f".{report.name}{SUFFIX}")


ADAPTER = TypeAdapter(Views)


def kept_table(grid: GridSection) -> dict[str, list[Any]]:
    """Return the cells by columns: their settings and the mean of every metric, or None."""
    cells = grid.cells
    settings = [
        {**grid.configurations[number].parameters, "top_k": top_k}
        | ({} if threshold is None else {"threshold": threshold})
        for number, top_k, threshold in zip(cells.configuration, cells.top_k, cells.threshold, strict=True)
    ]
    names = dict.fromkeys(name for cell in settings for name in cell)
    columns: dict[str, list[Any]] = {name: [cell.get(name) for cell in settings] for name in names}
    return columns | {name: list(metric.mean) for name, metric in grid.metrics.items()}


def kept_along_top_k(grid: GridSection) -> dict[str, list[tuple[int, float]]]:
    """Return every metric along `top_k` at the chosen cell's other settings, the objective's first."""
    cells = grid.cells
    if grid.chosen not in cells.index:
        return {}
    others = list(zip(cells.configuration, cells.threshold, strict=True))
    row = [cell for cell, other in enumerate(others) if other == others[cells.index.index(grid.chosen)]]
    names = dict.fromkeys((*grid.ranking.metrics, *grid.metrics))
    means = {name: grid.metrics[name].mean for name in names if name in grid.metrics}
    return {
        name: [(cells.top_k[cell], value) for cell in row if (value := mean[cell]) is not None]
        for name, mean in means.items()
    }

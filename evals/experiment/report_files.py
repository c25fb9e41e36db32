"""Writing a finished experiment: report, JUnit, page, MLflow, the settings for an application."""

from collections.abc import Mapping
from pathlib import Path

import yaml

from evals.collect.passes import Progress
from evals.config.files import write
from evals.experiment.evaluation import Evaluation, Sweep
from evals.experiment.output_files import Outputs
from evals.grid.children import along_top_k, children, table
from evals.grid.compared_cell import compared_cell
from evals.report.building import build_report
from evals.report.description import description
from evals.report.figures import Picture, draw
from evals.report.html import render_page
from evals.report.junit import junit
from evals.report.rows_file import ROWS_SUFFIX
from evals.report.traces import traces
from evals.tracking import Tracker
from evals.tracking.values import run_files
from retrievers.config import RetrieverConfig
from retrievers.store.portable_settings import portable_settings
from retrievers.text.printable import json_text


def save_data(evaluation: Evaluation, outputs: Outputs) -> str:
    """Write the report and the JUnit file, as far as they are wanted, and return the report's text.

    Raises:
        ConfigError: A file cannot be written.
    """
    report, file, rows = evaluation.report, outputs.report, evaluation.report.rows_file
    if rows and file:
        name = f"{file.stem}{ROWS_SUFFIX}"
        # First, so that no report names a file that is not there.
        rows.save(file.with_name(name))
        report = report.model_copy(update={"queries_file": name})
    text = json_text(report.plain(), indent=None if report.grid else 2)
    if file:
        write(file, text)
    if outputs.junit:
        write(outputs.junit, junit(evaluation.report, evaluation.report.incomplete or evaluation.failures))
    return text


def save_page(evaluation: Evaluation, file: Path | None) -> tuple[Mapping[str, Picture], str]:
    """Draw the figures and the page, and write the page if a file is given; return both.

    Raises:
        ConfigError: The file cannot be written.
    """
    pictures = draw(evaluation.result, evaluation.report.rows())
    page = render_page(evaluation.report, pictures)
    if file:
        write(file, page)
    return pictures, page


def export(evaluation: Evaluation, retriever: RetrieverConfig) -> None:
    """Write the settings of the retriever that was evaluated or chosen, if they are wanted and one was.

    Raises:
        ConfigError: The file cannot be written.
    """
    settings = _chosen(evaluation, retriever)
    if evaluation.outputs.export and settings:
        write(evaluation.outputs.export, yaml.safe_dump(portable_settings(settings), sort_keys=False))


def log_views(
    tracker: Tracker, evaluation: Evaluation, text: str, page: str, pictures: Mapping[str, Picture], progress: Progress
) -> None:
    """Write report, page and figures to MLflow, then the cells of a grid and the traces.

    Args:
        tracker: The run in MLflow.
        evaluation: The finished experiment.
        text: The text of its report.
        page: Its page.
        pictures: Its figures by name.
        progress: Called as cells are written.

    Raises:
        TrackingError: MLflow failed.
    """
    report, tracking = evaluation.report, evaluation.result.config.tracking
    figures = {f"figures/{picture.name}.svg": picture.file for picture in pictures.values()}
    tracker.log_files(run_files(report, text, page) | figures, report.rows_file, report.queries_file)
    if isinstance(evaluation, Sweep):
        _log_grid(tracker, evaluation, progress)
    else:
        tracker.log_traces(traces(report, evaluation.result.observed, tracking.traces))
    chosen = _chosen(evaluation, evaluation.result.config.retriever)
    if tracking.register_as and chosen:
        tracker.register(portable_settings(chosen), tracking.register_as)


def _log_grid(tracker: Tracker, sweep: Sweep, progress: Progress) -> None:
    """Write the cells of a grid, the queries of the recommended one, and those of the one to set beside it."""
    grid, tracking = sweep.result, sweep.result.config.tracking
    cells = children(grid, tracking.log_cells)
    runs = tracker.log_grid(cells, table(grid.grid), along_top_k(grid), progress)
    second = compared_cell(grid.grid, grid.choice)
    chosen, other = (None if cell is None else runs.get(cell) for cell in (grid.chosen, second))
    of_both = [tracker.run_id, chosen] if chosen else [tracker.run_id]
    tracker.log_traces(traces(sweep.report, grid.observed, tracking.traces), of_both)
    if chosen and other and grid.compared and tracking.traces:
        report = build_report(grid.compared, sweep.report.facts)
        tracker.log_traces(traces(report, grid.compared.observed, tracking.traces), [other])
        tracker.set_side_by_side(chosen, other)
    tracker.link_cells(description(sweep.report), cells, runs)


def _chosen(evaluation: Evaluation, retriever: RetrieverConfig) -> RetrieverConfig | None:
    """Return the settings of the retriever that was evaluated, or of the one that a grid recommends."""
    return evaluation.recommended if isinstance(evaluation, Sweep) else retriever

"""Writing a finished experiment: report, JUnit, page, MLflow, the settings for an application."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import yaml

from evals.config.files import write
from evals.experiment.evaluation import Evaluation, Sweep
from evals.experiment.output_files import Outputs
from evals.grid.children import along_top_k, children, table
from evals.grid.compared_cell import compared_cell
from evals.report.building import build_report
from evals.report.html import render_page
from evals.report.junit import junit
from evals.report.traces import QueryTrace, traces
from evals.tracking.views import Views
from retrievers.config import RetrieverConfig
from retrievers.store.location import portable_settings
from retrievers.text.printable import json_text


def save_data(evaluation: Evaluation, outputs: Outputs) -> str:
    """Write the report and the JUnit file, as far as they are wanted, and return the report's text.

    Raises:
        ConfigError: A file cannot be written.
    """
    report = evaluation.report
    text = json_text(report.plain(), indent=None if report.grid else 2)
    if outputs.report:
        write(outputs.report, text)
    if outputs.junit:
        write(outputs.junit, junit(report))
    return text


def save_page(evaluation: Evaluation, file: Path | None) -> str:
    """Return the page, and write it if a file is given.

    Raises:
        ConfigError: The file cannot be written.
    """
    page = render_page(evaluation.report)
    if file:
        write(file, page)
    return page


def export(evaluation: Evaluation, retriever: RetrieverConfig) -> None:
    """Write the settings of the retriever that was evaluated or chosen, if they are wanted and one was.

    Raises:
        ConfigError: The file cannot be written.
    """
    settings = evaluation.recommended if isinstance(evaluation, Sweep) else retriever
    if evaluation.outputs.export and settings:
        write(evaluation.outputs.export, yaml.safe_dump(portable_settings(settings), sort_keys=False))


def views_of(evaluation: Evaluation, digest: str, page: str) -> Views:
    """Return all that MLflow shows of a run beside its values.

    Args:
        evaluation: The finished experiment.
        digest: SHA-256 of the text of its report.
        page: Its page.
    """
    result, report = evaluation.result, evaluation.report
    most = result.config.tracking.traces
    views = Views(
        digest=digest,
        page=page,
        figures={},
        traces=traces(report, result.observed, most),
    )
    if not isinstance(evaluation, Sweep):
        return views
    grid = evaluation.swept
    beside: Sequence[QueryTrace] = ()
    if grid.compared and most:
        beside = traces(build_report(grid.compared, report.facts), grid.compared.observed, most)
    return replace(
        views,
        cells=children(grid, result.config.tracking.log_cells),
        table=table(grid.grid),
        along=along_top_k(grid),
        second=compared_cell(grid.grid, grid.choice),
        of_second=beside,
    )

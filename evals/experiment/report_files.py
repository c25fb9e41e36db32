"""Writing a finished experiment: report, JUnit, page, MLflow, the settings for an application."""

import logging
from dataclasses import replace
from pathlib import Path

import yaml

from evals.collect.passes import Progress
from evals.config.files import write
from evals.errors import TrackingError
from evals.experiment.evaluation import Evaluation, Sweep
from evals.experiment.output_files import Outputs
from evals.report.html import render_page
from evals.report.junit import junit
from retrievers.config import RetrieverConfig
from retrievers.errors import ConfigError
from retrievers.store.location import portable_settings
from retrievers.text.printable import json_text

log = logging.getLogger(__name__)


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


def save_page(evaluation: Evaluation, file: Path) -> None:
    """Write the page.

    Raises:
        ConfigError: The file cannot be written.
    """
    write(file, render_page(evaluation.report))


def track(evaluation: Evaluation, text: str, progress: Progress) -> Evaluation:
    """Write the run to MLflow, if it is to be; return it with its address there, or the reason why it is not there.

    Args:
        evaluation: The finished experiment.
        text: The text of its report, as it was saved.
        progress: Called as the run is written.
    """
    config = evaluation.result.config.tracking
    if not config.enabled:
        return evaluation
    # MLflow costs seconds to import.
    from evals.tracking import write_run

    progress("MLflow", 0, 1)
    try:
        return replace(evaluation, address=write_run(evaluation.report, text, config, progress).address)
    except (TrackingError, ConfigError) as error:
        log.debug("MLflow failed", exc_info=True)
        return replace(evaluation, untracked=str(error))


def export(evaluation: Evaluation, retriever: RetrieverConfig) -> None:
    """Write the settings of the retriever that was evaluated or chosen, if they are wanted and one was.

    Raises:
        ConfigError: The file cannot be written.
    """
    settings = evaluation.recommended if isinstance(evaluation, Sweep) else retriever
    if evaluation.outputs.export and settings:
        write(evaluation.outputs.export, yaml.safe_dump(portable_settings(settings), sort_keys=False))

"""Writing what an experiment came to: report, JUnit, page, MLflow, the settings for an application."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from evals.collect.passes import Progress
from evals.config.files import write
from evals.experiment.finished import Outcome
from evals.experiment.output_files import Outputs
from evals.golden.loading import GoldenSet
from evals.grid.children import along_top_k, children, table
from evals.report.document import document
from evals.report.figures import Picture, draw
from evals.report.grid_document import grid_document
from evals.report.html import render_page
from evals.report.junit import junit
from evals.report.traces import traces
from evals.tracking import Tracker
from retrievers.config import RetrieverConfig, dump
from retrievers.store import DEFAULT_PATH
from retrievers.text.printable import json_text


def save(outcome: Outcome, golden: GoldenSet, tracker: Tracker | None, progress: Progress) -> None:
    """Write the files that are wanted, the report first, then to MLflow.

    Args:
        outcome: What there is to write, and where to.
        golden: The golden queries of the run.
        tracker: The run in MLflow, None where it is not tracked.
        progress: Told how far logging to MLflow is.

    Raises:
        ConfigError: A file cannot be written.
        TrackingError: MLflow failed; the files are written.
    """
    text = save_data(outcome, outcome.outputs)
    if not (outcome.outputs.html or tracker):
        return
    pictures, page = save_page(outcome, outcome.outputs.html)
    if tracker:
        _track(tracker, outcome, golden, progress, {"report.json": text, "report.html": page}, pictures)


def save_data(outcome: Outcome, outputs: Outputs) -> str:
    """Write the report and the JUnit file, as far as they are wanted, and return the report's text.

    Raises:
        ConfigError: A file cannot be written.
    """
    text = _report(outcome)
    if outputs.report:
        write(outputs.report, text)
    if outputs.junit:
        write(outputs.junit, junit(outcome.result, outcome.result.incomplete or outcome.failures))
    return text


def save_page(outcome: Outcome, file: Path | None) -> tuple[Mapping[str, Picture], str]:
    """Draw the figures and the page, and write the page if a file is given; return both.

    Raises:
        ConfigError: The file cannot be written.
    """
    pictures = draw(outcome.result, outcome.grid)
    page = render_page(outcome.result, pictures, outcome.grid)
    if file:
        write(file, page)
    return pictures, page


def whole_document(outcome: Outcome) -> dict[str, Any]:
    """Return the report as JSON values, with the grid if there is one."""
    return document(outcome.result) | ({"grid": grid_document(outcome.grid)} if outcome.grid else {})


def export(outcome: Outcome, retriever: RetrieverConfig) -> None:
    """Write the settings of the retriever that was evaluated or chosen, if they are wanted and one was.

    Raises:
        ConfigError: The file cannot be written.
    """
    if outcome.outputs.export and (outcome.grid is None or outcome.grid.chosen is not None):
        settings = retriever if outcome.grid is None else outcome.grid.settings
        write(outcome.outputs.export, yaml.safe_dump(_portable(settings), sort_keys=False))


def _report(outcome: Outcome) -> str:
    return json_text(whole_document(outcome), indent=None if outcome.grid else 2)


def _track(
    tracker: Tracker,
    outcome: Outcome,
    golden: GoldenSet,
    progress: Progress,
    files: Mapping[str, str],
    pictures: Mapping[str, Picture],
) -> None:
    result, wanted = outcome.result, outcome.result.config["tracking"]
    settings = yaml.safe_dump(dict(result.config), sort_keys=False)
    figures = {name: picture.figure for name, picture in pictures.items()}
    tracker.log(result, golden, {**files, "experiment.yaml": settings}, figures)
    if outcome.grid:
        cells = children(outcome.grid, wanted["log_cells"])
        tracker.log_grid(cells, table(outcome.grid.grid), along_top_k(outcome.grid), progress)
    tracker.log_traces(traces(result, wanted["traces"]))


def _portable(retriever: RetrieverConfig) -> dict[str, Any]:
    """The retriever's settings for another folder: where the embedded store is goes without saying only in this one."""
    settings = dump(retriever)
    store = retriever.store
    if "store" in settings and not store.url and not store.path:
        settings["store"]["path"] = str(DEFAULT_PATH.absolute())
    return settings

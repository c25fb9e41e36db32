"""The files that a run writes: checked before it begins, written after, and its names."""

import itertools
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from evals.config.experiment import ExperimentConfig, TrackingConfig
from evals.config.files import check_writable, write
from evals.grid.axes import Plan
from evals.tracking import FOLDER, check_store
from retrievers.config import RetrieverConfig
from retrievers.errors import ConfigError
from retrievers.text.printable import json_text

if TYPE_CHECKING:
    from evals.report.model import Report

# Most bytes of a report's name, before its number: file systems accept names of 255, some of 143.
LONGEST_STEM = 120


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """The files that a run writes: None for one that is not wanted; a text is a path.

    Attributes:
        report: The report as JSON.
        junit: Criteria and queries as JUnit XML.
        html: The report as a page.
        export: The retriever's settings for an application.
        retrieval: What was retrieved as Parquet, from which other runs can start.
    """

    report: Path | None = None
    junit: Path | None = None
    html: Path | None = None
    export: Path | None = None
    retrieval: Path | None = None

    def __post_init__(self) -> None:
        """Take texts as paths."""
        for name, file in vars(self).items():
            object.__setattr__(self, name, file and Path(file))


def check_outputs(wanted: Outputs, config: TrackingConfig) -> None:
    """Make sure that every file of a run can be written, and its run in a local store of MLflow; none is made here.

    Raises:
        ConfigError: A file, or the folder in which runs are kept, cannot be written, or was moved; two are one file; or
            the database of runs is damaged.
    """
    # All checks come before the work: a fault found at the end would cost the whole run.
    if config.enabled:
        check_store(config)
        check_writable(wanted.report or FOLDER / "reports" / "report.json")
    files = [file.absolute() for file in vars(wanted).values() if file]
    for file in files:
        check_writable(file)
        if files.count(file) > 1:
            raise ConfigError(f"{file}: two outputs would be one file; expected a file for each")


def with_report(wanted: Outputs, config: TrackingConfig, name: str) -> Outputs:
    """Return the outputs with a report: a run that is tracked has one in any case, as MLflow is written from it.

    Raises:
        ConfigError: Its folder cannot be written.
    """
    if wanted.report or not config.enabled:
        return wanted
    return replace(wanted, report=new_file(FOLDER / "reports", name))


def new_file(folder: Path, name: str) -> Path:
    """Return an empty file for the report of a run of that name: no other run has it, or gets it.

    Raises:
        ConfigError: The folder cannot be made or written to.
    """
    # A name of any length and with any character fits.
    plain = re.sub(r"[^\w.-]+", "-", name).strip(".-").encode()[:LONGEST_STEM].decode(errors="ignore")
    stem = plain.rstrip(".-") or "run"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number in itertools.count(1):
            file = folder / f"{stem}{f'-{number}' if number > 1 else ''}.json"
            with suppress(FileExistsError):
                file.touch(exist_ok=False)  # atomic: of two runs at once only one makes it
                break
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written: {error.strerror}") from error
    return file


def run_names(config: ExperimentConfig, sweep: Plan | None, started: datetime) -> tuple[str, str]:
    """Return the name of a run, and that of its report's file without a folder.

    The name is such as `hybrid+mmr k5 t0.3 default 20260102-030405`, or `grid 96 cells hybrid ...` of a sweep. Its
    first dozen letters are what MLflow's tables show.

    Args:
        config: The experiment, with the threshold that was fitted where a rate is promised.
        sweep: The grid that it asks for, None for a single run.
        started: When it began.
    """
    # UTC, so that names of runs sort alike on every machine.
    stamp, own = f"{started.astimezone(UTC):%Y%m%d-%H%M%S}", config.tracking.run_name
    if sweep:
        cells = sum(len(variant.thresholds) for variant in sweep.variants) * len(sweep.top_ks)
        ways = ",".join(dict.fromkeys(_way(variant.settings) for variant in sweep.variants))
        named = f"grid {cells} cells {ways}"
    else:
        settings, threshold = config.retriever, config.retriever.threshold
        reranked = "" if settings.rerank == "none" or settings.python else f"+{settings.rerank}"
        cut = f"k{settings.top_k}" + ("" if threshold is None else f" t{threshold:.3g}")
        named = f"{_way(settings)}{reranked} {cut}"
    return own or f"{named} {config.name} {stamp}", own or f"{config.name}-{stamp}"


def _way(settings: RetrieverConfig) -> str:
    """Return the mode, or the factory of a retriever of the user's own."""
    return settings.python.rpartition(":")[2] if settings.python else settings.mode


def save_data(report: "Report", outputs: Outputs) -> str:
    """Write the report and the JUnit file, as far as they are wanted, and return the report's text.

    Raises:
        ConfigError: A file cannot be written.
    """
    text = json_text(report.plain(), indent=None if report.grid else 2)
    if outputs.report:
        write(outputs.report, text)
    if outputs.junit:
        from evals.report.junit import junit

        write(outputs.junit, junit(report))
    return text


def save_page(report: "Report", file: Path) -> None:
    """Write the page.

    Raises:
        ConfigError: The file cannot be written.
    """
    from evals.report.html import render_page

    write(file, render_page(report))


def export(settings: RetrieverConfig, file: Path) -> None:
    """Write the settings of the retriever that was evaluated or chosen.

    Raises:
        ConfigError: The file cannot be written.
    """
    import yaml

    from retrievers.store.opening import portable_settings

    write(file, yaml.safe_dump(portable_settings(settings, file), sort_keys=False))

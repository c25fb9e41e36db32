"""Which files a run writes, and whether it can."""

import itertools
import re
from dataclasses import dataclass, replace
from pathlib import Path

from evals.config import TrackingConfig
from evals.files import check_writable
from evals.tracking import FOLDER, check_folder


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """The files that a run writes: None for one that is not wanted.

    Attributes:
        report: The report as JSON.
        junit: Criteria and queries as JUnit XML.
        html: The report as a page.
        export: The retriever's settings for an application.
    """

    report: Path | None = None
    junit: Path | None = None
    html: Path | None = None
    export: Path | None = None


def settle(wanted: Outputs, config: TrackingConfig, name: str) -> Outputs:
    """The files that a run of that name writes, of which every one can be written; nothing is left behind.

    A run that is tracked has a report in any case.

    Raises:
        ConfigError: A file, or the folder in which runs are kept, cannot be written.
    """
    settled = wanted
    if config.enabled:
        if not config.uri:
            check_folder(FOLDER)
        settled = replace(wanted, report=wanted.report or report_file(FOLDER / "reports", name))
    for file in (settled.report, settled.junit, settled.html, settled.export):
        check_writable(file)
    return settled


def report_file(folder: Path, name: str) -> Path:
    """A file for the report of a run of that name which no earlier run has taken."""
    stem = re.sub(r"[^\w.-]+", "-", name).strip(".-") or "run"
    names = (stem if number == 1 else f"{stem}-{number}" for number in itertools.count(1))
    return next(file for file in (folder / f"{one}.json" for one in names) if not file.exists())

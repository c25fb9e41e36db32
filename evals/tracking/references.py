"""What the user calls a run by, to the run: a report's file, or whatever MLflow knows it by."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from evals.errors import ReportError
from evals.report.comparison.records import Run
from evals.report.loading import MOST_BYTES, parse
from retrievers.config.text_files import read_text
from retrievers.errors import nearest


def open_run(reference: str, uri: str | None, experiment: str) -> Run:
    """Find a run and read its report.

    Args:
        reference: A file, or an MLflow run's id, name, or `tag:KEY` or `tag:KEY=VALUE`. An existing file comes first;
            what ends in `.json` is a file.
        uri: Where MLflow is; the database under ./mlruns when None.
        experiment: Name of the experiment in which names and tags are looked for.

    Raises:
        ReportError: The file is missing or unreadable, or the report is not one that can be read.
        TrackingError: MLflow has no such run, or several, or it has no report.
    """
    file = Path(reference)
    if file.suffix == ".json" or _is_there(file):
        return _from_file(file)
    from evals.tracking.finding import read_run  # MLflow costs seconds to import

    found = read_run(reference, uri, experiment)
    origin = f"MLflow run {found.run_id}"
    return _run(reference, origin, found.report, found.name)


def run_of(document: Mapping[str, Any]) -> Run:
    """Return a report that was not saved as a run to compare."""
    return _run(str(document["name"]), "this program", json.dumps(document), "")


def refuse_repeated(runs: Sequence[Run]) -> None:
    """Make sure that no run is given twice, under whatever name.

    Raises:
        ReportError: One is.
    """
    seen: dict[str, Run] = {}
    for run in runs:
        if run.digest in seen:
            first = seen[run.digest]
            raise ReportError(
                f"{run.reference!r} and {first.reference!r} are the same run ({first.origin}); give two different ones"
            )
        seen[run.digest] = run


def _is_there(file: Path) -> bool:
    with suppress(OSError, ValueError):  # the name of a run may be too long for a file's
        return file.exists() and not file.is_dir()
    return False


def _from_file(file: Path) -> Run:
    try:
        text = read_text(file, "a report of evals.run", MOST_BYTES, ReportError)
    except ReportError as error:
        raise ReportError(f"{error}{_near(file)}") from None
    return _run(str(file), str(file), text, "")


def _near(file: Path) -> str:
    """The reports whose names are nearest to that of a file which is missing."""
    with suppress(OSError, ValueError):
        return "" if file.exists() else nearest(file.name, (other.name for other in file.parent.glob("*.json")))
    return ""


def _run(reference: str, origin: str, text: str, name: str) -> Run:
    report = parse(text, origin)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Run(reference=reference, origin=origin, name=name or report.name, report=report, digest=digest)

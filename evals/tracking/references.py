"""References to runs: the file of a report, or a run's id, name or tag in MLflow."""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from evals.errors import ReportError
from evals.report.comparison.records import Run
from evals.report.model import Report
from evals.report.parsing import MOST_BYTES, parse
from retrievers.config.text_files import read_text
from retrievers.errors import nearest


def open_run(reference: str, uri: str | None, experiment: str) -> Run:
    """Find a run and read its report.

    Args:
        reference: A file, or an MLflow run's id, name, or `tag:KEY` or `tag:KEY=VALUE`. An existing file comes first;
            what ends in `.json` is a file.
        uri: Address of MLflow; the database under ./mlruns when None.
        experiment: Name of the experiment in which names and tags are looked for.

    Raises:
        ReportError: The file is missing or unreadable, or the report is not one that can be read.
        TrackingError: MLflow has no such run, or several, or it has no report.
    """
    file = Path(reference)
    if file.suffix == ".json" or _is_there(file):
        return _from_file(file)
    # MLflow costs seconds to import.
    from evals.tracking.finding import read_run

    tracked = read_run(reference, uri, experiment)
    run = _run(reference, f"MLflow run {tracked.run_id}", tracked.report, tracked.name)
    return replace(run, tracked=tracked.place)


def run_of(report: Report) -> Run:
    """Return a report that was not saved as a run to compare."""
    digest = hashlib.sha256(report.model_dump_json(exclude_unset=True).encode()).hexdigest()
    return Run(reference=report.name, origin="this program", name=report.name, report=report, digest=digest)


def refuse_repeated(runs: Sequence[Run]) -> None:
    """Check that no run is given twice, under any name.

    Raises:
        ReportError: One is.
    """
    runs_by_id: dict[str, Run] = {}
    for run in runs:
        if run.digest in runs_by_id:
            first = runs_by_id[run.digest]
            raise ReportError(
                f"{run.reference!r} and {first.reference!r} are the same run ({first.origin}); give two different ones"
            )
        runs_by_id[run.digest] = run


def _is_there(file: Path) -> bool:
    # The name of a run may be too long for a file name.
    with suppress(OSError, ValueError):
        return file.exists() and not file.is_dir()
    return False


def _from_file(file: Path) -> Run:
    try:
        text = read_text(file, "a report of evals.run", MOST_BYTES, ReportError)
    except ReportError as error:
        raise ReportError(f"{error}{_near(file)}") from None
    return _run(str(file), str(file), text, "")


def _near(file: Path) -> str:
    """Return the reports whose names are nearest to that of a missing file."""
    with suppress(OSError, ValueError):
        return "" if file.exists() else nearest(file.name, (other.name for other in file.parent.glob("*.json")))
    return ""


def _run(reference: str, origin: str, text: str, name: str) -> Run:
    report = parse(text, origin)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Run(reference=reference, origin=origin, name=name or report.name, report=report, digest=digest)

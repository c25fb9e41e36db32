"""The files that a run writes, checked before it begins, and its names."""

import itertools
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from evals.config.experiment import ExperimentConfig, TrackingConfig
from evals.config.files import check_writable
from evals.config.run_label import run_label
from evals.grid.axes import Plan
from evals.tracking import FOLDER, check_database, check_folder
from retrievers.errors import ConfigError

log = logging.getLogger(__name__)
# Most bytes of a report's name, before its number: file systems accept names of 255, some of 143.
FLAGS = {"report": "output", "retrieval": "save-retrieval"}
LONGEST_STEM = 120


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """The files that a run writes: None for one that is not wanted.

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


@contextmanager
def settle(wanted: Outputs, config: TrackingConfig, name: str) -> Iterator[Outputs]:
    """Yield the files that a run of that name writes, of which every one can be written; none is made here.

    A run that is tracked has a report in any case. Where no file is wanted for it, it gets one that no other run has,
    nor takes while the block lasts.

    Raises:
        ConfigError: A file, or the folder in which runs are kept, cannot be written; two are one file; or the database
            of runs is damaged.
    """
    if config.enabled:
        if not config.uri:
            check_folder(FOLDER)
        check_database(config.uri)
    # All checks come before the work: a fault found at the end would cost the whole run.
    _refuse_shared(asdict(wanted))
    for file in (wanted.report, wanted.junit, wanted.html, wanted.export, wanted.retrieval):
        check_writable(file)
    if wanted.report or not config.enabled:
        yield wanted
        return
    with reserved(FOLDER / "reports", name) as file:
        yield replace(wanted, report=file)


@contextmanager
def reserved(folder: Path, name: str) -> Iterator[Path]:
    """Yield a file for the report of a run of that name, which no earlier run has written and no other takes meanwhile.

    An empty file beside it keeps the name; it is not one that readers take for a report. A run that is killed leaves it
    behind, and the name is passed by from then on.

    Raises:
        ConfigError: The folder cannot be made or written to.
    """
    check_writable(folder / "report.json")
    # Only folders of this run are removed again if it fails.
    created = [path for path in (folder, folder.parent) if not path.exists()]
    file, mark = next(filter(None, (_reserve(file) for file in _names(folder, name))))
    try:
        yield file
    finally:
        mark.unlink(missing_ok=True)
        with suppress(OSError):  # it holds a report
            for path in created:
                path.rmdir()


def _names(folder: Path, name: str) -> Iterator[Path]:
    """Yield files for a run's report, in the order of preference; a name of any length and with any character fits."""
    plain = re.sub(r"[^\w.-]+", "-", name).strip(".-").encode()[:LONGEST_STEM].decode(errors="ignore")
    stem = plain.rstrip(".-") or "run"
    return (folder / f"{stem}{f'-{number}' if number > 1 else ''}.json" for number in itertools.count(1))


def _reserve(file: Path) -> tuple[Path, Path] | None:
    """Return the file and the mark that keeps its name; None where another run has it."""
    mark = file.with_name(f".{file.name}.taken")
    if file.exists():
        return None
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # Atomic: of two runs that start at once only one makes the file.
        mark.touch(exist_ok=False)
    except FileNotFoundError:  # a run that failed has removed the folder just now
        return _reserve(file)
    except FileExistsError:
        log.warning("%s is the report of a run that has not ended (if none is going on, remove %s)", file, mark)
        return None
    # The other run ended between the two checks.
    if file.exists():
        mark.unlink()
        return None
    return file, mark


def _refuse_shared(files: Mapping[str, Path | None]) -> None:
    names: dict[Path, str] = {}
    for flag, file in ((f"--{FLAGS.get(name, name)}", file) for name, file in files.items() if file):
        other = names.setdefault(file.absolute(), flag)
        if other != flag:
            raise ConfigError(f"{file}: {other} and {flag} would be one file; expected a file for each")


def run_name(config: ExperimentConfig, sweep: Plan | None, stamp: str) -> str:
    """Return a name such as `hybrid k5 t0.3 default 20260102-030405`, or `grid 96 cells hybrid ...` of a sweep.

    Args:
        config: The experiment.
        sweep: The grid that it asks for, None for a single run.
        stamp: Its time, which makes the name unique.
    """
    label = _grid_label(sweep) if sweep else run_label(config.retriever)
    return f"{label} {config.name} {stamp}"


def _grid_label(sweep: Plan) -> str:
    settings = [variant.settings for variant in sweep.variants]
    which = ",".join(
        dict.fromkeys(setting.python.rpartition(":")[2] if setting.python else setting.mode for setting in settings)
    )
    thresholds = (1 if setting.used_threshold is None else len(sweep.thresholds) for setting in settings)
    return f"grid {len(sweep.top_ks) * sum(thresholds)} cells {which}"

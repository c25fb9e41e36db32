"""The files of a run, which are checked before the run and written after it, and the names of the run."""

import itertools
import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic.dataclasses import dataclass

from evals.config.experiment import ExperimentConfig, TrackingConfig
from evals.config.files import check_apart, check_writable, write
from evals.grid.axes import Plan
from evals.tracking import FOLDER, check_store
from retrievers.config import RetrieverConfig
from retrievers.config.files import read_text
from retrievers.config.layers import Layer, build, file_layer, flatten
from retrievers.errors import ConfigError
from retrievers.text.shown import json_text

if TYPE_CHECKING:
    from evals.report.model import Report

# Most bytes of a report's name, before its number: file systems accept names of 255, some of 143.
LONGEST_STEM = 120
# Beginning of the line in an exported retriever that says on which data its threshold was fitted.
FITTED = "# fitted: "
# Largest file of an exported retriever.
MOST_BYTES = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """The files that a run writes; None for a file that is not wanted. A text becomes a path.

    Attributes:
        report: The report as JSON.
        junit: The criteria as JUnit XML.
        html: The report as an HTML page.
        export: The retriever's settings for an application.
        refit: New settings of a retriever that an application uses already. They are written only if the run passes.
        retrieval: The retrieved candidates as Parquet, from which other runs can start.
    """

    report: Path | None = None
    junit: Path | None = None
    html: Path | None = None
    export: Path | None = None
    refit: Path | None = None
    retrieval: Path | None = None


def check_outputs(wanted: Outputs, config: TrackingConfig, read: Iterable[Path | None] = ()) -> None:
    """Make sure that every file can be written, and the run in a local store of MLflow. No file is left behind.

    This comes before all work, since a fault that is found at the end would cost the whole run.

    Args:
        wanted: The files to write.
        config: Where the run goes.
        read: The files that the run reads.

    Raises:
        ConfigError: A file or the folder of runs cannot be written, the folder was moved, two outputs are one file, or
            one is read.
    """
    if config.enabled:
        check_store(config)
        check_writable(wanted.report or FOLDER / "reports" / "report.json")
    check_apart(vars(wanted).values(), read)


def with_report(wanted: Outputs, config: TrackingConfig, name: str) -> Outputs:
    """Return the outputs with a file for the report if the run is tracked, since MLflow is written from the report.

    Raises:
        ConfigError: The folder of reports cannot be written.
    """
    if wanted.report or not config.enabled:
        return wanted
    return replace(wanted, report=new_file(FOLDER / "reports", name))


def new_file(folder: Path, name: str) -> Path:
    """Make an empty file for the report of a run of that name. No other run has this file, or gets it.

    Raises:
        ConfigError: The folder cannot be made or written to.
    """
    # The name of a run may have any length, and any character.
    plain = re.sub(r"[^\w.-]+", "-", name).strip(".-").encode()[:LONGEST_STEM].decode(errors="ignore")
    stem = plain.rstrip(".-") or "run"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number in itertools.count(1):
            file = folder / f"{stem}{f'-{number}' if number > 1 else ''}.json"
            with suppress(FileExistsError):
                file.touch(exist_ok=False)  # atomic: if two runs try at once, only one makes the file
                break
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written: {error.strerror}") from error
    return file


def run_names(config: ExperimentConfig, sweep: Plan | None, started: datetime) -> tuple[str, str]:
    """Return the name of a run, and the name of its report's file without folder and suffix.

    The name of a run is like `hybrid+mmr k5 t0.3 default 20260102-030405`, that of a sweep like
    `grid 96 cells hybrid ...`. MLflow's tables show its first dozen letters.

    Args:
        config: The experiment. If a rate is promised, it has the threshold that was fitted.
        sweep: Plan of the grid; None for a single run.
        started: Start of the run.
    """
    if given := config.tracking.run_name:
        return given, given
    # UTC, so that names of runs sort alike on every machine.
    stamp = f"{started.astimezone(UTC):%Y%m%d-%H%M%S}"
    if sweep:
        cells = sum(len(variant.thresholds) for variant in sweep.variants) * len(sweep.top_ks)
        ways = ",".join(dict.fromkeys(_way(variant.settings) for variant in sweep.variants))
        about = f"grid {cells} cells {ways}"
    else:
        settings, threshold = config.retriever, config.retriever.threshold
        reranked = "" if settings.rerank == "none" or settings.python else f"+{settings.rerank}"
        cut = f"k{settings.top_k}" + ("" if threshold is None else f" t{threshold:.3g}")
        about = f"{_way(settings)}{reranked} {cut}"
    return f"{about} {config.name} {stamp}", f"{config.name}-{stamp}"


def _way(settings: RetrieverConfig) -> str:
    """Return the mode of a retriever, or the name of the factory that makes it."""
    return settings.python.rpartition(":")[2] if settings.python else settings.mode


def save_report(report: "Report", file: Path | None) -> str:
    """Write the report, if it is wanted, and return its text.

    Raises:
        ConfigError: The file cannot be written.
    """
    text = json_text(report.plain(), indent=None if report.grid else 2)
    if file:
        write(file, text)
    return text


def save_views(report: "Report", outputs: Outputs) -> None:
    """Write the JUnit file and the HTML page, each if it is wanted.

    Raises:
        ConfigError: A file cannot be written.
    """
    if outputs.junit:
        from evals.report.terminal import junit

        write(outputs.junit, junit(report))
    if outputs.html:
        from evals.report.html import render_page

        write(outputs.html, render_page(report))


def export(settings: RetrieverConfig, report: "Report", file: Path) -> None:
    """Write the settings of the retriever that was evaluated or chosen.

    If its threshold was fitted, a line says on which data. `--refit` reads this line.

    Raises:
        ConfigError: The file cannot be written.
    """
    import yaml

    from retrievers.store.opening import placed_path, portable_settings

    config, fitted = report.config, ""
    if rate := config.get("threshold", {}).get("false_answer"):
        data = {name: value for name, value in config["dataset"].items() if value}
        data |= {"path": str(placed_path(Path(data["path"]), file))} if "path" in data else {}
        fit = {"false_answer": rate, "threshold": config["retriever"]["threshold"], "dataset": data}
        facts = report.facts.model_dump(include={"embedding", "dataset_fingerprint"})
        facts |= {"in_scope": report.in_scope, "out_of_scope": len(report.queries) - report.in_scope}
        fitted = f"{FITTED}{json_text(fit | facts, indent=None)}\n"
    write(file, fitted + yaml.safe_dump(portable_settings(settings, file), sort_keys=False))


def read_fit(file: Path) -> dict[str, Any]:
    """Return the data that the threshold of an exported retriever was fitted on, and the settings of the retriever.

    Raises:
        ConfigError: The file cannot be read, or its threshold was not fitted.
    """
    from retrievers.store.opening import portable_settings

    _, _, fitted = read_text(file, "a retriever that --export wrote", MOST_BYTES).partition(FITTED)
    with suppress(ValueError, TypeError, AttributeError):
        settings = portable_settings(build(RetrieverConfig, [file_layer(file, RetrieverConfig)]))
        fit = dict(json.loads(fitted.partition("\n")[0]), retriever=settings)
        if (data := fit.get("dataset", {})).get("path"):
            data["path"] = str((file.parent / data["path"]).absolute())
        return fit
    raise ConfigError(
        f"{file}: expected a retriever that --export wrote in a run with threshold.false_answer, whose line "
        f"{FITTED.strip()!r} says on what; found none"
    )


def fit_layer(file: Path) -> Layer:
    """Return the settings that fit the threshold of an exported retriever again, for the same rate on the same data.

    Raises:
        ConfigError: The file cannot be read, or its threshold was not fitted.
    """
    retriever, fit = file_layer(file, RetrieverConfig), read_fit(file)
    promise = {"false_answer": fit.get("false_answer")}
    values = {"retriever": retriever.values, "threshold": promise, "dataset": fit.get("dataset", {})}
    return Layer(label=retriever.label, values=values)


def fit_changes(file: Path, before: Mapping[str, Any]) -> str:
    """Return as a line what a new fit of a threshold changed.

    Args:
        file: The file that was written.
        before: The old fit, as `read_fit` returned it.
    """
    old, new = (dict(flatten(fit)) for fit in (before, read_fit(file)))
    moved = [
        f"{name if '.' in name else name.replace('_', ' ')} {old.get(name)} → {new.get(name)}"
        for name in {**new, **old}
        if new.get(name) != old.get(name) and name != "retriever.threshold"
    ]
    same = [] if new["threshold"] != old.get("threshold") else [f"threshold {new['threshold']} as before"]
    return f"{file}: " + "; ".join(same + moved)

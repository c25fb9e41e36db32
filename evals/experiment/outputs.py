"""The files that a run writes: checked before it begins, written after, and its names."""

import itertools
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic.dataclasses import dataclass

from evals.config.experiment import ExperimentConfig, TrackingConfig
from evals.config.files import check_writable, write
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
# The line of an exported retriever that says on what its threshold was fitted.
FITTED = "# fitted: "
MOST_BYTES = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """The files that a run writes: None for one that is not wanted; a text becomes a path.

    Attributes:
        report: The report as JSON.
        junit: The criteria as JUnit XML.
        html: The report as a page.
        export: The retriever's settings for an application.
        refit: Likewise, but written only where the run passes: an application has them already.
        retrieval: What was retrieved as Parquet, from which other runs can start.
    """

    report: Path | None = None
    junit: Path | None = None
    html: Path | None = None
    export: Path | None = None
    refit: Path | None = None
    retrieval: Path | None = None


def check_outputs(wanted: Outputs, config: TrackingConfig) -> None:
    """Make sure that every file of a run can be written, and its run in a local store of MLflow; none is made here.

    Raises:
        ConfigError: A file, or the folder in which runs are kept, cannot be written, or was moved; or two are one file.
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


def export(settings: RetrieverConfig, report: "Report", file: Path) -> None:
    """Write the settings of the retriever that was evaluated or chosen.

    A threshold that was fitted has a line that says on what, which `--refit` reads.

    Raises:
        ConfigError: The file cannot be written.
    """
    import yaml

    from retrievers.store.opening import portable_settings

    config, told = report.config, ""
    if rate := config.get("threshold", {}).get("false_answer"):
        data = {name: value for name, value in config["dataset"].items() if value}
        fit = {"false_answer": rate, "threshold": config["retriever"]["threshold"], "dataset": data}
        facts = report.facts.model_dump(include={"embedding", "dataset_fingerprint"})
        facts |= {"in_scope": report.in_scope, "out_of_scope": len(report.queries) - report.in_scope}
        told = f"{FITTED}{json_text(fit | facts, indent=None)}\n"
    write(file, told + yaml.safe_dump(portable_settings(settings, file), sort_keys=False))


def read_fit(file: Path) -> dict[str, Any]:
    """Return what the threshold of an exported retriever was fitted on, and all settings of the retriever.

    Raises:
        ConfigError: The file cannot be read, or its threshold was not fitted.
    """
    from retrievers.store.opening import portable_settings

    _, _, told = read_text(file, "a retriever that --export wrote", MOST_BYTES).partition(FITTED)
    with suppress(ValueError, TypeError):
        settings = portable_settings(build(RetrieverConfig, [file_layer(file, RetrieverConfig)]))
        return dict(json.loads(told.partition("\n")[0]), retriever=settings)
    raise ConfigError(
        f"{file}: expected a retriever that --export wrote in a run with threshold.false_answer, whose line "
        f"{FITTED.strip()!r} says on what; found none"
    )


def fit_layer(file: Path) -> Layer:
    """Return the settings that fit the threshold of an exported retriever again: the same rate, on the same data.

    Raises:
        ConfigError: The file cannot be read, or its threshold was not fitted.
    """
    own, fit = file_layer(file, RetrieverConfig), read_fit(file)
    promise = {"false_answer": fit.get("false_answer")}
    values = {"retriever": own.values, "threshold": promise, "dataset": fit.get("dataset", {})}
    return Layer(label=own.label, values=values)


def refitted(file: Path, before: Mapping[str, Any]) -> str:
    """Return in a sentence what a new fit of a threshold changed.

    Args:
        file: The file that was written.
        before: What `read_fit` returned of the old fit.
    """
    old, new = (dict(flatten(fit)) for fit in (before, read_fit(file)))
    moved = [
        f"{name if '.' in name else name.replace('_', ' ')} {old.get(name)} → {new.get(name)}"
        for name in {**new, **old}
        if new.get(name) != old.get(name) and name != "retriever.threshold"
    ]
    same = [] if new["threshold"] != old.get("threshold") else [f"threshold {new['threshold']} as before"]
    return f"{file}: " + "; ".join(same + moved)

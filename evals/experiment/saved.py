"""A saved retrieval in place of searches: check that it fits the experiment, and save that of a run."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from evals.cases.reading import case_fingerprint
from evals.collect.pool import Find, Pool, ground
from evals.errors import ExperimentError
from evals.experiment.inputs import Inputs
from evals.grid.axes import VARIANT_AXES, effective
from evals.grid.measure import alone, retrieve
from evals.metrics.declaration import Collaborators
from evals.report.model import Facts
from retrievers.config import RetrieverConfig, faults_of
from retrievers.config.indexing import recorded_settings
from retrievers.config.layers import flatten, nest, tables
from retrievers.retriever.protocol import Retriever
from retrievers.store.checks import check_index

if TYPE_CHECKING:
    from evals.collect.saved import SavedPool

# Parts of the names of settings that do not decide which candidates are found. `effective` has the axes of a sweep.
FREE = frozenset(
    "store top_k threshold threshold_on threshold_signal group_by trust_embedding required base_url".split()
) | {*VARIANT_AXES}

# Makes the error from what was expected and what was found.
Refusal = Callable[[str, object], ExperimentError]


def make_finders(inputs: Inputs, bench: Collaborators) -> list[Find]:
    """Return a function that finds the golden queries, and a second one for the held-out queries if there are any.

    The relevant chunks of all queries are looked up now, so that a fault in the golden data costs no search.

    Args:
        inputs: The experiment.
        bench: Retrievers and source pages. They are not used if the experiment starts from a saved retrieval.

    Raises:
        DatasetError: Evidence does not resolve. Every fault is listed.
        StoreError: The collection cannot be read.
    """
    if inputs.saved:
        return [partial(inputs.saved.pool, golden.cases) for golden in inputs.splits]
    grounds = [(golden, ground(golden, bench.retriever)) for golden in inputs.splits]
    return [partial(retrieve, inputs.sweep or alone(inputs.config), *pair, bench) for pair in grounds]


def started_from(file: Path, inputs: Inputs) -> Inputs:
    """Return an experiment that starts from a saved retrieval, of which it takes the variants that it names.

    If the experiment names no retriever, it gets the settings that all saved variants share.

    Raises:
        ConfigError: The file cannot be read.
        ExperimentError: The retrieval was made with other settings or for other golden data, or lacks what is needed.
    """
    from evals.collect.saved import read

    saved = read(file)
    origin = saved.origin

    def refused(expected: str, got: object) -> ExperimentError:
        remedy = "save it again with --save-retrieval, or leave --from-retrieval out"
        return ExperimentError(f"--from-retrieval {file}: expected {expected}, got {got}; {remedy}")

    first, *others = origin.variants
    shared = {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}
    settings = inputs.config.retriever
    try:
        # An object of the user settled the other settings when it was opened. Cuts and axes alone name no retriever.
        if settings.python is not None or settings.model_fields_set <= FREE:
            given = dict(flatten(settings.model_dump(exclude_unset=True), unopened=tables(RetrieverConfig)))
            settings = RetrieverConfig.model_validate(nest({**shared, **given}))
        inputs = inputs.searched_by(settings)
    except ValidationError as error:
        raise refused("settings for its retriever", faults_of(error)) from None
    held_out = inputs.held_out.cases if inputs.held_out and inputs.config.objective.held_out is None else ()
    if inputs.sweep and any(case_fingerprint(case) not in saved.rows for case in held_out):
        lacks = f"{file} holds no queries of the split that is held out by default: it was saved without a sweep"
        sweep = replace(inputs.sweep, notes=(*inputs.sweep.notes, lacks))
        inputs = replace(inputs, held_out=None, sweep=sweep)
    for case in (case for golden in inputs.splits for case in golden.cases):
        if case_fingerprint(case) not in saved.rows:
            got = "a new case (are --config and --dataset.path those of the run that saved it?)"
            got = "another query, other labels or another reference answer" if case.id in saved.ids else got
            raise refused(f"case {case.id!r} as it was saved", got)
    if origin.collection:
        check_index(inputs.config.index, origin.collection["name"], recorded_settings(origin.indexed))
    numbers = [_variant(saved, settings, refused) for settings in inputs.settings]
    return replace(inputs, saved=replace(saved, variants=saved.variants.under(numbers)))


def _variant(saved: "SavedPool", settings: RetrieverConfig, refused: Refusal) -> int:
    """Return the number of the saved variant that was retrieved with the settings."""
    asked, others = _deciding(settings), saved.origin.variants
    differences = [[name for name in asked | was if asked.get(name) != was.get(name)] for was in others]
    nearest, names = min(enumerate(differences), key=lambda pair: len(pair[1]))
    if names:
        values = (own.get(names[0], "another one") for own in (asked, *others))
        wanted, *were = ("null" if value is None else value for value in values)
        was = " or ".join(map(str, dict.fromkeys(were)))
        raise refused(f"retriever.{names[0]} {was}, with which it was saved", wanted)
    if settings.threshold is not None and saved.variants.tables[nearest].facts[0].no_cosine:
        raise refused(f"scores to hold threshold {settings.threshold:g} against", "a retrieval without any")
    return nearest


def _deciding(settings: RetrieverConfig) -> dict[str, Any]:
    """Return the settings on which the candidates depend, by dotted name, as JSON values."""
    plain = dict(flatten(settings.model_dump(mode="json"), unopened=tables(RetrieverConfig)))
    others = {name: value for name, value in plain.items() if FREE.isdisjoint(name.split("."))}
    axes = {name: value for name, value in effective(settings).items() if name != "threshold_on"}
    # Known words are looked up only if a threshold reads them. The other signals are always saved.
    looked_up = {"threshold_signal": "known_words"} if settings.threshold_signal == "known_words" else {}
    return {**others, **axes, **looked_up, "candidates": settings.candidates}


def save(file: Path, pools: Sequence[Pool], facts: Facts, retrievers: Sequence[Retriever]) -> None:
    """Write candidates to a Parquet file.

    Args:
        file: The file.
        pools: The candidates of the golden queries, and those of the held-out split if there are any.
        facts: The facts of the run.
        retrievers: The retrievers, still open.

    Raises:
        ConfigError: The file cannot be written.
    """
    from evals.collect.saved import Origin, write

    info = retrievers[0].info
    origin = Origin(
        saved_at=datetime.now(UTC).isoformat(timespec="seconds"),
        label=facts.retriever,
        embedding=facts.embedding,
        variants=tuple(_deciding(retriever.settings) for retriever in retrievers),
        notes=pools[0].notes,
        collection=facts.collection.model_dump(mode="json", exclude_unset=True) if facts.collection else None,
        indexed=dict(info.manifest) if info else {},
    )
    write(file, pools, origin)

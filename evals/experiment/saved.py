"""A saved retrieval in place of searches: does it fit, and how is it saved."""

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
from retrievers.errors import CollectionChangedError
from retrievers.retriever.protocol import Retriever
from retrievers.store.checks import check_index

if TYPE_CHECKING:
    from evals.collect.saved import SavedPool

# Parts of the names of settings that do not decide which candidates are found; the axes of a sweep are told apart.
FREE = frozenset(
    "store top_k threshold threshold_on threshold_signal group_by trust_embedding required base_url".split()
) | {*VARIANT_AXES}


def finders(inputs: Inputs, bench: Collaborators) -> list[Find]:
    """Return what finds the golden queries, and the held-out ones where there are any.

    What is relevant to all of them is looked up now, so that a fault in the golden data costs no search.

    Args:
        inputs: The experiment.
        bench: Retrievers and source pages; none of them is asked where it starts from a saved retrieval.

    Raises:
        DatasetError: Evidence does not resolve; every fault is listed.
        StoreError: The collection cannot be read.
    """
    if inputs.saved:
        return [partial(inputs.saved.pool, golden.cases) for golden in inputs.splits]
    every = [(golden, ground(golden, bench.retriever)) for golden in inputs.splits]
    return [partial(retrieve, inputs.sweep or alone(inputs.config), *each, bench) for each in every]


def started_from(file: Path, inputs: Inputs) -> Inputs:
    """Return an experiment that starts from a saved retrieval: it has its own variants of that.

    One that names no retriever has the saved one, by the settings that all its variants share.

    Raises:
        ConfigError: The file cannot be read.
        ExperimentError: It was retrieved otherwise, or for other golden data, or the experiment needs searches.
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
        # A store of the user's own settled the others when it was opened. Cuts and axes alone name no retriever.
        if settings.python is not None or settings.model_fields_set <= FREE:
            given = dict(flatten(settings.model_dump(exclude_unset=True), unopened=tables(RetrieverConfig)))
            settings = RetrieverConfig.model_validate(nest({**shared, **given}))
        inputs = inputs.searched_by(settings)
    except ValidationError as error:
        raise refused("settings for its retriever", faults_of(error)) from None
    for case in (case for golden in inputs.splits for case in golden.cases):
        if case_fingerprint(case) not in saved.rows:
            got = "another query, other labels or another reference answer" if case.id in saved.ids else "a new case"
            raise refused(f"case {case.id!r} as it was saved", got)
    if origin.collection:
        check_index(inputs.config.index, origin.collection["name"], recorded_settings(origin.indexed))
    return replace(inputs, saved=saved.only([_matching(saved, wanted, refused) for wanted in inputs.settings]))


def _matching(saved: "SavedPool", wanted: RetrieverConfig, refused: Callable[[str, object], ExperimentError]) -> int:
    """Return the number of the saved variant that has the wanted settings."""
    asked = _deciding(wanted)
    differences = [{name for name in asked | was if asked.get(name) != was.get(name)} for was in saved.origin.variants]
    number = min(range(len(differences)), key=lambda n: len(differences[n]))
    for name in differences[number]:
        was = saved.origin.variants[number].get(name)
        raise refused(f"retriever.{name} {was!r}, with which it was saved", repr(asked.get(name)))
    if wanted.threshold is not None and saved.lists[number].facts[0].no_cosine:
        raise refused(f"scores to hold threshold {wanted.threshold:g} against", "a retrieval without any")
    return number


def _deciding(settings: RetrieverConfig) -> dict[str, Any]:
    """Return the settings on which the candidates depend, by dotted name, as JSON values."""
    plain = dict(flatten(settings.model_dump(mode="json"), unopened=tables(RetrieverConfig)))
    others = {name: value for name, value in plain.items() if FREE.isdisjoint(name.split("."))}
    found = {name: value for name, value in effective(settings).items() if name != "threshold_on"}
    # The words that a corpus knows are looked up where a threshold reads them; the other signals are always held.
    looked_up = {"threshold_signal": "known_words"} if settings.threshold_signal == "known_words" else {}
    return {**others, **found, **looked_up, "candidates": settings.candidates}


def save(file: Path, pool: Pool, held_out: Sequence[Find], facts: Facts, retrievers: Sequence[Retriever]) -> None:
    """Write the candidates of a run, and those of its held-out split, to a Parquet file.

    Args:
        file: The file.
        pool: What it found for the golden queries.
        held_out: What finds the held-out ones; empty without any.
        facts: The facts of the run.
        retrievers: The retrievers, still open.

    Raises:
        ConfigError: It cannot be written.
        RetrievalError: The store failed, or the collection changed during the run.
    """
    if facts.collection_changed:
        raise CollectionChangedError(
            f"--save-retrieval {file}: not saved, for the collection changed during the run: "
            f"{facts.collection_changed}; run again while nobody writes to it"
        )
    from evals.collect.saved import Origin, write

    info = retrievers[0].info
    origin = Origin(
        saved_at=datetime.now(UTC).isoformat(timespec="seconds"),
        label=facts.retriever,
        embedding=facts.embedding,
        variants=tuple(_deciding(retriever.settings) for retriever in retrievers),
        notes=pool.notes,
        collection=facts.collection.model_dump(mode="json", exclude_unset=True) if facts.collection else None,
        indexed=dict(info.manifest) if info else {},
    )
    write(file, [pool, *(find(range(len(retrievers))) for find in held_out)], origin)

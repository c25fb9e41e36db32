"""Saving the retrieval of a run, and starting a run from it in place of the store."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from evals.collect.passes import collect
from evals.collect.pool import evidence_chunks
from evals.collect.saved.reading import read_folder
from evals.collect.saved.retriever import EvidenceScope, SavedRetrieval, SavedRetriever, SavedVariant
from evals.collect.saved.writing import write_folder
from evals.errors import ExperimentError
from evals.experiment.embedded_index import outdated
from evals.experiment.loading import Inputs
from evals.golden.case import Case
from evals.golden.evidence import evidence_urls, labelled_ids, names_no_page
from evals.grid.axes import VARIANT_AXES, dotted, effective
from evals.grid.measure import Measured
from evals.metrics import needs
from evals.metrics.collaborators import Collaborators
from evals.report.model import Facts
from retrievers.config import RetrieverConfig
from retrievers.config.layers import flatten, tables
from retrievers.errors import CollectionChangedError
from retrievers.retriever.protocol import Retriever
from retrievers.search.candidate_table import CandidateTable
from retrievers.search.chunk_list import ChunkList
from retrievers.search.table_builder import TableBuilder
from retrievers.store import check_index

# Settings that cut candidates, or say where and with what patience they are got, but not which they are.
FREE = frozenset(
    "top_k threshold threshold_on group_by timeout_s include_metadata trust_embedding keyword_weight "
    "metadata.required".split()
)
FREE_GROUPS = ("store.", "cache.")
FREE_ENDINGS = (".api_key_env", ".timeout_s", ".base_url")


def save_retrieval(folder: Path, inputs: Inputs, result: Measured, facts: Facts, collaborators: Collaborators) -> None:
    """Write what a run has retrieved, with the candidates of held-out queries, to a folder.

    Args:
        folder: The folder.
        inputs: The experiment.
        result: Its result.
        facts: The facts of the run.
        collaborators: The retrievers, still open: the chunks in which evidence was looked for are read once more.

    Raises:
        ConfigError: It cannot be written.
        RetrievalError: The store failed, or the collection changed during the run.
    """
    if facts.collection_changed:
        raise CollectionChangedError(
            f"--save-retrieval {folder}: not saved, for the collection changed during the run: "
            f"{facts.collection_changed}; run again while nobody writes to it"
        )
    chunks, cases = ChunkList(), _cases(inputs)
    listing = _listing(inputs, collaborators.retriever, chunks)
    pool = result.results.lists.pool
    variants = []
    for retriever, table in zip(collaborators.retrievers, pool.tables, strict=True):
        builder = TableBuilder(chunks)
        builder.extend(_renumbered(table, chunks))
        if inputs.held_out:
            held_out = collect(retriever, inputs.held_out.cases, collaborators.progress)
            builder.extend(_renumbered(held_out, chunks))
        variants.append(_variant(retriever, cases, builder.table()))
    retrieval = SavedRetrieval(
        saved_at=datetime.now(UTC).isoformat(timespec="seconds"),
        variants=tuple(variants),
        chunks=chunks,
        listing=listing,
        info=collaborators.retriever.info,
        collection=facts.collection.model_dump(mode="json", exclude_unset=True) if facts.collection else None,
        versions=facts.versions,
    )
    write_folder(folder, retrieval)


def open_saved(folder: Path, inputs: Inputs) -> list[SavedRetriever]:
    """Return retrievers that answer from a saved retrieval, one for each variant of the experiment.

    Raises:
        ConfigError: The folder holds no saved retrieval.
        ExperimentError: It was retrieved otherwise, or for other queries, or the experiment needs a live retriever.
    """
    config = inputs.config
    named = [name for name in config.objective.constraints if needs([name], "latency") or needs([name], "determinism")]
    if inputs.sweep and named:
        raise ExperimentError(
            f"--from-retrieval {folder}: the constraint {named[0]!r} needs searches, and a saved retrieval makes none; "
            "leave it out of objective.constraints, or leave --from-retrieval out"
        )
    retrieval = read_folder(folder)
    _refuse_other_pages(folder, retrieval, inputs)
    variants = [variant.settings for variant in inputs.sweep.variants] if inputs.sweep else [config.retriever]
    retrievers = [SavedRetriever(retrieval, _fitting(folder, retrieval, settings), settings) for settings in variants]
    for retriever in retrievers:
        _refuse_other_queries(folder, retriever.variant, _cases(inputs))
    return retrievers


def deciding(settings: RetrieverConfig) -> dict[str, Any]:
    """Return the settings on which the candidates depend, but for their depth, by dotted name, as JSON values."""
    swept = {axis.setting for axis in VARIANT_AXES.values()}
    idle = [
        *(["cross_encoder."] if settings.rerank != "cross-encoder" else []),
        *(["keyword."] if settings.mode == "semantic" else []),
        *FREE_GROUPS,
    ]
    plain = flatten(settings.model_dump(mode="json"), unopened=tables(RetrieverConfig))
    others = {
        name: value
        for name, value in plain
        if name not in swept | FREE and not name.startswith(tuple(idle)) and not name.endswith(FREE_ENDINGS)
    }
    decided = {name: value for name, value in effective(settings).items() if name != "candidates"}
    settings_in_json: dict[str, Any] = json.loads(json.dumps(decided | others, default=str))
    return settings_in_json


def _cases(inputs: Inputs) -> Sequence[Case]:
    return [*inputs.golden.cases, *(inputs.held_out.cases if inputs.held_out else ())]


def _listing(inputs: Inputs, retriever: Retriever, chunks: ChunkList) -> EvidenceScope:
    """Number the chunks that relevance was looked for in, and say which they are."""
    cases = _cases(inputs)
    if retriever.info is not None:
        for chunk in evidence_chunks(cases, retriever):
            chunks.code(chunk)
    return EvidenceScope(
        whole=names_no_page(cases),
        pages=frozenset(evidence_urls(cases)),
        ids=frozenset(labelled_ids(cases)),
        size=len(chunks),
    )


def _renumbered(table: CandidateTable, chunks: ChunkList) -> CandidateTable:
    """Return a table with the numbers that its chunks have in a list, which takes those that it lacks."""
    codes, places = np.unique(table.codes, return_inverse=True)
    renumbered = np.asarray([chunks.code(table.chunks[code]) for code in codes.tolist()], dtype=np.int32)
    return replace(table, codes=renumbered[places], chunks=chunks)


def _variant(retriever: Retriever, cases: Sequence[Case], table: CandidateTable) -> SavedVariant:
    return SavedVariant(
        settings=deciding(retriever.settings),
        depth=retriever.settings.candidates,
        label=retriever.label,
        embedding=retriever.embedding_label,
        notes=retriever.notes,
        ids=tuple(case.id for case in cases),
        table=table,
    )


def _fitting(folder: Path, retrieval: SavedRetrieval, settings: RetrieverConfig) -> SavedVariant:
    """Return the saved variant that found what these settings find."""
    of_settings, depth = deciding(settings), settings.candidates
    exact = "candidates" in effective(settings)
    # A setting that is newer than the saved retrieval had no value then.
    alike = [variant for variant in retrieval.variants if not _differences(variant.settings, of_settings)]
    fits = [variant for variant in alike if (variant.depth == depth if exact else variant.depth >= depth)]
    if fits:
        return fits[0]
    if alike:
        depths = ", ".join(f"{variant.depth:,}" for variant in alike)
        rule = "the depth that was saved" if exact else "at most the depth that was saved"
        raise _refused(folder, f"retriever.candidates: {rule}, {depths}", f"{depth:,}")
    nearest = min(retrieval.variants, key=lambda variant: len(_differences(variant.settings, of_settings)))
    name, saved, asked = _differences(nearest.settings, of_settings)[0]
    raise _refused(folder, f"retriever.{dotted(name)} {saved!r}, with which it was saved", f"{asked!r}")


def _differences(saved: Mapping[str, Any], given: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    names = dict.fromkeys([*given, *saved])
    return [(name, saved.get(name), given.get(name)) for name in names if saved.get(name) != given.get(name)]


def _refuse_other_queries(folder: Path, variant: SavedVariant, cases: Sequence[Case]) -> None:
    texts = dict(zip(variant.ids, variant.table.texts, strict=True))
    for case in cases:
        if case.query not in variant.row_of:
            saved = f"the query {texts[case.id]!r}, which was saved" if case.id in texts else "a query that was saved"
            raise _refused(folder, f"for case {case.id!r} {saved}", f"{case.query!r}")


def _refuse_other_pages(folder: Path, retrieval: SavedRetrieval, inputs: Inputs) -> None:
    """Refuse pages that changed since, where the experiment keeps a collection up to date with them."""
    manifest = retrieval.info.manifest if retrieval.info else {}
    for name, (recorded, expected) in outdated(inputs.config, manifest).items():
        raise _refused(folder, f"{name} {recorded!r} of the collection that was searched", f"{expected!r}")
    if retrieval.info:
        check_index(inputs.config.index, retrieval.info)


def _refused(folder: Path, expected: str, got: str) -> ExperimentError:
    return ExperimentError(
        f"--from-retrieval {folder}: expected {expected}, got {got}; save it again with --save-retrieval, or leave "
        "--from-retrieval out"
    )

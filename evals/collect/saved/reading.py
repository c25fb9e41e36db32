"""Reading a saved retrieval, with all checks that its files are those that were written."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evals.collect.saved.layout import SCHEMA_VERSION, STAGES, TABLES, digest
from evals.collect.saved.retriever import EvidenceScope, SavedRetrieval, SavedVariant
from evals.collect.saved.writable import MANIFEST
from retrievers.errors import ConfigError
from retrievers.records import Chunk, StageTimings
from retrievers.search.candidate_table import CandidateTable
from retrievers.search.chunk_list import ChunkList
from retrievers.store import CollectionInfo


def read_folder(folder: Path, flag: str = "--from-retrieval") -> SavedRetrieval:
    """Read a saved retrieval; `flag` is the one that named it, for messages.

    Raises:
        ConfigError: The folder holds none, or one that is damaged or of another version.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if manifest["schema_version"] != SCHEMA_VERSION:
            raise _refused(f"{flag} {folder}", f"schema version {SCHEMA_VERSION}", f"{manifest['schema_version']!r}")
        for name in TABLES:
            if digest(folder / f"{name}.parquet") != manifest["files"][name]:
                raise _refused(f"{flag} {folder}", f"{name}.parquet as it was written", "another content")
        queries, candidates, chunks = (pq.read_table(folder / f"{name}.parquet") for name in TABLES)
        return _retrieval(folder, manifest, queries, candidates, _chunk_list(chunks))
    except FileNotFoundError as error:
        missing = Path(str(error.filename)).name
        raise _refused(f"{flag} {folder}", "a folder that --save-retrieval wrote", f"no {missing}") from error
    except (OSError, pa.ArrowException, ValueError, KeyError, TypeError) as error:
        raise _refused(f"{flag} {folder}", "a folder that --save-retrieval wrote", f"{error!r}") from error


def _refused(place: str, expected: str, found: str) -> ConfigError:
    return ConfigError(f"{place}: expected {expected}, found {found}; save it again")


def _retrieval(
    folder: Path, manifest: Mapping[str, Any], queries: pa.Table, candidates: pa.Table, chunks: ChunkList
) -> SavedRetrieval:
    info, listing = manifest["info"], manifest["listing"]
    variants = tuple(
        SavedVariant(
            **variant | {"notes": tuple(variant["notes"])},
            ids=tuple(_of(queries, number)["id"].to_pylist()),
            table=_table(_of(queries, number), _of(candidates, number), chunks),
        )
        for number, variant in enumerate(manifest["variants"])
    )
    return SavedRetrieval(
        name=folder.absolute().name,
        saved_at=manifest["saved_at"],
        variants=variants,
        chunks=chunks,
        listing=EvidenceScope(**listing | {"pages": frozenset(listing["pages"]), "ids": frozenset(listing["ids"])}),
        info=None if info is None else CollectionInfo(**info | {"sparse_vectors": tuple(info["sparse_vectors"])}),
        collection=manifest["collection"],
        versions=manifest["versions"],
    )


def _of(table: pa.Table, variant: int) -> pa.Table:
    """Return the rows of a variant."""
    return table.filter(pa.array(table["variant"].to_numpy() == variant))


def _table(queries: pa.Table, candidates: pa.Table, chunks: ChunkList) -> CandidateTable:
    own = [name for name in candidates.column_names if name not in ("variant", "query", "place", "chunk")]
    columns = {name: candidates[name].to_numpy() for name in own if candidates[name].null_count < len(candidates)}
    vectors = [np.asarray(v.values, dtype=np.float32) if v.is_valid else None for v in queries["vector"]]
    plain = queries.drop_columns(["vector"]).to_pylist()
    return CandidateTable(
        offsets=np.concatenate([[0], np.cumsum(queries["candidates"].to_numpy())]).astype(np.int64),
        codes=candidates["chunk"].to_numpy().astype(np.int32),
        scores=columns.pop("score", np.full(len(candidates), np.nan)),
        columns=columns,
        scales=tuple(row["scale"] for row in plain),
        distances=tuple(row.get("distance", "cosine") for row in plain),
        chunks=chunks,
        texts=tuple(row["query"] for row in plain),
        timings=tuple(StageTimings(**{name: row[name] for name in STAGES}) for row in plain),
        vectors=tuple(vectors),
        no_cosine=tuple(row["no_cosine"] for row in plain),
        incomplete=tuple(row["incomplete"] for row in plain),
        caches=tuple(json.loads(row["cache"]) for row in plain),
        retrieved_at=tuple(row["retrieved_at"] for row in plain),
        ann_recall=tuple(_recalls(row.get("ann_recall")) for row in plain),
    )


def _recalls(written: str | None) -> dict[int, float]:
    # Absent from what older versions saved.
    return {int(k): share for k, share in json.loads(written or "{}").items()}


def _chunk_list(table: pa.Table) -> ChunkList:
    chunks = ChunkList()
    for row in table.to_pylist():
        tuples = {name: tuple(value) for name, value in row.items() if isinstance(value, list)}
        chunks.code(Chunk(**row | tuples))
    return chunks

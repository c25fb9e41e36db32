"""A pool in one Parquet file: what was found for golden queries, what is relevant to them, and how it was retrieved.

A row is a list (the candidates of a query under a variant), a chunk, or the text of a relevant chunk: the one column
that is not null says which. The file's metadata hold the origin of the pool, and the SHA-256 of the whole file, in
whose place stands `UNSEALED` while it is computed. Checksums of Parquet's pages would leave the metadata unguarded.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import TypeAdapter
from pydantic_core import to_json

from evals.cases.case import Case
from evals.cases.reading import case_fingerprint
from evals.cases.relevance import Relevance
from evals.collect.pool import Integers, Pool
from evals.config.files import replacing
from retrievers.errors import ConfigError
from retrievers.records import Chunk, StageTimings
from retrievers.search.candidates import BY_QUERY, CandidateTable, ChunkList

VERSION = b"2"
UNSEALED = b"?" * 64
# Payload keys that are no fields of a chunk are not saved.
OF_CHUNK = tuple(field.name for field in fields(Chunk) if field.name != "extra")
# Facts of a list that are JSON in their column.
IN_JSON: Mapping[str, TypeAdapter[Any]] = {
    "relevance": TypeAdapter(Relevance),
    "timings": TypeAdapter(StageTimings),
    "caches": TypeAdapter(dict[str, str]),
}
# What begins the name of a column that holds a value for each candidate.
EACH = "each "


@dataclass(frozen=True, kw_only=True)
class Searched:
    """How the candidates of a variant were found.

    Attributes:
        settings: The settings that decide what is found, by dotted name, as JSON values.
        depth: The candidate depth.
        label: The class that retrieved.
        embedding: The model that embedded, None where it is not known.
        notes: Notes of the retriever for readers of its results.
    """

    settings: dict[str, Any]
    depth: int
    label: str
    embedding: str | None
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a pool is from.

    Attributes:
        saved_at: Time of saving, ISO 8601 with time zone.
        variants: How each was searched.
        collection: The facts of the collection as a report holds them; None where chunks cannot be listed.
        indexed: What the collection records of its indexing (see `CollectionInfo.manifest`).
        versions: Versions of Python and of the libraries that retrieved.
    """

    saved_at: str
    variants: tuple[Searched, ...]
    collection: dict[str, Any] | None
    indexed: dict[str, Any]
    versions: dict[str, str]


ORIGIN = TypeAdapter(Origin)


@dataclass(frozen=True, kw_only=True, eq=False)
class SavedPool:
    """A pool out of a file.

    Attributes:
        name: Name of the file, without its path.
        lists: What was found and is relevant, by variant, a row for each golden query.
        chunks: The chunks by their code.
        texts: The texts of relevant chunks by chunk id.
        ids: The golden queries by id, as the rows of the lists.
        rows: The row of each golden query by its fingerprint (see `case_fingerprint`).
    """

    name: str
    origin: Origin
    lists: tuple[pa.Table, ...]
    chunks: ChunkList
    texts: Mapping[str, str]
    ids: Sequence[str]
    rows: Mapping[str, int]

    def only(self, wanted: Sequence[tuple[int, int]]) -> "SavedPool":
        """Return some of the variants, by number, each with the depth to which its candidates are wanted."""
        variants = tuple(replace(self.origin.variants[number], depth=depth) for number, depth in wanted)
        lists = tuple(self.lists[number] for number, _ in wanted)
        return replace(self, origin=replace(self.origin, variants=variants), lists=lists)

    def pool(self, cases: Sequence[Case], numbers: Sequence[int]) -> Pool:
        """Return what was found for golden queries under some variants; all of them were saved."""
        rows = np.asarray([self.rows[case_fingerprint(case)] for case in cases])
        note = f"started from the retrieval {self.name!r}, saved on {self.origin.saved_at}: nothing was searched"
        return Pool(
            cases=tuple(cases),
            tables=tuple(self.table(number, rows) for number in numbers),
            relevance=tuple(_values(self.lists[number], "relevance", rows) for number in numbers),
            texts=None if self.origin.collection is None else self.texts,
            notes=tuple((*self.origin.variants[number].notes, note) for number in numbers),
        )

    def table(self, number: int, rows: Integers) -> CandidateTable:
        """Return the candidates of the queries in some rows under a variant."""
        lists, depth = self.lists[number], self.origin.variants[number].depth
        names = [name for name in lists.column_names if name.startswith(EACH)]
        each = {name: pc.list_slice(lists[name].take(rows), 0, depth).combine_chunks() for name in names}
        lengths = pc.list_value_length(each[f"{EACH}code"]).to_numpy()
        columns = {name.removeprefix(EACH): values.flatten().to_numpy() for name, values in each.items()}
        of_query: dict[str, Any] = {name: _values(lists, name, rows) for name in BY_QUERY}
        return CandidateTable(
            offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            codes=columns.pop("code"),
            scores=columns.pop("score"),
            columns=columns,
            chunks=self.chunks,
            **of_query,
        )


def _values(lists: pa.Table, name: str, rows: Integers) -> tuple[Any, ...]:
    column = lists[name].take(rows)
    if name == "vectors":
        return tuple(vector.values.to_numpy() if vector.is_valid else None for vector in column)
    values = column.to_pylist()
    return tuple(map(IN_JSON[name].validate_json, values) if name in IN_JSON else values)


def write(file: Path, pools: Sequence[Pool], origin: Origin) -> None:
    """Write pools of the same variants as one to a file, in place of one that was there before.

    Args:
        file: The file; only its owner can read it.
        pools: Of the golden queries, and of held-out ones.
        origin: Where they are from.

    Raises:
        ConfigError: It cannot be written.
    """
    chunks, numbers = ChunkList(), range(len(origin.variants))
    names = [*dict.fromkeys(name for pool in pools for table in pool.tables for name in table.columns)]
    try:
        lists = pa.concat_tables(
            [_lists(pool, number, names, chunks) for number in numbers for pool in pools], promote_options="default"
        )
        found = [{name: getattr(chunks[code], name) for name in OF_CHUNK} for code in range(len(chunks))]
        texts = [{"id": key, "text": text} for pool in pools for key, text in (pool.texts or {}).items()]
        columns = {"list": lists.to_struct_array(), "chunk": found, "text": texts}
        parts = [pa.table({name: values}) for name, values in columns.items()]
        table = pa.concat_tables(parts, promote_options="default")
        metadata = {"version": VERSION, "origin": ORIGIN.dump_json(origin), "sha256": UNSEALED}
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(sink, table.schema, compression="zstd", compression_level=9) as writer:
            writer.write_table(table)
            writer.add_key_value_metadata(metadata)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise ConfigError(f"{file}: cannot be written: {error}") from error
    data = sink.getvalue().to_pybytes()
    head, _, tail = data.rpartition(UNSEALED)
    with replacing(file) as part:
        part.touch(mode=0o600)
        part.write_bytes(head + hashlib.sha256(data).hexdigest().encode() + tail)


def _lists(pool: Pool, number: int, names: Sequence[str], chunks: ChunkList) -> pa.Table:
    """Return the lists of a variant, with the numbers that their chunks have in `chunks`, which takes what it lacks."""
    table, relevance = pool.tables[number], pool.relevance[number]
    codes, places = np.unique(table.codes, return_inverse=True)
    known = np.asarray([chunks.code(table.chunks[code]) for code in codes.tolist()], dtype=np.int32)
    of_query: dict[str, Any] = {name: getattr(table, name) for name in BY_QUERY} | {"relevance": relevance}
    of_query |= {name: [to_json(each, fallback=dict).decode() for each in of_query[name]] for name in IN_JSON}
    each = {"code": known[places], "score": table.scores, **{name: table.column(name) for name in names}}
    offsets = pa.array(table.offsets, pa.int32())
    return pa.table(
        {
            "variant": [number] * len(table),
            "id": [case.id for case in pool.cases],
            "fingerprint": [case_fingerprint(case) for case in pool.cases],
            **{name: pa.array(values) for name, values in of_query.items()},
            **{EACH + name: pa.ListArray.from_arrays(offsets, pa.array(values)) for name, values in each.items()},
        }
    )


def read(file: Path, flag: str = "--from-retrieval") -> SavedPool:
    """Read a pool from a file; `flag` is the one that named it, for messages.

    Raises:
        ConfigError: It is no such file, or one that is damaged or of another version.
    """
    try:
        data = file.read_bytes()
        metadata = pq.read_metadata(pa.BufferReader(data)).metadata or {}
        head, _, tail = data.rpartition(metadata[b"sha256"])
        if metadata[b"version"] != VERSION:
            found = f"one of version {metadata[b'version'].decode()}, not {VERSION.decode()}"
        elif hashlib.sha256(head + UNSEALED + tail).hexdigest().encode() != metadata[b"sha256"]:
            found = "one that is damaged"
        else:
            origin = ORIGIN.validate_json(metadata[b"origin"])
            return _decoded(file.absolute().name, origin, pq.read_table(pa.BufferReader(data)))
    except OSError as error:
        found = "a folder, as earlier releases wrote it" if file.is_dir() else error.strerror or "something else"
    except (pa.ArrowException, ValueError, LookupError):
        found = "something else"
    raise ConfigError(f"{flag} {file}: expected a file that --save-retrieval wrote, found {found}; save it again")


def _decoded(name: str, origin: Origin, table: pa.Table) -> SavedPool:
    chunks = ChunkList()
    for row in table["chunk"].drop_null().to_pylist():
        chunks.code(Chunk(**row | {name: tuple(value) for name, value in row.items() if isinstance(value, list)}))
    lists = pa.Table.from_struct_array(table["list"].drop_null())
    own = lists["variant"].to_numpy()
    by_variant = tuple(lists.filter(own == number) for number in range(len(origin.variants)))
    return SavedPool(
        name=name,
        origin=origin,
        lists=by_variant,
        chunks=chunks,
        texts={row["id"]: row["text"] for row in table["text"].drop_null().to_pylist()},
        ids=by_variant[0]["id"].to_pylist(),
        rows={key: row for row, key in enumerate(by_variant[0]["fingerprint"].to_pylist())},
    )

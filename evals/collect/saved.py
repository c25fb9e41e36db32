"""A pool in one Parquet file: what was found for golden queries, what is relevant to them, and how it was retrieved.

A row is a list (the candidates of a query under a variant), or a chunk: the one column that is not null says which. The
file's metadata hold the origin of the pool and the texts of relevant chunks.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
from retrievers.records import Chunk
from retrievers.search.candidates import Candidates, ChunkList, SearchFacts, joined

VERSION = b"7"
# Chunks, and two columns of a list, are JSON.
CHUNK, FACTS, RELEVANCE = TypeAdapter(Chunk), TypeAdapter(SearchFacts), TypeAdapter(Relevance)
# What a list has beside its scores.
OF_LIST = ("variant", "id", "fingerprint", "relevance", "facts", "code")


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a pool is from.

    Attributes:
        saved_at: Time of saving, ISO 8601 with time zone.
        label: The class that retrieved, None where it is not known.
        embedding: The model that embedded, None where it is not known.
        variants: Of each the settings that decide what is found, by dotted name, as JSON values.
        notes: Of each the notes of the retriever for readers of its results.
        collection: The facts of the collection as a report holds them; None where chunks cannot be listed.
        indexed: What the collection records of its indexing (see `CollectionInfo.manifest`).
    """

    saved_at: str
    label: str | None
    embedding: str | None
    variants: tuple[dict[str, Any], ...]
    notes: tuple[tuple[str, ...], ...]
    collection: dict[str, Any] | None
    indexed: dict[str, Any]


ORIGIN = TypeAdapter(Origin)


@dataclass(frozen=True, kw_only=True, eq=False)
class SavedPool:
    """A pool out of a file.

    Attributes:
        name: Name of the file, without its path.
        lists: What was found, by variant, a row for each golden query.
        relevance: What is relevant, likewise.
        texts: The texts of relevant chunks by chunk id.
        ids: The golden queries by id, as the rows of the lists.
        rows: The row of each golden query by its fingerprint (see `case_fingerprint`).
    """

    name: str
    origin: Origin
    lists: tuple[Candidates, ...]
    relevance: tuple[tuple[Relevance, ...], ...]
    texts: Mapping[str, str]
    ids: Sequence[str]
    rows: Mapping[str, int]

    def only(self, numbers: Sequence[int]) -> "SavedPool":
        """Return some of the variants."""
        variants = tuple(self.origin.variants[number] for number in numbers)
        notes = tuple(self.origin.notes[number] for number in numbers)
        return replace(
            self,
            origin=replace(self.origin, variants=variants, notes=notes),
            lists=tuple(self.lists[number] for number in numbers),
            relevance=tuple(self.relevance[number] for number in numbers),
        )

    def pool(self, cases: Sequence[Case], numbers: Sequence[int]) -> Pool:
        """Return what was found for golden queries under some variants; all of them were saved."""
        rows = np.asarray([self.rows[case_fingerprint(case)] for case in cases])
        note = f"started from the retrieval {self.name!r}, saved on {self.origin.saved_at}: nothing was searched"
        return Pool(
            cases=tuple(cases),
            tables=tuple(self.table(number, rows) for number in numbers),
            relevance=tuple(tuple(self.relevance[number][row] for row in rows) for number in numbers),
            texts=None if self.origin.collection is None else self.texts,
            notes=tuple((*self.origin.notes[number], note) for number in numbers),
        )

    def table(self, number: int, rows: Integers) -> Candidates:
        """Return the candidates of the queries in some rows under a variant."""
        found = self.lists[number]
        columns = {name: values[rows] for name, values in found.columns.items()}
        return replace(found, codes=found.codes[rows], columns=columns, facts=tuple(found.facts[row] for row in rows))


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
    whole = joined([_numbered(pool.tables[number], chunks) for number in numbers for pool in pools])
    asked = [
        (number, case, relevance)
        for number in numbers
        for pool in pools
        for case, relevance in zip(pool.cases, pool.relevance[number], strict=True)
    ]
    lists = [
        {
            "variant": number,
            "id": case.id,
            "fingerprint": case_fingerprint(case),
            "relevance": to_json(relevance, fallback=dict),
            "facts": to_json(whole.facts[row]),
            "code": whole.codes[row].tolist(),
            **{name: values[row].tolist() for name, values in whole.columns.items()},
        }
        for row, (number, case, relevance) in enumerate(asked)
    ]
    columns = {"list": lists, "chunk": [to_json(chunk, fallback=_plain) for chunk in chunks]}
    table = pa.concat_tables([pa.table({n: v}) for n, v in columns.items()], promote_options="default")
    texts = {key: text for pool in pools for key, text in (pool.texts or {}).items()}
    said = {"version": VERSION, "origin": ORIGIN.dump_json(origin), "texts": to_json(texts)}
    table = table.replace_schema_metadata(said)
    with replacing(file) as part:
        part.touch(mode=0o600)
        pq.write_table(table, part, compression="zstd", compression_level=9, write_page_checksum=True)


def _plain(value: Any) -> Any:
    """Return an array and its numbers as lists and numbers, what else is no JSON value as text."""
    return getattr(value, "tolist", value.__str__)()


def _numbered(found: Candidates, chunks: ChunkList) -> Candidates:
    """Return candidates with the numbers that their chunks have in `chunks`, which takes what it lacks."""
    codes, places = np.unique(found.codes, return_inverse=True)
    known = np.asarray(
        [chunks.code(found.chunks[code]) if code >= 0 else -1 for code in codes.tolist()], dtype=np.int64
    )
    return replace(found, codes=known[places].reshape(found.codes.shape), chunks=chunks)


def read(file: Path, flag: str = "--from-retrieval") -> SavedPool:
    """Read a pool from a file; `flag` is the one that named it, for messages.

    Raises:
        ConfigError: It is no such file, or one that is damaged or of another version.
    """
    try:
        table = pq.ParquetFile(pa.BufferReader(file.read_bytes()), page_checksum_verification=True).read()
        metadata = table.schema.metadata or {}
        if metadata[b"version"] == VERSION:
            origin, texts = ORIGIN.validate_json(metadata[b"origin"]), json.loads(metadata[b"texts"])
            return _decoded(file.absolute().name, origin, texts, table)
        found = f"one of version {metadata[b'version'].decode()}, not {VERSION.decode()}"
    except OSError as error:
        found = error.strerror or "one that is damaged"
    except (pa.ArrowException, ValueError, LookupError):
        found = "something else"
    raise ConfigError(f"{flag} {file}: expected a file that --save-retrieval wrote, found {found}; save it again")


def _decoded(name: str, origin: Origin, texts: Mapping[str, str], table: pa.Table) -> SavedPool:
    chunks = ChunkList()
    chunks.extend(map(CHUNK.validate_json, table["chunk"].drop_null().to_pylist()))
    every = pa.Table.from_struct_array(table["list"].drop_null())
    lists, relevance, known = list[Candidates](), list[tuple[Relevance, ...]](), dict[str, Any]()
    for number in range(len(origin.variants)):
        known = every.filter(pc.equal(every["variant"], number)).to_pydict()
        relevance.append(tuple(map(RELEVANCE.validate_json, known["relevance"])))
        facts, codes = tuple(map(FACTS.validate_json, known["facts"])), np.asarray(known["code"], dtype=np.int64)
        columns = {name: np.asarray(values, dtype=np.float64) for name, values in known.items() if name not in OF_LIST}
        lists.append(Candidates(codes=codes, columns=columns, chunks=chunks, facts=facts))
    return SavedPool(
        name=name,
        origin=origin,
        lists=tuple(lists),
        relevance=tuple(relevance),
        texts=texts,
        ids=known["id"],
        rows={key: row for row, key in enumerate(known["fingerprint"])},
    )

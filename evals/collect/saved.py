"""A pool in one Parquet file: candidates of golden queries, their relevance, and the settings of the retrieval.

A row is a list (the candidates of a query under a variant) or a chunk. Only the column of its kind is not null. The
metadata of the file has the origin of the pool and the texts of relevant chunks.
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
from evals.collect.pool import Pool
from evals.config.files import replacing
from evals.stats.intervals import Integers
from retrievers.errors import ConfigError
from retrievers.records import Chunk
from retrievers.search.candidates import Candidates, ChunkList, SearchFacts, joined

VERSION = b"7"
# Chunks, and the columns `facts` and `relevance` of a list, are JSON.
CHUNK, FACTS, RELEVANCE = TypeAdapter(Chunk), TypeAdapter(SearchFacts), TypeAdapter(Relevance)
# Columns of a list that are no scores.
OF_LIST = ("variant", "id", "fingerprint", "relevance", "facts", "code")


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Origin of a pool.

    Attributes:
        saved_at: Time of saving, ISO 8601 with time zone.
        label: Class of the retriever; None if it is not known.
        embedding: Embedding model; None if it is not known.
        variants: By variant, the settings that decide what is found, by dotted name, as JSON values.
        notes: By variant, notes of the retriever for the reader of its results.
        collection: Facts of the collection as a report has them; None if chunks cannot be listed.
        indexed: Record of the collection about its indexing (see `CollectionInfo.manifest`).
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
    """A pool that was read from a file.

    Attributes:
        name: Name of the file, without its path.
        origin: Origin of the pool.
        variants: What each variant found, one row a golden query; a pool without its cases, which the file lacks.
        ids: Ids of the golden queries, in the order of the rows.
        rows: The row of each golden query by the query's fingerprint (see `case_fingerprint`).
    """

    name: str
    origin: Origin
    variants: Pool
    ids: Sequence[str]
    rows: Mapping[str, int]

    def pool(self, cases: Sequence[Case], numbers: Sequence[int]) -> Pool:
        """Return the pool of some golden queries under some variants. The file must have them."""
        rows = np.asarray([self.rows[case_fingerprint(case)] for case in cases])
        found = self.variants.under(numbers)
        origin = f"the retrieval {self.name!r}, saved on {self.origin.saved_at}"
        note = f"started from {origin}: nothing was searched, timed or repeated"
        return Pool(
            cases=tuple(cases),
            tables=tuple(_rows_of(table, rows) for table in found.tables),
            relevance=tuple(tuple(own[row] for row in rows) for own in found.relevance),
            texts=found.texts,
            notes=tuple((*notes, note) for notes in found.notes),
        )


def _rows_of(table: Candidates, rows: Integers) -> Candidates:
    columns = {name: values[rows] for name, values in table.columns.items()}
    return replace(table, codes=table.codes[rows], columns=columns, facts=tuple(table.facts[row] for row in rows))


def write(file: Path, pools: Sequence[Pool], origin: Origin) -> None:
    """Write pools with the same variants as one pool to a file. An existing file is replaced.

    Args:
        file: The file. Only its owner can read it.
        pools: The pool of the golden queries, and that of the held-out queries if there are any.
        origin: Origin of the pools.

    Raises:
        ConfigError: The file cannot be written.
    """
    chunks, numbers = ChunkList(), range(len(origin.variants))
    whole = joined([_renumber(pool.tables[number], chunks) for number in numbers for pool in pools])
    queries = [
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
        for row, (number, case, relevance) in enumerate(queries)
    ]
    columns = {"list": lists, "chunk": [to_json(chunk, fallback=_plain) for chunk in chunks]}
    table = pa.concat_tables([pa.table({n: v}) for n, v in columns.items()], promote_options="default")
    texts = {key: text for pool in pools for key, text in (pool.texts or {}).items()}
    metadata = {"version": VERSION, "origin": ORIGIN.dump_json(origin), "texts": to_json(texts)}
    table = table.replace_schema_metadata(metadata)
    with replacing(file) as part:
        part.touch(mode=0o600)
        pq.write_table(table, part, compression="zstd", compression_level=9, write_page_checksum=True)


def _plain(value: Any) -> Any:
    """Return the JSON value of an object: a list for an array, a number for one of numpy, else its text."""
    return getattr(value, "tolist", value.__str__)()


def _renumber(table: Candidates, chunks: ChunkList) -> Candidates:
    """Return candidates with the codes that their chunks have in `chunks`. New chunks are added to it."""
    codes, places = np.unique(table.codes, return_inverse=True)
    code_of = [chunks.code(table.chunks[code]) if code >= 0 else -1 for code in codes.tolist()]
    return replace(table, codes=np.asarray(code_of, np.int64)[places].reshape(table.codes.shape), chunks=chunks)


def read(file: Path, flag: str = "--from-retrieval") -> SavedPool:
    """Read a pool from a file.

    Args:
        file: The file.
        flag: The flag that names the file, for messages.

    Raises:
        ConfigError: The file has no pool, is damaged, or is of another version.
    """
    try:
        table = pq.ParquetFile(pa.BufferReader(file.read_bytes()), page_checksum_verification=True).read()
        metadata = table.schema.metadata or {}
        if metadata[b"version"] == VERSION:
            origin, texts = ORIGIN.validate_json(metadata[b"origin"]), json.loads(metadata[b"texts"])
            return _decode(file.absolute().name, origin, texts, table)
        content = f"one of version {metadata[b'version'].decode()}, not {VERSION.decode()}"
    except OSError as error:
        content = error.strerror or "one that is damaged"
    except (pa.ArrowException, ValueError, LookupError):
        content = "something else"
    raise ConfigError(f"{flag} {file}: expected a file that --save-retrieval wrote, found {content}; save it again")


def _decode(name: str, origin: Origin, texts: Mapping[str, str], table: pa.Table) -> SavedPool:
    """Return the pool of a table: its lists variant by variant, over one list of chunks."""
    chunks = ChunkList()
    chunks.extend(map(CHUNK.validate_json, table["chunk"].drop_null().to_pylist()))
    rows = pa.Table.from_struct_array(table["list"].drop_null())
    tables, relevance, cells = list[Candidates](), list[tuple[Relevance, ...]](), dict[str, Any]()
    for number in range(len(origin.variants)):
        cells = rows.filter(pc.equal(rows["variant"], number)).to_pydict()
        relevance.append(tuple(map(RELEVANCE.validate_json, cells["relevance"])))
        facts, codes = tuple(map(FACTS.validate_json, cells["facts"])), np.asarray(cells["code"], dtype=np.int64)
        columns = {name: np.asarray(values, dtype=np.float64) for name, values in cells.items() if name not in OF_LIST}
        tables.append(Candidates(codes=codes, columns=columns, chunks=chunks, facts=facts))
    known = None if origin.collection is None else texts
    found = Pool(cases=(), tables=tuple(tables), relevance=tuple(relevance), texts=known, notes=origin.notes)
    return SavedPool(
        name=name,
        origin=origin,
        variants=found,
        ids=cells["id"],
        rows={key: row for row, key in enumerate(cells["fingerprint"])},
    )

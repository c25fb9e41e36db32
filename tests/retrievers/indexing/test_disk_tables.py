"""Chunks and vectors on disk behave as a list and a dictionary do."""

import sqlite3

import pytest

from retrievers.errors import IndexingError
from retrievers.indexing.disk_tables import DiskChunks, DiskMapping, disk_tables
from retrievers.records import Chunk

CHUNKS = [Chunk(chunk_id=str(n), point_id=str(n), text=f"text {n}") for n in range(2_500)]


def test_chunks_are_a_sequence() -> None:
    with disk_tables() as database:
        chunks = DiskChunks.of(database, iter(CHUNKS))
        assert (len(chunks), list(chunks)) == (len(CHUNKS), CHUNKS)
        assert (chunks[7], list(chunks[5:9])) == (CHUNKS[7], CHUNKS[5:9])
        some = chunks.at([3, 900, 2_000])
        assert (len(some), list(some), some[2]) == (3, [CHUNKS[3], CHUNKS[900], CHUNKS[2_000]], CHUNKS[2_000])


def test_a_mapping_is_a_dictionary() -> None:
    with disk_tables() as database:
        mapping, model = DiskMapping(database, "vectors"), dict[str, list[float]]()
        for table in (mapping, model):
            table.update({"a": [1.0], "b": [2.0]})
            table["c"] = [3.0]
            del table["a"]
        assert dict(mapping) == model and list(mapping.values()) == list(model.values())
        assert (len(mapping), list(mapping), "a" in mapping) == (2, ["b", "c"], False)
        with pytest.raises(KeyError):
            mapping["a"]


def test_a_full_disk_names_the_folder() -> None:
    with pytest.raises(IndexingError, match="database or disk is full; TMPDIR"), disk_tables():
        raise sqlite3.OperationalError("database or disk is full")

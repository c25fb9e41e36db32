"""A retrieval written and read: the same, private, and refused where it is not what was written."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from evals.collect.saved.reading import read_folder
from evals.collect.saved.retriever import EvidenceScope, SavedRetrieval, SavedVariant
from evals.collect.saved.writable import check_retrieval_folder
from evals.collect.saved.writing import write_folder
from retrievers.errors import ConfigError
from retrievers.records import Chunk, StageTimings
from retrievers.search.candidate_table import BY_QUERY
from retrievers.search.chunk_list import ChunkList
from retrievers.search.table_builder import joined, one_query

NOW = datetime(2026, 5, 4, 3, 2, 1, 123456, tzinfo=UTC)
CHUNKS = (
    Chunk(chunk_id="a", point_id="1", text="Wörter\n", tags=("x", "y"), chunk_index=0, sidebar_position=1.5),
    Chunk(chunk_id="b", point_id="2", text="", tags=(), problems=("tags: expected a list",)),
)
VECTOR = np.array([0.1, -2.5e-8], dtype=np.float32)
SCORES = np.array([0.1 + 0.2, np.nextafter(0.3, 0)])


def variant(chunks: ChunkList, mode: str, column: str) -> SavedVariant:
    codes = np.asarray([chunks.code(chunk) for chunk in CHUNKS], dtype=np.int32)
    timings = StageTimings(embed_ms=0.25, total_ms=1.5)
    columns = {column: np.array([np.nan, 0.5])}
    first = one_query(codes, SCORES, columns, chunks, scale="weighted", distance="dot")
    second = one_query(codes[:0], SCORES[:0], {}, chunks, scale="none")
    table = replace(
        joined([first, second], chunks),
        texts=("why?", "how?"),
        timings=(timings, StageTimings()),
        vectors=(VECTOR, None),
        no_cosine=("", "no vectors"),
        incomplete=("", "cut off"),
        caches=({"embedding": "hit"}, {}),
        retrieved_at=(NOW, None),
        ann_recall=({5: 0.8, 100: 0.1}, {}),
    )
    return SavedVariant(
        settings={"mode": mode},
        depth=10,
        label="QdrantRetriever",
        embedding="wordllama:tiny",
        notes=("a note",),
        ids=("q1", "q2"),
        table=table,
    )


def retrieval() -> SavedRetrieval:
    chunks = ChunkList()
    return SavedRetrieval(
        name="kept",
        saved_at="2026-05-04T03:02:01+00:00",
        variants=(variant(chunks, "semantic", "semantic"), variant(chunks, "keyword", "keyword")),
        chunks=chunks,
        listing=EvidenceScope(whole=False, pages=frozenset({"/a"}), ids=frozenset(), size=1),
        info=None,
        collection=None,
        versions={"python": "3.11"},
    )


def test_what_was_written_is_read_to_the_last_bit_and_only_its_owner_can(tmp_path: Path) -> None:
    written, folder = retrieval(), tmp_path / "kept"
    write_folder(folder, written)
    result = read_folder(folder)
    assert (result.name, result.saved_at, result.listing) == ("kept", written.saved_at, written.listing)
    assert [result.chunks[code] for code in range(len(result.chunks))] == list(CHUNKS)
    for before, after in zip(written.variants, result.variants, strict=True):
        assert replace(after, table=before.table) == before
        assert [tuple(found.chunks) for found in after.table] == [tuple(found.chunks) for found in before.table]
        for name in {*BY_QUERY} - {"vectors"}:
            assert getattr(after.table, name) == getattr(before.table, name)
        vectors = after.table.vectors
        assert vectors[1] is None and vectors[0] is not None and vectors[0].dtype == np.float32
        assert vectors[0].tolist() == VECTOR.tolist()
        assert (after.table.scales, after.table.offsets.tolist()) == (("weighted", "none"), [0, 2, 2])
        assert after.table.scores.tobytes() == before.table.scores.tobytes()
        assert after.table.columns.keys() == before.table.columns.keys()
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}
    assert [file.name for file in tmp_path.iterdir()] == ["kept"]


def test_a_saved_retrieval_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    for _ in range(2):
        check_retrieval_folder(folder)
        write_folder(folder, retrieval())
    assert [file.name for file in tmp_path.iterdir()] == ["kept"]
    (tmp_path / "diary.txt").touch()
    for other, found in ((tmp_path, "'diary.txt'"), (tmp_path / "diary.txt", "a file")):
        with pytest.raises(ConfigError, match=rf"--save-retrieval .*found {found}.*name another"):
            check_retrieval_folder(other)


def test_a_damaged_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    with pytest.raises(ConfigError, match=r"--from-retrieval .*found no manifest\.json"):
        read_folder(folder)
    write_folder(folder, retrieval())
    with (folder / "chunks.parquet").open("ab") as file:
        file.write(b"x")
    with pytest.raises(ConfigError, match=r"expected chunks\.parquet as it was written"):
        read_folder(folder)
    (folder / "manifest.json").write_text('{"schema_version": 9}')
    with pytest.raises(ConfigError, match="expected schema version 1, found 9; save it again"):
        read_folder(folder)

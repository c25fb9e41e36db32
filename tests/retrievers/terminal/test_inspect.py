"""A look at a collection, and its audit: made with one fault each, and as a real Qdrant 1.18.3 described it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from qdrant_client import models

from retrievers.__main__ import main
from retrievers.config import RetrieverConfig
from retrievers.store import MANIFEST_KEY, CollectionInfo
from retrievers.terminal.audit import CHECKS
from retrievers.terminal.inspect import Look
from tests.support.bm25 import bm25_of
from tests.support.command import call
from tests.support.qdrant_server import QdrantServer
from tests.support.recorded_server import RecordedServer

WORDS = "arm joint encoder motor gripper sensor torque camera lidar wheel planner map".split()
TEXTS = [f"The {a} of the robot reads the {b} and then moves the map at once." for a in WORDS for b in WORDS]


@pytest.fixture
def server() -> Iterator[QdrantServer]:
    with QdrantServer() as server:
        yield server


def fill(server: QdrantServer, texts: Sequence[str] = TEXTS[:60], average: float = 6.0) -> None:
    """Make collection `made` of vectors of two dimensions, and BM25 weights for chunks of an average length."""
    dense = models.VectorParams(size=2, distance=models.Distance.COSINE)
    sparse = {"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)}
    server.client.create_collection("made", dense, sparse_vectors_config=sparse)
    vectors: list[dict[str, Any]] = [{"": [1.0, i], "bm25": bm25_of(text, average)} for i, text in enumerate(texts)]
    points = [
        models.PointStruct(id=i, vector=vectors[i], payload={"page_content": text}) for i, text in enumerate(texts)
    ]
    server.client.upsert("made", points)


TEXT = "The arm has six joints, and each joint has an encoder of its own."
POINT = {"id": 1, "payload": {"page_content": TEXT, "metadata": {}}, "vector": [1.0, *[0.0] * 255]}
FLOATS = {"config": {"params": {"vectors": {"datatype": "float32"}}}}
DENSE = {"config": {"params": {"vectors": {"size": 256, "distance": "Cosine"}}}}


def audit(capsys: pytest.CaptureFixture[str], *flags: object) -> dict[str, str]:
    """Return the faults by the name of the check, empty for none."""
    done = call(main, ["inspect", *flags], capsys)
    assert (done.code, done.err) == (0, "")
    lines = done.out.partition("\nChecked on ")[2].splitlines()[1:]
    return {name: fault for line in lines for name, _, fault in [line[8:].partition(": ")]}


@pytest.mark.parametrize(
    ("made", "check", "seen"),
    [
        ({"texts": [*TEXTS[:58], "", " "]}, "empty texts", "2 of 60 chunks have no text"),
        ({"texts": [*TEXTS[:50], *(f"Go on {i}" for i in range(10))]}, "tiny texts", "10 of 60 chunks have fewer than"),
        ({"texts": [*TEXTS[:55], *TEXTS[:5]]}, "duplicate texts", "5 of 60 texts repeat another"),
        ({"average": 256.0}, "average length of BM25", "weights were made for 256 terms a chunk, chunks have"),
        ({}, "embedding model", "it was embedded by another model: wordllama:l2_supercat_256 makes 256 dimensions"),
    ],
)
def test_a_fault_of_what_is_stored_is_found(
    made: dict[str, Any], check: str, seen: str, server: QdrantServer, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(server, **made)
    audited = audit(capsys, "--store.url", server.url, "--collection", "made")
    assert audited.keys() == CHECKS.keys() and len(CHECKS) == 10
    assert audited[check].startswith(seen)
    assert [name for name, fault in audited.items() if fault and name != "embedding model"] == [check] * bool(made)


@pytest.mark.parametrize("allowed", [None, 100], ids=["a server", "under strict mode"])
def test_a_fault_of_late_points_is_seen_in_a_big_collection(
    allowed: int | None, server: QdrantServer, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [f"{TEXTS[i % len(TEXTS)]} {i}" for i in range(1_000)]
    fill(server, [*texts, *[""] * 1_000])
    server.rules.strict = {"enabled": True, "max_query_limit": allowed} if allowed else None
    fault = audit(capsys, "--store.url", server.url, "--collection", "made")["empty texts"]
    [empty, read] = re.findall(r"\d+", fault)[:2]
    assert int(read) == (allowed or 256)
    assert 0.35 < int(empty) / int(read) < 0.65


@pytest.mark.parametrize(
    ("server", "flags", "check", "seen"),
    [
        ({"info": "info-quantized-unindexed", "changed": {"points_count": 4_000_000, **FLOATS}}, [],
         "vector index", "no index of 62,500 KB of vectors, so that every search reads them all (indexing_threshold"),
        ({"info": "info-big", "changed": {"config": {"hnsw_config": {"m": 0}}}}, [],
         "vector index", "no index of 50,613 KB of vectors, so that every search reads them all (m is 0)"),
        ({"info": "info-big", "changed": {"status": "yellow"}}, [], "optimiser", "it is at work"),
        ({"info": "info-big", "changed": {"status": "grey"}}, [], "optimiser", "it waits for the next write"),
        ({"info": "info-big", "changed": {"status": "red", "optimizer_status": {"error": "no space left"}}}, [],
         "optimiser", "it failed (no space left)"),
        ({"info": "info-q_bq"}, [], "quantisation", ""),
        ({"info": "info-q_bq"}, ["--search-params", "{quantization: {rescore: false}}"],
         "quantisation", "binary scores are not rescored"),
        ({"info": "info-quantized-unindexed", "changed": {"points_count": 9, **FLOATS}}, [],
         "quantisation", "scalar scores are not rescored"),
        ({"info": "info-quantized-unindexed", "changed": {"points_count": 9, **FLOATS}},
         ["--search-params", "{quantization: {rescore: true}}"], "quantisation", ""),
        ({"info": "info-handbook"}, ["--embedding.provider", "cohere"],
         "embedding model", "it was embedded by wordllama:l2_supercat_256, but the query would be embedded by cohere"),
        ({"info": "info-q_bq", "changed": {"points_count": 9}}, [], "embedding model", "it was embedded by another"),
        ({"info": "info-sparse-without-idf", "changed": {"points_count": 9, **DENSE}}, [],
         "IDF of BM25", "sparse vector 'bm25' has no IDF modifier"),
        ({"info": "info-q_bq"}, ["--filters", "module = robotics"],
         "index of filtered fields", "none on metadata.module, so that every payload is read"),
        ({"info": "info-strict"}, ["--group-by", "end_line"],
         "index of filtered fields", "none on metadata.end_line"),
    ],
)  # fmt: skip
def test_a_fault_of_a_collection_is_found(
    server: dict[str, Any], flags: list[str], check: str, seen: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with RecordedServer(points=[POINT], **server) as double:
        fault = audit(capsys, "--store.url", double.url, "--collection", "handbook", *flags)[check]
    assert fault.startswith(seen) and bool(fault) == bool(seen)
    reading = ("/scroll", "/count", "/query")
    assert all(
        request.method == "GET" or request.path.endswith(reading) or "ids" in request.body
        for request in double.requests
    )


def test_the_handbook_is_sound(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "arm.md").write_text(
        "# Arm\n\n" + "\n\n".join(f"## Part {i}\n\n{text}" for i, text in enumerate(TEXTS[:9]))
    )
    store = ["--store.path", tmp_path / "store", "--collection", "pages"]
    assert call(main, ["index", pages, *store], capsys).code == 0
    assert set(audit(capsys, *store).values()) == {""}


def test_an_experiment_begins_in_hybrid_mode_where_there_is_a_keyword_side(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "arm.md").write_text(f"# Arm\n\n{TEXT}\n")
    store = ["--store.path", tmp_path / "store", "--collection", "pages"]
    assert call(main, ["index", tmp_path / "pages", *store], capsys).code == 0
    for flags, mode in (([], "hybrid"), (["--mode", "semantic"], None), (["--mode", "keyword"], "keyword")):
        file = tmp_path / f"{mode}.yaml"
        assert call(main, ["inspect", *store, *flags, "--write", file], capsys).code == 0
        assert yaml.safe_load(file.read_text())["retriever"].get("mode") == mode


# As text


INFO = CollectionInfo(
    name="pages", points=12_345, dimension=2, distance="cosine", vectors={"": 2}, sparse_vectors=(), manifest={}
)


def shown(info: CollectionInfo, *payloads: dict[str, Any]) -> str:
    return Look(config=RetrieverConfig(), info=info, payloads=payloads, health={}).text()


def test_points_that_are_gone_are_shown() -> None:
    manifest = {"state": "complete", "points": 12_500}
    assert "Points       12,345 of the 12,500 that were indexed" in shown(replace(INFO, manifest=manifest))
    unfinished = {**manifest, "state": "indexing"}
    assert "indexed" not in shown(replace(INFO, manifest=unfinished))


def test_a_collection_reads_as_size_vectors_and_model() -> None:
    model = {"provider": "cohere", "model": "embed-english-v3.0"}
    manifest = {"embedding": model, "index": {"context": "path"}, "state": "complete"}
    lines = shown(replace(INFO, manifest=manifest, sparse_vectors=("bm25",))).splitlines()
    assert lines[:7] == [
        "Collection   pages",
        "Points       12,345",
        "Vectors      (unnamed): 2; distance cosine",
        "Sparse       bm25",
        "Embedded by  cohere:embed-english-v3.0",
        "Index        context path, splitter sections, max_tokens 256, overlap 0, merge_small false",
        "State        complete",
    ]
    assert MANIFEST_KEY not in "".join(lines)


def test_the_proposed_setting_can_be_pasted_into_a_file() -> None:
    text = shown(INFO, {"body": "some text", "href": "/a", "title": "A"})
    start = text.index("retriever:")
    proposed = yaml.safe_load(text[start : text.index("\n\n", start)])["retriever"]
    assert proposed == {"metadata": {"text_key": "body", "nested_under": "", "map": {"source_url": "href"}}}
    assert RetrieverConfig.model_validate(proposed).metadata.map == {"source_url": "href"}
    assert "Found under their own names: title\nNot found: chunk_id, section_path" in text

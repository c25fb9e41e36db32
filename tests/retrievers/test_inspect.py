"""A look at a collection, and its audit: made with one fault each, and as a real Qdrant 1.18.3 described it."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from qdrant_client import models
from syrupy.assertion import SnapshotAssertion

from retrievers.embedding.bm25 import Bm25Encoder
from retrievers.embedding.models import StaticEmbeddings
from retrievers.terminal.commands import main
from retrievers.terminal.inspect import CHECKS
from tests.support.collections import IDF, fill
from tests.support.command import call
from tests.support.hybrid import fill_sparse
from tests.support.indexing import write_pages
from tests.support.qdrant_server import QdrantServer, RecordedServer

Captured = pytest.CaptureFixture[str]
WORDS = "arm joint encoder motor gripper sensor torque camera lidar wheel planner map".split()
TEXTS = [f"The {a} of the robot reads the {b} and then moves the map at once." for a in WORDS for b in WORDS]
TEXT = "The arm has six joints, and each joint has an encoder of its own."
POINT = {"id": 1, "payload": {"page_content": TEXT, "metadata": {}}, "vector": [1.0, *[0.0] * 255]}


def made(server: QdrantServer, texts: Sequence[str] = TEXTS[:60], average: float = 6.0) -> list[str]:
    """Make a collection of texts with BM25 weights for an average length; return the flags that name it."""
    rows = [([1.0, number], text, dict[str, Any]()) for number, text in enumerate(texts)]
    fill_sparse(server.client, "made", rows, Bm25Encoder("english", average))
    return ["--store.url", server.url, "--collection", "made"]


def seen(capsys: Captured, *flags: object) -> str:
    done = call(main, ["inspect", *flags], capsys)
    assert (done.code, done.err) == (0, "")
    return done.out


def audit(capsys: Captured, *flags: object) -> dict[str, str]:
    """Return the faults by the name of the check, empty for none."""
    lines = seen(capsys, *flags).partition("\nChecked on ")[2].splitlines()[1:]
    return {line[8:].partition(": ")[0]: line.partition(": ")[2] for line in lines if line.startswith("  ")}


@pytest.mark.parametrize(
    ("parts", "check"),
    [
        ({"texts": [*TEXTS[:58], "", " "]}, "empty texts"),
        ({"texts": [*TEXTS[:50], *(f"Go on {i}" for i in range(10))]}, "tiny texts"),
        ({"texts": [*TEXTS[:55], *TEXTS[:5]]}, "duplicate texts"),
        ({"average": 256.0}, "average length of BM25"),
        ({}, None),
        ({"average": 2.0}, "average length of BM25"),
        ({"texts": [*TEXTS[:57], *(f"Go on {i}" for i in range(3))]}, None),
        ({"texts": [f"{text} {text}" for text in TEXTS], "average": 12.0}, None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_fault_of_what_is_stored_is_found(
    parts: Any, check: str | None, server: QdrantServer, capsys: Captured, snapshot: SnapshotAssertion
) -> None:
    audited = audit(capsys, *made(server, **parts))
    assert audited.keys() == CHECKS.keys() and len(CHECKS) == 13
    found = {name: fault for name, fault in audited.items() if fault}
    assert found == snapshot and found.keys() == {"embedding model", check or "embedding model"}


def test_a_fault_of_late_points_is_seen(server: QdrantServer, capsys: Captured) -> None:
    where = made(server, [*(f"{TEXTS[i % len(TEXTS)]} {i}" for i in range(1_000)), *[""] * 1_000])
    shown = seen(capsys, *where)
    assert "\nPoints       2,000\n" in shown
    [empty, read] = re.findall(r"empty texts: (\d+) of (\d+)", shown)[0]
    assert int(read) == 256
    # Half of them are empty, none of the first 256.
    assert 0.2 < int(empty) / int(read) < 0.8


def params(**vectors: Any) -> dict[str, Any]:
    return {"points_count": 9, "config": {"params": {"vectors": vectors}}}


UNINDEXED, QUANTISED, BIG = "info-quantized-unindexed", "info-q_bq", "info-big"
FLOATS, MANY = params(datatype="float32"), params(datatype="float32") | {"points_count": 4_000_000}
FAILED = {"status": "red", "optimizer_status": {"error": "no space left"}}


@pytest.mark.parametrize(
    ("info", "changed", "flags", "check"),
    [
        (UNINDEXED, MANY, [], "vector index"),
        (BIG, {"config": {"hnsw_config": {"m": 0}}}, [], "vector index"),
        (BIG, {"status": "yellow"}, [], "optimiser"),
        (BIG, {"status": "grey"}, [], "optimiser"),
        (BIG, FAILED, [], "optimiser"),
        (QUANTISED, {}, [], "quantisation"),
        (QUANTISED, {}, ["--search-params", "{quantization: {rescore: false}}"], "quantisation"),
        (UNINDEXED, FLOATS, [], "quantisation"),
        (UNINDEXED, FLOATS, ["--search-params", "{quantization: {rescore: true}}"], "quantisation"),
        ("info-handbook", {}, ["--embedding.model", "cohere:embed-english-v3.0"], "embedding model"),
        (QUANTISED, {"points_count": 9}, [], "embedding model"),
        ("info-sparse-without-idf", params(size=256, distance="Cosine"), [], "IDF of BM25"),
        (QUANTISED, {}, ["--filters", "module = robotics"], "index of filtered fields"),
        (QUANTISED, {}, ["--filters", "lang = en and metadata.lang = de"], "index of filtered fields"),
        ("info-strict", {}, ["--group-by", "end_line"], "index of filtered fields"),
    ],
)
def test_a_fault_of_a_collection_is_found(
    info: str, changed: Any, flags: Any, check: str, capsys: Captured, snapshot: SnapshotAssertion
) -> None:
    with RecordedServer(info, [POINT], changed) as double:
        audited = audit(capsys, "--store.url", double.url, "--collection", "handbook", *flags)
    assert f"{check}: {audited[check] or 'sound'}" == snapshot
    reading = ("/scroll", "/count", "/query")
    assert all(r.method == "GET" or r.path.endswith(reading) or "ids" in r.body for r in double.requests)


def test_what_was_indexed_is_sound_and_searched(tmp_path: Path, capsys: Captured, snapshot: SnapshotAssertion) -> None:
    page = "# Arm\n\n" + "\n\n".join(f"## Part {i}\n\n{text}" for i, text in enumerate(TEXTS[:9]))
    pages = write_pages(tmp_path / "pages", {"arm.md": page})
    store = ["--store.path", tmp_path / "store", "--collection", "pages"]
    assert call(main, ["index", pages, *store], capsys).code == 0
    assert set(audit(capsys, *store).values()) == {""} and seen(capsys, *store).partition("\n\n")[0] == snapshot
    for flags, mode in (([], "hybrid"), (["--mode", "semantic"], None), (["--mode", "keyword"], "keyword")):
        file = tmp_path / f"in {mode} mode.yaml"
        write = ["inspect", *store, *flags, "--top-k", "7", "--write", file]
        done = call(main, write, capsys)
        assert done.code == 0 and shlex.split(done.out.rpartition("Next: ")[2])[5] == f"{file}"
        written = file.read_text()
        assert yaml.safe_load(written)["retriever"].get("mode") == mode
        assert "exists already" in call(main, write, capsys).err and file.read_text() == written
    assert yaml.safe_load(written).keys() == {"name", "retriever", "dataset"}
    assert yaml.safe_load(written)["retriever"].keys() == {"store", "collection", "mode", "top_k"}
    assert "top_k 7" in call(main, ["search", "the arm reads", "--config", file], capsys).out


# Collections that other programs made: flat payloads, sparse vectors of any name, other distances

JOINTS = [f"Joint number {i} of the robot reads encoder {i} and moves at once." for i in range(9)]


def theirs(server: QdrantServer, distance: models.Distance = models.Distance.COSINE, **payload: Any) -> list[Any]:
    """Make a collection of vectors of the packaged model, and sparse ones by a function of the text."""
    name, sparse = payload.pop("name", ""), payload.pop("sparse", None)
    vectors: list[Any] = [{name: vector} for vector in StaticEmbeddings().embed_documents(JOINTS)]
    if sparse:
        vectors = [one | {"langchain-sparse": sparse(text)} for one, text in zip(vectors, JOINTS, strict=True)]
    payloads = [{key: text if value == "TEXT" else value for key, value in payload.items()} for text in JOINTS]
    params, terms = {name: models.VectorParams(size=256, distance=distance)}, {"langchain-sparse": IDF}
    fill(server.client, "theirs", vectors, payloads, params=params, sparse=terms if sparse else None)
    return ["--store.url", server.url, "--collection", "theirs"]


LANGCHAIN: dict[str, Any] = {"page_content": "TEXT", "metadata": {}}
THEIRS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "keys of its own": ({"text": "TEXT", "url": "/a"}, []),
    "a vector of any name": ({"name": "text-dense", "content": "TEXT", "meta": {"title": "b"}}, []),
    "a mapping is given": (
        {"page_content": "TEXT", "metadata": {"headline": "A", "part": "b"}},
        ["--metadata.map", "{title: headline, module: part}"],
    ),
    "a mapping is given, and the text has a key of its own": (
        {"body": "TEXT", "url": "/a", "headline": "A"},
        ["--metadata.map", "{title: headline}"],
    ),
    "a wrong key is named": ({"text": "TEXT", "url": "/a"}, ["--metadata.text-key", "body"]),
    "BM25 under another name": (LANGCHAIN | {"sparse": Bm25Encoder(average_length=500.0).document}, []),
    "no sparse vector": (LANGCHAIN, []),
    "a sparse vector that is not of BM25": (
        LANGCHAIN | {"sparse": lambda text: models.SparseVector(indices=[1, 2], values=[0.5, 1.5])},
        [],
    ),
}


@pytest.mark.parametrize(("parts", "flags"), THEIRS.values(), ids=THEIRS)
def test_what_another_program_made_is_audited_as_it_is_and_searched_as_it_can_be(
    parts: Any, flags: list[str], server: QdrantServer, tmp_path: Path, capsys: Captured, snapshot: SnapshotAssertion
) -> None:
    shown = seen(capsys, *theirs(server, **parts), *flags, "--write", tmp_path / "theirs.yaml")
    written = yaml.safe_load((tmp_path / "theirs.yaml").read_text())["retriever"]
    assert shown.replace(str(tmp_path), "FOLDER") == snapshot(name="shown")
    assert written.pop("store") == {"url": server.url} and written == snapshot(name="written")


def test_points_that_differ_are_read_as_most_of_them_are_and_their_faults_told(
    server: QdrantServer, capsys: Captured, snapshot: SnapshotAssertion
) -> None:
    vectors = [{"a": vector} for vector in StaticEmbeddings().embed_documents(JOINTS)]
    own = {"id": "a.md", "source": {"url": "/a"}, "href": "/a", "index": "1", "path": "a.md", "tags": "b"}
    payloads = [{"text": text, **own} for text in JOINTS[1:]]
    payloads.append({"page_content": JOINTS[0], "metadata": {"title": "A"}})
    params = {"a": models.VectorParams(size=256, distance=models.Distance.COSINE)}
    fill(server.client, "theirs", [*vectors[1:], {}], payloads, params=params)
    where = ["--store.url", server.url, "--collection", "theirs"]
    shown = seen(capsys, *where).partition("\nProposed")[2]
    assert shown == snapshot
    ids = audit(capsys, *where, "--metadata.map", "{chunk_id: id}")["chunk ids"]
    assert ids.startswith("7 of 9 repeat another, and count as one, such as 'a.md' (8 times); leave metadata.map.chun")


def test_a_distance_that_no_search_takes_is_a_fault(server: QdrantServer, capsys: Captured) -> None:
    shown = seen(capsys, *theirs(server, models.Distance.EUCLID, **LANGCHAIN))
    assert "\n  FAULT distance: it has the distance euclid, which is no cosine" in shown

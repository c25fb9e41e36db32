"""The embedded store: whole or as it was, unchanged by readers, searched as local mode searches."""

import asyncio
import itertools
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_qdrant import QdrantVectorStore, RetrievalMode
from qdrant_client import QdrantClient, models

from retrievers.errors import CollectionNotFoundError, StoreError
from retrievers.store import building
from retrievers.store.building import check_room
from retrievers.store.embedded import EmbeddedClient
from tests.support import edge_world as world
from tests.support.collections import WritableClient
from tests.support.edge_world import Ranking, assert_same, top
from tests.support.foreign import Terms
from tests.support.indexing import DIMENSION, HashEmbeddings

NAME = "pages"
TEXTS = ["robots walk", "robots see", "hands grasp", "wheels roll"]
DENSE = models.VectorParams(size=DIMENSION, distance=models.Distance.COSINE)
IDF = models.SparseVectorParams(modifier=models.Modifier.IDF)
SPARSE = {"langchain-sparse": IDF}


def points() -> list[models.PointStruct]:
    made = []
    for number, text in enumerate(TEXTS):
        sparse = models.SparseVector(indices=[number], values=[1])
        payload = {"page_content": text, "metadata": {"n": number, "robot": "robot" in text}}
        vectors: dict[str, Any] = {"": HashEmbeddings().embed_query(text), "langchain-sparse": sparse}
        made.append(models.PointStruct(id=number, vector=vectors, payload=payload))
    return made


@pytest.fixture
def client(tmp_path: Path) -> Any:
    made = WritableClient(tmp_path / "store", create=True)
    made.create_collection(NAME, DENSE, SPARSE, metadata={"made": "here"})
    made.upsert(NAME, points())
    yield made
    made.close()


def files(folder: Path) -> Mapping[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


def test_reading_changes_no_byte(client: WritableClient) -> None:
    before = files(client.path)
    with closing(EmbeddedClient(client.path)) as reader:
        assert reader.count(NAME).count == 4
        reader.scroll(NAME, with_vectors=True)
        reader.retrieve(NAME, [0, 1], with_vectors=True)
        reader.query_points(NAME, HashEmbeddings().embed_query("robots"), limit=4)
        reader.get_collection(NAME)
        reader.get_collections()
    assert files(client.path) == before


def test_a_build_that_fails_leaves_the_collection_as_it_was(client: WritableClient) -> None:
    before = files(client.path)
    with pytest.raises(StoreError, match="expected dim: 8, got 7"):
        client.upsert(NAME, [models.PointStruct(id=7, vector=[1.0] * 7)])
    with pytest.raises(KeyError), client.building(NAME, vectors=DENSE, sparse=SPARSE) as build:
        build.upsert(points()[:1])
        raise KeyError
    assert files(client.path) == before
    assert client.count(NAME).count == 4
    with pytest.raises(KeyError), client.building("new", vectors=DENSE):
        raise KeyError
    assert not client.collection_exists("new")


def test_a_reader_sees_a_new_build_at_its_next_call(client: WritableClient) -> None:
    with closing(EmbeddedClient(client.path)) as reader:
        generation = reader.generation(NAME)
        with client.building(NAME, vectors={"": DENSE}, sparse=SPARSE) as build:
            build.upsert(points()[:3])
            assert reader.count(NAME).count == 4
            assert reader.generation(NAME) == generation
        assert reader.count(NAME).count == 3
        assert reader.generation(NAME) != generation


@pytest.mark.parametrize("stage", ["between the renames", "after them", "before them"])
def test_what_a_killed_build_left_is_read_and_cleared_away(client: WritableClient, stage: str) -> None:
    """At every moment between the renames there is one whole collection."""
    folder = client.path / "collections" / NAME
    new, old = (folder.with_name(f".{NAME}.{part}") for part in ("new", "old"))
    shutil.copytree(folder, new if stage != "after them" else old)
    if stage == "between the renames":
        folder.rename(old)
    with closing(EmbeddedClient(client.path)) as reader:
        assert reader.count(NAME).count == 4
        assert [c.name for c in reader.get_collections().collections] == [NAME]
    client.upsert(NAME, [points()[0].model_copy(update={"id": 9})])
    assert client.count(NAME).count == 5
    assert [entry.name for entry in folder.parent.iterdir()] == [NAME]


@pytest.mark.slow
def test_whole_or_as_it_was_after_200_kills(on_disk: Path) -> None:
    command = [sys.executable, "-m", "tests.support.edge_crash", str(on_disk / "store"), "200", "7"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    *trials, last = map(json.loads, done.stdout.splitlines())
    assert len(trials) == 200
    assert all(trial["whole"] and trial["found"] in (trial["before"], trial["tried"]) for trial in trials)
    assert {trial["found"] == trial["tried"] for trial in trials} == {True, False}
    assert last == [201, True]
    assert [entry.name for entry in (on_disk / "store" / "collections").iterdir()] == ["pages"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ulimit -v")
@pytest.mark.parametrize("limit", [250_000, 400_000, 500_000, 600_000, 750_000, 900_000])
def test_a_search_short_of_memory_damages_nothing(client: WritableClient, limit: int) -> None:
    client.create_payload_index(NAME, "metadata.n", "integer")
    before = files(client.path)
    code = (
        "import sys; from pathlib import Path; from retrievers.store.embedded import EmbeddedClient; "
        f"client = EmbeddedClient(Path({str(client.path)!r})); print(client.count({NAME!r}).count)"
    )
    command = ["bash", "-c", f"ulimit -v {limit}; OPENBLAS_NUM_THREADS=1 exec {sys.executable} -c {code!r}"]
    try:
        subprocess.run(command, capture_output=True, check=False, timeout=60)
    finally:
        assert files(client.path) == before
        assert client.count(NAME).count == 4


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("shorter", "its files have other sizes"),
        ("gone", "its files have other sizes"),
        ("more", "its files have other sizes"),
        ("no record", "Expecting property name"),
        ("other engine", r"or are of qdrant-edge 0\.1"),
        ("points", "expected 7 points, found 4"),
    ],
)
def test_a_damaged_collection_is_to_be_indexed_again(client: WritableClient, how: str, said: str) -> None:
    client.close()
    folder = client.path / "collections" / NAME
    record = folder / "collection.json"
    content = json.loads(record.read_text())
    file = folder / "shard" / max(content["files"], key=lambda name: (content["files"][name], name))
    if how == "shorter":
        with file.open("r+b") as opened:
            opened.truncate(file.stat().st_size // 2)
    elif how == "gone":
        file.unlink()
    elif how == "more":
        (folder / "shard" / "more").write_bytes(b"x")
    elif how == "no record":
        record.write_text("{")
    else:
        other = {"engine": "0.1"} if how == "other engine" else {"info": content["info"] | {"points_count": 7}}
        record.write_text(json.dumps(content | other))
    with closing(WritableClient(client.path)) as reader:
        with pytest.raises(CollectionNotFoundError, match=rf"is not as it was written \(.*{said}.*\); index the pages"):
            reader.count(NAME)
        with reader.building(NAME, vectors=DENSE, sparse=SPARSE) as build:
            build.upsert(points())
        assert reader.count(NAME).count == 4


def test_too_little_room_is_refused_before(client: WritableClient, monkeypatch: pytest.MonkeyPatch) -> None:
    check_room(client.path, NAME, 1_000)
    monkeypatch.setattr(building.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 8, 10**6))  # type: ignore[attr-defined]
    with pytest.raises(StoreError, match=r"has 1 MB free, .*'pages' may take 203 MB; .*nothing was changed"):
        check_room(client.path, NAME, 1_000_000)


def test_a_folder_that_cannot_be_written_says_what_to_do(
    client: WritableClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: Path) -> None:
        raise RuntimeError("failed to load segment: Read-only file system (os error 30)")

    monkeypatch.setattr(building, "opened", fails)
    with (
        closing(WritableClient(client.path)) as reader,
        pytest.raises(StoreError, match=r"30\); .* must be writable, too"),
    ):
        reader.count(NAME)


def test_what_is_not_there_and_what_cannot_be_asked(client: WritableClient, tmp_path: Path) -> None:
    with pytest.raises(CollectionNotFoundError, match=r"no collection 'page' at .*; did you mean 'pages'"):
        client.count("page")
    with pytest.raises(StoreError, match="no embedded store"):
        EmbeddedClient(tmp_path / "gone")
    with pytest.raises(StoreError, match="a query of type RecommendQuery"):
        client.query_points(NAME, models.RecommendQuery(recommend=models.RecommendInput(positive=[1])))
    with pytest.raises(StoreError, match="filter condition MatchText"):
        text = models.FieldCondition(key="page_content", match=models.MatchText(text="robots"))
        client.count(NAME, models.Filter(must=[text]))


def test_any_name_is_a_folder_of_its_own(client: WritableClient) -> None:
    names = ["a/b", ".hidden", "x.new", "ä ö", "%2E", "..", "CON"]
    for name in names:
        client.create_collection(name, DENSE)
        assert client.count(name).count == 0
    assert {each.name for each in client.get_collections().collections} == {NAME, *names}


def test_threads_share_a_client_while_it_is_built_anew(client: WritableClient) -> None:
    with closing(EmbeddedClient(client.path)) as reader, ThreadPoolExecutor(8) as pool:
        vector = HashEmbeddings().embed_query("robots walk")
        searches = [pool.submit(reader.query_points, NAME, vector, limit=1) for _ in range(200)]
        for _ in range(3):
            client.upsert(NAME, points())
        searches += [pool.submit(reader.query_points, NAME, vector, limit=1) for _ in range(200)]
        assert {found.result().points[0].id for found in searches} == {0}


# langchain-qdrant


def filled(client: Any, mode: RetrievalMode) -> QdrantVectorStore:
    sparse = None if mode == RetrievalMode.DENSE else Terms()
    return QdrantVectorStore(client, NAME, embedding=HashEmbeddings(), retrieval_mode=mode, sparse_embedding=sparse)


def test_langchain_qdrant_finds_what_it_finds_in_local_mode(client: WritableClient) -> None:
    """Its own fusion depends on k, and the engine's on chance where scores are equal: compared as scores."""
    some = models.Filter(must=[models.FieldCondition(key="metadata.n", range=models.Range(gte=1))])
    with closing(QdrantClient(":memory:")) as local:
        local.create_collection(NAME, DENSE, sparse_vectors_config=SPARSE)
        local.upsert(NAME, points())
        ours, theirs = (filled(each, RetrievalMode.DENSE) for each in (client, local))
        for options in ({"k": 4}, {"k": 2, "filter": some}, {"k": 4, "score_threshold": 0.6}, {"k": 2, "offset": 1}):
            found = ours.similarity_search_with_score("robots see", **options)
            expected = theirs.similarity_search_with_score("robots see", **options)
            assert [document for document, _ in found] == [document for document, _ in expected]
            assert [score for _, score in found] == pytest.approx([score for _, score in expected], abs=1e-6)
        assert [d.page_content for d in ours.get_by_ids([0, 2])] == [TEXTS[0], TEXTS[2]]
        assert asyncio.run(ours.asimilarity_search("arms lift", k=1)) == theirs.similarity_search("arms lift", k=1)
        for query in ("robots", "topic hands"):
            hybrid = (filled(each, RetrievalMode.HYBRID) for each in (client, local))
            found, expected = (store.similarity_search_with_score(query, k=4) for store in hybrid)
            assert [score for _, score in found] == pytest.approx([score for _, score in expected], abs=1e-6)


def test_one_builds_while_others_read(client: WritableClient) -> None:
    with closing(EmbeddedClient(client.path)) as other, client.building("other", vectors=DENSE):
        assert other.count(NAME).count == 4
        with pytest.raises(StoreError, match="is being written to by another"), other.building(NAME, vectors=DENSE):
            raise AssertionError("built")
    assert client.collection_exists("other")


# Random collections and searches: the embedded store and local mode of qdrant-client agree

FAST, SLOW = range(2), range(2, 60)


@pytest.mark.parametrize("seed", [*FAST, *(pytest.param(seed, marks=pytest.mark.slow) for seed in SLOW)])
def test_same_answers(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    distance, name = (models.Distance.COSINE, models.Distance.DOT)[seed % 2], rng.choice(("", "dense"))
    place, params = tmp_path / "store", models.VectorParams(size=world.SIZE, distance=distance)
    with closing(WritableClient(place, create=True)) as edge, closing(QdrantClient(":memory:")) as local:
        for client in (edge, local):
            client.create_collection(NAME, {name: params} if name else params, sparse_vectors_config={"bm25": IDF})
        for edit in history(rng, name, edge, local):
            assert_same_answers(rng, name, edge, local, f"seed {seed}, after {edit}")
        edge.close()
        with closing(EmbeddedClient(place)) as reopened:
            assert_same_answers(rng, name, reopened, local, f"seed {seed}, reopened")


def history(rng: random.Random, name: str, edge: WritableClient, local: QdrantClient) -> Iterator[str]:
    """Changes made to both; of the embedded collection each is a build."""
    for field, schema in world.INDEXES.items():
        if rng.random() < 0.4:
            edge.create_payload_index(NAME, field, models.PayloadSchemaType(schema))
    for count in (rng.randint(20, 40), rng.randint(1, 8)):
        added = [world.point(rng, name) for _ in range(count)]
        for client in (edge, local):
            client.upsert(NAME, added)
        yield f"an upsert of {count}"
    ids: list[Any] = [world.point_id(rng) for _ in range(rng.randint(1, 10))]
    for client in (edge, local):
        client.delete(NAME, ids)
    yield "a delete"


def assert_same_answers(rng: random.Random, name: str, edge: Any, local: Any, what: str) -> None:
    for _ in range(12):
        given = world.a_filter(rng) if rng.random() < 0.7 else None
        query: Any = world.dense(rng) if rng.random() < 0.5 else world.sparse(rng, 4)
        using = "bm25" if isinstance(query, models.SparseVector) else name
        options: dict[str, Any] = {"using": using, "query_filter": given}
        if rng.random() < 0.4:
            options["score_threshold"] = between(rng, ranking(local, query, options, 1_000))
        count = rng.randint(1, 12)
        found, expected = (top(partial(ranking, client, query, options), count) for client in (edge, local))
        assert_same(found, expected, f"{what}: {query}, {options}")
    given = world.a_filter(rng) if rng.random() < 0.8 else None
    assert edge.count(NAME, given).count == local.count(NAME, given).count
    page = rng.randint(1, 15)
    assert [*pages(edge, given, page)] == [*pages(local, given, page)]
    ids = [world.point_id(rng) for _ in range(6)]
    ours, theirs = (client.retrieve(NAME, ids, with_vectors=True) for client in (edge, local))
    assert [*map(plain, ours)] == [*map(plain, theirs)]


def ranking(client: Any, query: Any, options: dict[str, Any], limit: int) -> Ranking:
    return [(point.id, point.score) for point in client.query_points(NAME, query, limit=limit, **options).points]


def between(rng: random.Random, ranking: Ranking) -> float | None:
    """A threshold in a gap between two scores, so that no rounding decides."""
    scores = [score for _, score in ranking]
    gaps = [(a + b) / 2 for a, b in itertools.pairwise(scores) if abs(a - b) > 1e-3]
    return rng.choice(gaps) if gaps else None


def pages(client: Any, given: Any, size: int) -> Iterator[Any]:
    """Yield all records that a filter lets pass, page by page."""
    offset: Any = None
    while True:
        records, offset = client.scroll(NAME, given, limit=size, offset=offset, with_vectors=True)
        yield from map(plain, records)
        if offset is None:
            return


def plain(record: models.Record) -> Any:
    """A record to compare: vectors rounded, sparse ones by term."""
    vectors: Any = record.vector if isinstance(record.vector, dict) else {"": record.vector}
    rounded = {
        name: sorted(zip(vector.indices, vector.values, strict=True))
        if isinstance(vector, models.SparseVector)
        else [round(value, 5) + 0.0 for value in vector]
        for name, vector in vectors.items()
    }
    return record.id, record.payload, rounded

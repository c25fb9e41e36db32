"""The embedded store: whole or as it was, unchanged by readers, searched as local mode searches."""

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_qdrant import QdrantVectorStore, RetrievalMode
from qdrant_client import QdrantClient, models

from retrievers.errors import CollectionNotFoundError, StoreError
from retrievers.store import building
from retrievers.store.building import check_room
from retrievers.store.embedded import EmbeddedClient
from tests.support.collections import IDF
from tests.support.foreign import Terms
from tests.support.indexing import DIMENSION, HashEmbeddings

NAME = "pages"
TEXTS = ["robots walk", "robots see", "hands grasp", "wheels roll"]
DENSE = models.VectorParams(size=DIMENSION, distance=models.Distance.COSINE)
SPARSE = {"langchain-sparse": IDF}
embed = HashEmbeddings().embed_query
POINTS = [
    models.PointStruct(
        id=number,
        vector={"": embed(text), "langchain-sparse": models.SparseVector(indices=[number], values=[1])},
        payload={"page_content": text, "metadata": {"n": number, "robot": "robot" in text}},
    )
    for number, text in enumerate(TEXTS)
]


def build(client: EmbeddedClient, points: Sequence[models.PointStruct], name: str = NAME, **parts: Any) -> None:
    with client.building(name, vectors=DENSE, sparse=SPARSE, **parts) as upsert:
        upsert(points)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[EmbeddedClient]:
    with closing(EmbeddedClient(tmp_path / "store", create=True)) as made:
        build(made, POINTS, metadata={"made": "here"}, indexes={"metadata.n": "integer"})
        yield made


def files(folder: Path) -> Mapping[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


def test_reading_changes_no_byte(client: EmbeddedClient) -> None:
    before = files(client.path)
    with closing(EmbeddedClient(client.path)) as reader:
        assert reader.count(NAME).count == 4
        reader.scroll(NAME, with_vectors=True)
        reader.retrieve(NAME, [0, 1], with_vectors=True)
        reader.query_points(NAME, embed("robots"), limit=4)
        reader.get_collection(NAME)
        reader.get_collections()
    assert files(client.path) == before


def test_a_build_that_fails_leaves_the_collection_as_it_was(client: EmbeddedClient) -> None:
    before = files(client.path)
    with pytest.raises(StoreError, match="expected dim: 8, got 7"):
        build(client, [*POINTS, models.PointStruct(id=7, vector=[1.0] * 7)])
    with pytest.raises(KeyError), client.building(NAME, vectors=DENSE, sparse=SPARSE) as upsert:
        upsert(POINTS[:1])
        raise KeyError
    assert files(client.path) == before and client.count(NAME).count == 4
    with pytest.raises(KeyError), client.building("new", vectors=DENSE):
        raise KeyError
    assert not client.collection_exists("new")


def test_a_reader_sees_a_new_build_at_its_next_call_and_nobody_else_builds_meanwhile(client: EmbeddedClient) -> None:
    with closing(EmbeddedClient(client.path)) as other:
        with client.building(NAME, vectors={"": DENSE}, sparse=SPARSE) as upsert:
            upsert(POINTS[:3])
            assert other.count(NAME).count == 4
            with pytest.raises(StoreError, match="another process; wait for it"), client.building("b", vectors=DENSE):
                raise AssertionError("built")
        assert other.count(NAME).count == 3


@pytest.mark.parametrize("stage", ["between the renames", "after them", "before them"])
def test_what_a_killed_build_left_is_read_and_cleared_away(client: EmbeddedClient, stage: str) -> None:
    folder = client.path / "collections" / NAME
    new, old = (folder.with_name(f".{NAME}.{part}") for part in ("new", "old"))
    shutil.copytree(folder, new if stage != "after them" else old)
    if stage == "between the renames":
        folder.rename(old)
    with closing(EmbeddedClient(client.path)) as reader:
        assert reader.count(NAME).count == 4
        assert [c.name for c in reader.get_collections().collections] == [NAME]
    build(client, POINTS[:3])
    assert client.count(NAME).count == 3
    assert [entry.name for entry in folder.parent.iterdir()] == [NAME]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("shorter", "its files have other sizes"),
        ("gone", "No such file"),
        ("no record", "Expecting property name"),
        ("other engine", r"or are of qdrant-edge 0\.1"),
        ("points", "expected 7 points, found 4"),
    ],
)
def test_a_damaged_collection_is_to_be_indexed_again(client: EmbeddedClient, how: str, said: str) -> None:
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
    elif how == "no record":
        record.write_text("{")
    else:
        other = {"engine": "0.1"} if how == "other engine" else {"info": content["info"] | {"points_count": 7}}
        record.write_text(json.dumps(content | other))
    with closing(EmbeddedClient(client.path)) as reader:
        with pytest.raises(CollectionNotFoundError, match=rf"is not as it was written \(.*{said}.*\); index the pages"):
            reader.count(NAME)
        build(reader, POINTS)
        assert reader.count(NAME).count == 4


def test_what_a_killed_reader_left_is_passed_over(client: EmbeddedClient) -> None:
    """Opening a shard writes its configuration beside it, and renames it; so does a reader of the same moment."""
    client.close()
    folder = client.path / "collections" / NAME / "shard"
    for place in (folder, next(folder.glob("segments/*"))):
        (place / ".atomicwriteX").mkdir()
        (place / ".atomicwriteX" / "tmpfile.tmp").write_bytes(b"{")
    with closing(EmbeddedClient(client.path)) as reader:
        assert reader.count(NAME).count == 4


def test_too_little_room_is_refused_before(client: EmbeddedClient, monkeypatch: pytest.MonkeyPatch) -> None:
    check_room(client.path, NAME, 1_000)
    monkeypatch.setattr(building.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 8, 10**6))  # type: ignore[attr-defined]
    with pytest.raises(StoreError, match=r"has 1 MB free, .*'pages' may take 203 MB; .*nothing was changed"):
        check_room(client.path, NAME, 1_000_000)


def test_a_folder_that_cannot_be_written_says_so(client: EmbeddedClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: Path) -> None:
        raise RuntimeError("failed to load segment: Read-only file system (os error 30)")

    monkeypatch.setattr(building, "opened", fails)
    with closing(EmbeddedClient(client.path)) as reader, pytest.raises(StoreError, match=r"30\); .* writable, even"):
        reader.count(NAME)


def test_what_is_not_there_and_what_cannot_be_asked(client: EmbeddedClient, tmp_path: Path) -> None:
    with pytest.raises(CollectionNotFoundError, match=r"no collection 'page' at .*; did you mean 'pages'"):
        client.count("page")
    with pytest.raises(StoreError, match="no embedded store"):
        EmbeddedClient(tmp_path / "gone")
    with pytest.raises(StoreError, match="a query of type RecommendQuery"):
        client.query_points(NAME, models.RecommendQuery(recommend=models.RecommendInput(positive=[1])))
    with pytest.raises(StoreError, match="filter condition MatchText"):
        text = models.FieldCondition(key="page_content", match=models.MatchText(text="robots"))
        client.count(NAME, models.Filter(must=[text]))


def test_any_name_is_a_folder_of_its_own(client: EmbeddedClient) -> None:
    names = ["a/b", ".hidden", "x.new", "ä ö", "%2E", "..", "CON"]
    for name in names:
        build(client, [], name)
        assert client.count(name).count == 0
    assert {each.name for each in client.get_collections().collections} == {NAME, *names}


def test_threads_share_a_client_while_it_is_built_anew(client: EmbeddedClient) -> None:
    with closing(EmbeddedClient(client.path)) as reader, ThreadPoolExecutor(8) as pool:
        vector = embed("robots walk")
        searches = [pool.submit(reader.query_points, NAME, vector, limit=1) for _ in range(200)]
        for _ in range(3):
            build(client, POINTS)
        searches += [pool.submit(reader.query_points, NAME, vector, limit=1) for _ in range(200)]
        assert {found.result().points[0].id for found in searches} == {0}


# langchain-qdrant


def filled(client: Any, mode: RetrievalMode) -> QdrantVectorStore:
    sparse = None if mode == RetrievalMode.DENSE else Terms()
    return QdrantVectorStore(client, NAME, embedding=HashEmbeddings(), retrieval_mode=mode, sparse_embedding=sparse)


def test_langchain_qdrant_finds_what_it_finds_in_local_mode(client: EmbeddedClient) -> None:
    """Its own fusion depends on k, and the engine's on chance where scores are equal: compared as scores."""
    some = models.Filter(must=[models.FieldCondition(key="metadata.n", range=models.Range(gte=1))])
    with closing(QdrantClient(":memory:")) as local:
        local.create_collection(NAME, DENSE, sparse_vectors_config=SPARSE)
        local.upsert(NAME, POINTS)
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


# Random collections and searches: the embedded store and local mode of qdrant-client agree

WORDS, NUMBERS = st.sampled_from(["guide", "né→é", "ros", "lidar"]), st.sampled_from([0, 1, 2, 2**53, -7])
HALVES = st.integers(-4, 4).map(lambda number: number / 2)
IDS = st.integers(0, 59).map(lambda number: number if number % 2 else str(UUID(int=number * 2**64 + number)))
# Small whole numbers, so that many cosines are equal.
BY_MEANING = st.lists(st.integers(-2, 2).map(float), min_size=4, max_size=4).filter(any)
BY_TERMS = st.dictionaries(st.integers(0, 11), st.sampled_from([0.5, 1.0, 1.5]), min_size=1, max_size=5).map(
    lambda terms: models.SparseVector(indices=[*terms], values=[*terms.values()])
)
INDEXES = {"kind": "keyword", "n": "integer", "x": "float", "flag": "bool", "metadata.tags": "keyword"}
PARTS = st.lists(st.fixed_dictionaries({"a": st.integers(0, 2), "b": st.sampled_from("xy")}), max_size=3)
INNER = st.fixed_dictionaries({"depth": st.integers(0, 4)}, optional={"tags": st.lists(WORDS), "parts": PARTS})
PAYLOADS = st.fixed_dictionaries(
    {}, optional={"kind": WORDS | st.none(), "n": NUMBERS, "x": HALVES, "flag": st.booleans(), "metadata": INNER}
)
VECTORS = st.fixed_dictionaries({"dense": BY_MEANING}, optional={"bm25": BY_TERMS}) | st.fixed_dictionaries(
    {"bm25": BY_TERMS}
)
DRAWN = st.lists(st.builds(models.PointStruct, id=IDS, vector=VECTORS, payload=PAYLOADS), min_size=5, max_size=40)


def field(*keys: str, **tests: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(models.FieldCondition, key=st.sampled_from(keys), **tests)


def matching(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(values, min_size=1, max_size=4)
    return st.builds(models.MatchValue, value=values) | st.builds(models.MatchAny, any=several)


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    clause = st.lists(inner, min_size=1, max_size=2)
    clauses = st.dictionaries(st.sampled_from(["must", "should", "must_not"]), clause, min_size=1, max_size=2)
    return clauses.map(lambda given: models.Filter(**given))


ANY_KEY = ("kind", "n", "metadata.tags", "metadata.parts", "metadata", "absent")
LOWER, UPPER = (
    st.fixed_dictionaries({including: HALVES}) | st.fixed_dictionaries({without: HALVES})
    for including, without in (("gte", "gt"), ("lte", "lt"))
)
RANGES = LOWER | UPPER | st.builds(lambda lower, upper: lower | upper, LOWER, UPPER)
CONDITIONS = (
    field("kind", "metadata.tags", "metadata.parts[].b", match=matching(WORDS)),
    field("kind", match=st.just(models.MatchAny(any=[]))),
    field("n", "metadata.depth", "metadata.parts[].a", match=matching(NUMBERS)),
    field("flag", match=st.builds(models.MatchValue, value=st.booleans())),
    field("n", "x", "metadata.depth", "metadata.parts[].a", range=RANGES.map(lambda limits: models.Range(**limits))),
    field(*ANY_KEY, is_empty=st.booleans()),
    field(*ANY_KEY, is_null=st.booleans()),
    st.builds(models.HasIdCondition, has_id=st.lists(IDS, max_size=8)),
    st.sampled_from(ANY_KEY).map(lambda key: models.IsEmptyCondition(is_empty=models.PayloadField(key=key))),
)
FILTERS = st.none() | nested(st.recursive(st.one_of(CONDITIONS), nested, max_leaves=6))
# No score is so near to a threshold that a rounding decides.
SEARCHES = st.tuples(BY_MEANING | BY_TERMS, FILTERS, st.sampled_from([None, 0.3137, 1.2713]), st.integers(1, 12))


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@given(st.data())
def test_it_answers_as_local_mode(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    points, ids = data.draw(DRAWN), data.draw(st.lists(IDS, max_size=6))
    distance = data.draw(st.sampled_from([models.Distance.COSINE, models.Distance.DOT]))
    indexes = data.draw(st.sets(st.sampled_from([*INDEXES])))
    searches: list[tuple[Any, Any, float | None, int]] = data.draw(st.lists(SEARCHES, min_size=8, max_size=8))
    conditions = data.draw(st.lists(st.one_of(CONDITIONS), min_size=20, max_size=20))
    params = {"dense": models.VectorParams(size=4, distance=distance)}
    store = EmbeddedClient(tmp_path_factory.mktemp("store"), create=True)
    with closing(store) as edge, closing(QdrantClient(":memory:")) as local:
        kinds = {key: INDEXES[key] for key in indexes}
        with edge.building(NAME, vectors=params, sparse={"bm25": IDF}, indexes=kinds) as upsert:
            local.create_collection(NAME, params, {"bm25": IDF})
            for half in (points[::2], points[1::2]):  # in which later ones take the place of earlier ones
                upsert(half)
                local.upsert(NAME, half)
        for query, given, threshold, count in searches:
            using = "bm25" if isinstance(query, models.SparseVector) else "dense"
            options: Any = {"using": using, "query_filter": given, "score_threshold": threshold}
            found, expected = (
                {point.id: point.score for point in client.query_points(NAME, query, limit=100, **options).points}
                for client in (edge, local)
            )
            assert found == pytest.approx(expected, rel=1e-6, abs=1e-6)
            first = [point.score for point in edge.query_points(NAME, query, limit=count, **options).points]
            assert first == pytest.approx([*expected.values()][:count], rel=1e-6, abs=1e-6)
            assert edge.count(NAME, given).count == local.count(NAME, given).count
            assert listed(edge, given, count) == listed(local, given, count)
        for one in (models.Filter(must=[condition]) for condition in conditions):
            assert edge.count(NAME, one).count == local.count(NAME, one).count
        ours, theirs = (client.retrieve(NAME, ids, with_vectors=True) for client in (edge, local))
        assert [*map(plain, ours)] == [*map(plain, theirs)]


def listed(client: Any, given: Any, size: int) -> list[Any]:
    """Return what a filter lets pass: a page of it, and the rest from there on."""
    first, offset = client.scroll(NAME, given, limit=size, with_vectors=True)
    rest, _ = client.scroll(NAME, given, limit=100, offset=offset, with_vectors=True) if offset else ([], None)
    return [len(first), *map(plain, [*first, *rest])]


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


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ulimit -v")
@pytest.mark.parametrize("limit", [250_000, 400_000, 500_000, 600_000, 750_000, 900_000])
def test_a_search_short_of_memory_damages_nothing(client: EmbeddedClient, limit: int) -> None:
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

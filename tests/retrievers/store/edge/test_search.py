"""Searches: what is refused, where the engine would be silent; exactness; filters by kind."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qdrant_client import models

from retrievers.errors import EmbeddingMismatchError, StoreError, StoreUnsupportedError
from retrievers.store.edge import EdgeClient

NAME = "pages"
FIELD = models.FieldCondition
VALUES: list[Any] = [1, True, "1", False, 0, "true", 1.5, None]


@pytest.fixture
def pages(client: EdgeClient) -> Iterator[EdgeClient]:
    """One point for each of VALUES under `v`; dense vectors (i, 1), a sparse one."""
    with client.changing(NAME):
        params = models.VectorParams(size=2, distance=models.Distance.DOT)
        client.create_collection(NAME, {"dense": params}, {"bm25": models.SparseVectorParams()})
        sparse = models.SparseVector(indices=[1], values=[1.0])
        client.upsert(
            NAME,
            [
                models.PointStruct(id=i, vector={"dense": [i, 1], "bm25": sparse}, payload={"v": value})
                for i, value in enumerate(VALUES)
            ],
        )
    yield client


def found(client: EdgeClient, query: Any = (1.0, 0.0), **options: Any) -> list[tuple[Any, float]]:
    return [(p.id, p.score) for p in client.query_points(NAME, query, "dense", **options).points]


def test_best_first(pages: EdgeClient) -> None:
    assert found(pages, limit=3) == [(7, 7.0), (6, 6.0), (5, 5.0)]
    assert found(pages, np.array([1, 0]), limit=2, offset=1) == [(6, 6.0), (5, 5.0)]
    assert found(pages, models.NearestQuery(nearest=[1.0, 0.0]), score_threshold=5.0) == [(7, 7.0), (6, 6.0)]
    assert len(found(pages)) == len(VALUES)


@pytest.mark.parametrize(
    ("query", "using", "error", "says"),
    [
        ([1.0], "dense", EmbeddingMismatchError, "the query: expected 2 dimensions in vector 'dense', got 1"),
        ([], "dense", EmbeddingMismatchError, "got 0"),
        ([1.0, float("nan")], "dense", StoreError, "the query: vector 'dense' holds a value that is not a finite"),
        ([1.0, None], "dense", StoreError, "not a finite"),
        ([1.0, 0.0], None, StoreError, "no vector '' in the collection: it has 'dense', 'bm25'"),
        ([1.0, 0.0], "dens", StoreError, "no vector 'dens' .*did you mean 'dense'"),
        ([1.0, 0.0], "bm25", StoreError, "'bm25' of the collection is sparse, .*its dense vectors are 'dense'"),
        (models.SparseVector(indices=[1], values=[float("inf")]), "bm25", StoreError, "not a finite"),
        (models.SparseVector(indices=[1], values=[1.0]), "dense", StoreError, "is dense, but a sparse one"),
        (None, "dense", StoreUnsupportedError, "no query"),
        (3, "dense", StoreUnsupportedError, "a query of type int"),
        (models.FusionQuery(fusion=models.Fusion.RRF), None, StoreUnsupportedError, "FusionQuery.*fuse the results"),
        ([[1.0, 0.0]], "dense", StoreUnsupportedError, "several vectors"),
    ],
)
def test_queries_that_are_refused(
    pages: EdgeClient, query: Any, using: str | None, error: type[StoreError], says: str
) -> None:
    with pytest.raises(error, match=says):
        pages.query_points(NAME, query=query, using=using)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"limit": 0}, "limit of at least 1"),
        ({"offset": -1}, "offset of at least 0"),
        ({"score_threshold": float("nan")}, "finite score_threshold"),
        ({"prefetch": [models.Prefetch()]}, "prefetch=.*used without it"),
        ({"timeout": 5}, "timeout=5"),
        ({"nonsense": 1}, "nonsense=1"),
        ({"search_params": models.SearchParams(acorn=models.AcornSearchParams(enable=True))}, "acorn="),
        ({"with_payload": 3}, "with_payload=3"),
    ],
)
def test_options_that_are_refused(pages: EdgeClient, options: dict[str, Any], says: str) -> None:
    with pytest.raises(StoreError, match=says):
        found(pages, **options)


def test_batch(pages: EdgeClient) -> None:
    requests = [models.QueryRequest(query=[1.0, 0.0], using="dense", limit=n, with_payload=n == 1) for n in (1, 2)]
    one, two = pages.query_batch_points(NAME, requests)
    assert [(p.id, p.payload) for p in one.points] == [(7, {"v": None})]
    assert [(p.id, p.payload) for p in two.points] == [(7, None), (6, None)]
    assert pages.query_batch_points(NAME, []) == []
    with pytest.raises(StoreError):
        pages.query_batch_points(NAME, [*requests, models.QueryRequest(query=[1.0], using="dense")])


@pytest.mark.parametrize(
    ("match", "ids"),
    [
        (models.MatchValue(value=1), [0]),
        (models.MatchValue(value=True), [1]),
        (models.MatchValue(value=False), [3]),
        (models.MatchValue(value="1"), [2]),
        (models.MatchAny(any=[0, 1]), [0, 4]),
        (models.MatchAny(any=[]), []),
        (models.MatchExcept(**{"except": ["1", "true"]}), [0, 1, 3, 4, 6]),
    ],
)
def test_matching_is_by_kind(pages: EdgeClient, match: Any, ids: list[int]) -> None:
    """The engine's binding takes True for 1."""
    given = models.Filter(must=[FIELD(key="v", match=match)])
    assert sorted(i for i, _ in found(pages, query_filter=given)) == ids
    assert pages.count(NAME, given).count == len(ids)


def test_number_filters(pages: EdgeClient) -> None:
    given = models.Filter(must=[FIELD(key="v", range=models.Range(gt=0))], must_not=[models.HasIdCondition(has_id=[0])])
    assert [i for i, _ in found(pages, query_filter=given)] == [6]
    assert pages.count(NAME, models.Filter(must=[models.HasVectorCondition(has_vector="bm25")])).count == len(VALUES)


@pytest.mark.parametrize(
    ("condition", "error", "says"),
    [
        (FIELD(key="v", match=models.MatchText(text="x")), StoreUnsupportedError, "'v'.* without MatchText"),
        (FIELD(key="v", range=models.DatetimeRange(gt="2025-01-01")), StoreUnsupportedError, "DatetimeRange"),
        (
            FIELD(key="v", geo_radius=models.GeoRadius(center=models.GeoPoint(lon=0, lat=0), radius=1)),
            StoreUnsupportedError,
            "geo_radius",
        ),
        (models.SliceCondition(slice=models.Slice(total=2, index=0)), StoreUnsupportedError, "SliceCondition"),
        (FIELD(key="v", match=models.MatchValue(value=1), range=models.Range(gt=0)), StoreError, "got match, range"),
        (FIELD(key="v"), StoreError, "one test in a condition, got none"),
        (FIELD(key="a b[", is_null=True), StoreError, "invalid JSON path"),
        (models.HasIdCondition(has_id=["chunk-1"]), StoreError, "or a UUID"),
        (models.Filter(min_should=models.MinShould(conditions=[], min_count=0)), StoreError, "min_count of at least 1"),
        (FIELD(key="v", match=models.MatchValue(value=2**70)), StoreError, "the filter cannot be used"),
    ],
)
def test_filters_that_are_refused(pages: EdgeClient, condition: Any, error: type[StoreError], says: str) -> None:
    given = models.Filter(must=[condition])
    with pytest.raises(error, match=says):
        pages.count(NAME, given)
    with pytest.raises(error, match=says):
        found(pages, query_filter=given)


@pytest.mark.slow
def test_optimize(client: EdgeClient) -> None:
    """An index is built, exact searches stay exact, and the IDF counts what is there after later changes."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(2_600, 1_024)) * ([1.0] * 4 + [0.05] * 1_020)
    with client.changing(NAME):
        params = models.VectorParams(size=1_024, distance=models.Distance.COSINE)
        client.create_collection(NAME, params, {"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)})
        client.upsert(NAME, [row(i, vector) for i, vector in enumerate(vectors)])
    exact = models.SearchParams(exact=True)
    before = top(client)
    assert client.get_collection(NAME).indexed_vectors_count == 0
    assert client.optimize(NAME)
    assert client.get_collection(NAME).indexed_vectors_count == 2 * 2_600
    assert top(client, exact) == before
    assert len({i for i, _ in top(client)} & {i for i, _ in before}) >= 8, "approximate"
    optimized = client.generation(NAME)
    assert not client.optimize(NAME)
    assert client.generation(NAME) == optimized
    with client.changing(NAME):
        client.delete(NAME, list(range(1, 2_600, 2)))
        client.upsert(NAME, [row(0, vectors[0])])
    term = models.SparseVector(indices=[0], values=[1.0])
    scores = {point.score for point in client.query_points(NAME, term, "bm25", limit=2_000).points}
    client.close()
    before_reading = contents(client.path)
    with EdgeClient(client.path) as reader:
        assert len(top(reader, exact)) == 10, "an approximate search may find fewer once half of the points are gone"
    assert contents(client.path) == before_reading
    assert sorted(scores) == pytest.approx([np.log(0.5 / (1_300 + 0.5) + 1)], abs=1e-6), "in all 1,350 that are left"


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of 2,600 points with an index, which was built after some of 3,000 were removed and one stored again."""
    path = tmp_path_factory.mktemp("indexed") / "store"
    vectors = np.random.default_rng(1).normal(size=(3_000, 1_024)) * ([1.0] * 4 + [0.05] * 1_020)
    with EdgeClient(path, create=True) as client:
        with client.changing(NAME):
            params = models.VectorParams(size=1_024, distance=models.Distance.COSINE)
            client.create_collection(NAME, params, {"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)})
            client.upsert(NAME, [row(i, vector) for i, vector in enumerate(vectors)])
            client.delete(NAME, list(range(1, 800, 2)))
            client.upsert(NAME, [row(0, vectors[0])])
        assert client.optimize(NAME)
    return path


CHANGES: dict[str, Callable[[EdgeClient], Any]] = {
    "payload": lambda client: client.overwrite_payload(NAME, {"a": 1}, [0, 2]),
    "upsert": lambda client: client.upsert(NAME, [row(0, [1.0] * 1_024)]),
    "new point": lambda client: client.upsert(NAME, [row(9_001, [1.0] * 1_024)]),
    "delete": lambda client: client.delete(NAME, list(range(1, 1_500))),
    "delete by filter": lambda client: client.delete(
        NAME, models.Filter(must=[models.HasIdCondition(has_id=[2, 4, 6, 801])])
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("change", ["none", "metadata", *CHANGES])
def test_terms_are_counted_anew_once_points_were_written_to_behind_the_index(
    indexed: Path, change: str, tmp_path: Path
) -> None:
    path = shutil.copytree(indexed, tmp_path / "store")
    with EdgeClient(path) as writer:
        if change == "metadata":
            writer.update_collection(NAME, metadata={"a": 1})
        if change in CHANGES:
            CHANGES[change](writer)
    with EdgeClient(path) as reader:
        with reader._view(NAME) as view:
            assert view.recount == (change in CHANGES)
        left = [int(record.id) for record in reader.scroll(NAME, limit=20_000)[0]]
        for term in (0, 1):
            query = models.SparseVector(indices=[term], values=[1.0])
            (score,) = {p.score for p in reader.query_points(NAME, query, "bm25", limit=20_000).points}
            holding = sum(i % 2 == term for i in left)
            assert score == pytest.approx(np.log((len(left) - holding + 0.5) / (holding + 0.5) + 1), abs=1e-6)


def contents(path: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_nothing_to_optimize(pages: EdgeClient) -> None:
    before = pages.generation(NAME)
    assert not pages.optimize(NAME)
    assert pages.generation(NAME) == before


def row(i: int, vector: Any) -> models.PointStruct:
    sparse = models.SparseVector(indices=[i % 2], values=[1.0])
    return models.PointStruct.model_construct(id=i, vector={"": vector, "bm25": sparse}, payload=None)


def top(client: EdgeClient, params: models.SearchParams | None = None) -> list[tuple[Any, float]]:
    query = [1.0] * 4 + [0.0] * 1_020
    return [(p.id, round(p.score, 5)) for p in client.query_points(NAME, query, search_params=params).points]

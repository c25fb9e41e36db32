"""Embedded client, local mode of qdrant-client and brute force agree on random collections and searches."""

import itertools
import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient, models

from retrievers.store.embedded import EmbeddedClient
from tests.support import edge_world as world
from tests.support.edge_oracle import Oracle, Ranking, assert_same, ordered, top
from tests.support.writable import WritableClient

NAME = "pages"
FAST, SLOW = range(2), range(2, 60)
SEARCHES = 12


@pytest.mark.parametrize("seed", [*FAST, *(pytest.param(seed, marks=pytest.mark.slow) for seed in SLOW)])
def test_same_answers(tmp_path: Path, seed: int) -> None:
    place = tmp_path / "store"
    rng = random.Random(seed)
    distance = ("Cosine", "Dot")[seed % 2]
    oracle = Oracle(distance, name=rng.choice(("", "dense")))
    with closing(WritableClient(place, create=True)) as edge, closing(QdrantClient(":memory:")) as local:
        for client in (edge, local):
            create(client, oracle)
        for edit in history(rng, oracle, edge, local):
            assert_same_search(rng, oracle, edge, local, f"seed {seed}, after {edit}")
            assert_same_reading(rng, oracle, edge, local)
        edge.close()
        with closing(EmbeddedClient(place)) as reopened:
            assert_same_search(rng, oracle, reopened, local, f"seed {seed}, reopened")
            assert_same_reading(rng, oracle, reopened, local)


def create(client: Any, oracle: Oracle) -> None:
    params = models.VectorParams(size=world.SIZE, distance=models.Distance(oracle.distance))
    client.create_collection(
        NAME,
        vectors_config=params if oracle.name == "" else {oracle.name: params},
        sparse_vectors_config={"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)},
        metadata={"made": "here"},
    )


def history(rng: random.Random, oracle: Oracle, edge: WritableClient, local: QdrantClient) -> Iterator[str]:
    """Changes made to all three; of the embedded collection each is a build."""
    for field, schema in world.INDEXES.items():
        if rng.random() < 0.4:
            edge.create_payload_index(NAME, field, models.PayloadSchemaType(schema))
    upsert(rng.randint(20, 40), rng, oracle, edge, local)
    yield "upsert"
    upsert(rng.randint(1, 8), rng, oracle, edge, local)
    ids: list[Any] = [world.point_id(rng) for _ in range(rng.randint(1, 10))]
    edge.delete(NAME, ids)
    local.delete(NAME, ids)
    oracle.points = {i: point for i, point in oracle.points.items() if i not in ids}
    yield "delete"


def upsert(count: int, rng: random.Random, oracle: Oracle, edge: WritableClient, local: QdrantClient) -> None:
    points = [world.point(rng, oracle.name) for _ in range(count)]
    edge.upsert(NAME, points)
    local.upsert(NAME, points)
    oracle.upsert(points)


def assert_same_search(
    rng: random.Random, oracle: Oracle, edge: EmbeddedClient, local: QdrantClient, what: str
) -> None:
    for _ in range(SEARCHES):
        given = world.a_filter(rng) if rng.random() < 0.7 else None
        query: Any = world.dense(rng) if rng.random() < 0.5 else world.sparse(rng, 4)
        sparse = isinstance(query, models.SparseVector)
        expected = oracle.sparse(query, given) if sparse else oracle.dense(query, given)
        options = {"query": query, "using": "bm25" if sparse else oracle.name, "query_filter": given}
        threshold = between(rng, expected) if rng.random() < 0.4 else None
        if threshold is not None:
            expected = [pair for pair in expected if pair[1] > threshold]
        count = rng.randint(1, 12)
        says = f"{what}: {options}, threshold {threshold}, {count}"
        for client in (edge, local):
            found = top(searcher(client, {**options, "score_threshold": threshold}), count)
            assert_same(found, ordered(expected)[:count], f"{type(client).__name__}, {says}")
        alone = pairs(edge.query_points(NAME, **options, score_threshold=threshold, limit=count).points)
        asked: Any = {"query": query, "using": options["using"], "filter": given, "score_threshold": threshold}
        request = models.QueryRequest(**asked, limit=count, with_payload=True)
        for each in edge.query_batch_points(NAME, [request] * 2):
            assert decided(pairs(each.points)) == decided(alone), says


def searcher(client: Any, options: dict[str, Any]) -> Any:
    return lambda limit: pairs(client.query_points(NAME, limit=limit, **options).points)


def pairs(points: Sequence[models.ScoredPoint]) -> Ranking:
    return [(point.id, point.score) for point in points]  # type: ignore[misc]


def decided(found: Ranking) -> tuple[Ranking, list[float]]:
    """Return the part that is not random: the engine orders equal scores differently in every call and cuts them."""
    return ordered([pair for pair in found if pair[1] != found[-1][1]]), [score for _, score in found]


def between(rng: random.Random, ranking: Ranking) -> float | None:
    """A threshold in a gap between two scores, so that no rounding decides."""
    scores = [score for _, score in ranking]
    gaps = [(a + b) / 2 for a, b in itertools.pairwise(scores) if abs(a - b) > 1e-3]
    return rng.choice(gaps) if gaps else None


def assert_same_reading(rng: random.Random, oracle: Oracle, edge: EmbeddedClient, local: QdrantClient) -> None:
    given = world.a_filter(rng) if rng.random() < 0.8 else None
    expected = oracle.chosen(given)
    assert edge.count(NAME, given).count == local.count(NAME, given).count == len(expected)
    page = rng.randint(1, 15)
    read: list[Any] = []
    offset: Any = None
    while True:
        records, following = edge.scroll(NAME, given, page, offset=offset, with_vectors=True)
        same, and_same = local.scroll(NAME, given, limit=page, offset=offset, with_vectors=True)
        assert following == and_same
        assert [plain(one) for one in records] == [plain(one) for one in same]
        read += [one.id for one in records]
        if following is None:
            break
        offset = following
    assert read == expected
    ids = [world.point_id(rng) for _ in range(6)]
    assert [plain(one) for one in edge.retrieve(NAME, ids, with_vectors=True)] == [
        plain(one) for one in local.retrieve(NAME, ids, with_vectors=True)
    ]


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

"""What a real server alone can show of foreign collections: distances, its own encoding."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from qdrant_client import QdrantClient

from retrievers import QdrantRetriever
from retrievers.records import Distance
from tests.live.conftest import ENV
from tests.support.collections import settings
from tests.support.distances import DISTANCES, EMBEDDINGS, QUERIES, chunk_id, make, semantic
from tests.support.distances import ranked as expected

OWN = {"embedding": {"provider": "python", "model": "mine:make"}}


@pytest.fixture
def name(plain: QdrantClient) -> Iterator[str]:
    """The name of a collection that goes when the test is over."""
    made = f"retrieval-evals-live-{uuid.uuid4().hex}"
    yield made
    plain.delete_collection(made)


@pytest.mark.parametrize("distance", DISTANCES)
def test_every_distance(plain: QdrantClient, store: dict[str, Any], name: str, distance: Distance) -> None:
    make(plain, distance, name)
    with QdrantRetriever.open(settings(store=store, collection=name, **OWN), env=ENV, embeddings=EMBEDDINGS) as one:
        for number, query in enumerate(QUERIES):
            scores = semantic(distance, number)
            found = list(one.candidates([query])[0])
            assert [hit.chunk.chunk_id for hit in found] == [chunk_id(n) for n in expected(scores)]
            best = [scores[n] for n in expected(scores)]
            assert [hit.score for hit in found] == pytest.approx(best, abs=1e-4)

"""A collection named by its alias: the report has that name, and a run says when the alias moved under it."""

from collections.abc import Iterator
from typing import Any

import pytest
from qdrant_client import models

from evals import Experiment, evaluate
from tests.support.collections import TableEmbeddings, fill
from tests.support.qdrant_server import QdrantServer

VECTORS = {"one": [1.0, 0.0], "two": [0.0, 1.0], "first?": [0.9, 0.1], "second?": [0.1, 0.9]}
GOLDEN = [{"id": name, "query": f"{name}?", "in_scope": False} for name in ("first", "second")]
MOVING: list[QdrantServer] = []


class Moving(TableEmbeddings):
    """A model in whose time somebody points the alias at the next version."""

    def embed_query(self, text: str) -> list[float]:
        for server in MOVING:
            server.aliases["live"] = "docs_v2"
        return super().embed_query(text)


def make() -> TableEmbeddings:
    return Moving(VECTORS)


@pytest.fixture
def server() -> Iterator[QdrantServer]:
    with QdrantServer() as server:
        for name in ("docs_v1", "docs_v2"):
            payloads = [{"page_content": text, "metadata": {"chunk_id": f"{name}-{text}"}} for text in ("one", "two")]
            params = models.VectorParams(size=2, distance=models.Distance.COSINE)
            fill(server.client, name, [VECTORS["one"], VECTORS["two"]], payloads, params=params)
        server.aliases["live"] = "docs_v1"
        yield server
        MOVING.clear()


def experiment(server: QdrantServer) -> Experiment:
    retriever: dict[str, Any] = {"store": {"url": server.url}, "collection": "live", "threshold": 0}
    retriever["embedding"] = {"provider": "python", "model": f"{__name__}:make"}
    return Experiment.model_validate(
        {"retriever": retriever, "metrics": ["scope/*"], "criteria": {"scope/abstention": ">= 0"}}
    )


def test_an_alias_is_reported_by_its_name(server: QdrantServer) -> None:
    facts = evaluate(golden=GOLDEN, experiment=experiment(server)).report.facts
    assert facts.collection is not None
    assert (facts.collection.name, facts.collection.points) == ("live", 2)
    assert (facts.collection_changed, len(facts.collection.fingerprint)) == (None, 64)


def test_an_alias_that_moved_during_the_run_decides_nothing(server: QdrantServer) -> None:
    MOVING.append(server)
    run = evaluate(golden=GOLDEN, experiment=experiment(server))
    assert "content of the first 2 points" in (run.report.facts.collection_changed or "")
    assert run.incomplete
    assert not run.passed

"""What the loopback doubles are taken to do, asked of a real Qdrant server, named by QDRANT_TEST_URL.

Its key is in QDRANT_TEST_API_KEY. The tests make a few collections with names of their own and remove them. Run them
before a release.
"""

import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient, models

from evals.experiment.facts import collection_facts, differences
from retrievers import QdrantRetriever, net
from retrievers.config import RetrieverConfig
from retrievers.errors import CollectionNotFoundError, StoreError
from retrievers.net import patient
from tests.support import distances
from tests.support.collections import PAGES, index_pages, settings
from tests.support.command import ROOT, python
from tests.support.indexing import write_pages
from tests.support.qdrant_server import QdrantServer

URL = os.environ.get("QDRANT_TEST_URL", "")
KEY = os.environ.get("QDRANT_TEST_API_KEY", "")
ENV = {"QDRANT_API_KEY": KEY} if KEY else {}
QUERIES = ["who sends messages to listeners", "the glossary words used here", "angular velocity", "a client waits"]
STRICT = {"max_query_limit": 1_000, "search_max_batchsize": 32, "upsert_max_batchsize": 256}


@pytest.fixture(autouse=True)
def clock() -> None:
    assert vars(net)["time"] is time


@pytest.fixture(scope="module")
def plain() -> Iterator[QdrantClient]:
    if not URL:
        pytest.skip("QDRANT_TEST_URL names no Qdrant server")
    client = QdrantClient(url=URL, api_key=KEY or None, port=None, check_compatibility=False, timeout=60)
    yield client
    client.close()


def indexed(store: dict[str, Any], collection: str, folder: Path) -> RetrieverConfig:
    made = settings(store=store, collection=collection, candidates=8, threshold=0)
    index_pages(made, write_pages(folder, PAGES), ENV)
    return made


@pytest.fixture(scope="module")
def config(plain: QdrantClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RetrieverConfig]:
    name = f"retrieval-evals-live-{uuid.uuid4().hex}"
    try:
        yield indexed({"url": URL}, name, tmp_path_factory.mktemp("pages"))
    finally:
        plain.delete_collection(name)


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> RetrieverConfig:
    folder = tmp_path_factory.mktemp("embedded")
    return indexed({"path": str(folder / "store")}, "pages", folder / "pages")


@pytest.fixture
def copy(config: RetrieverConfig, plain: QdrantClient, tmp_path: Path) -> Iterator[RetrieverConfig]:
    name = f"{config.collection}-copy"
    try:
        yield indexed({"url": URL}, name, tmp_path / "copy")
    finally:
        plain.delete_collection(name)


def ranked(config: RetrieverConfig, **changes: Any) -> list[list[tuple[str, Any]]]:
    """Chunk ids with scores for every query, at full depth; scores as the client's float32 gives them."""
    with QdrantRetriever.open(config.model_copy(update=changes), env=ENV) as retriever:
        found = retriever.candidates(QUERIES)
    return [[(c.chunk.chunk_id, pytest.approx(c.score, abs=1e-5)) for c in one] for one in found]


@contextmanager
def strict(plain: QdrantClient, config: RetrieverConfig, **limits: Any) -> Iterator[None]:
    plain.update_collection(config.collection, strict_mode_config=models.StrictModeConfig(enabled=True, **limits))
    try:
        yield
    finally:
        plain.update_collection(config.collection, strict_mode_config=models.StrictModeConfig(enabled=False))


WAYS: list[dict[str, Any]] = [
    {},
    {"mode": "keyword"},
    *({"mode": "hybrid", "fusion": fusion} for fusion in ("weighted", "rrf", "dbsf")),
    *({"filters": one} for one in ("module == 'ros2' and chunk_index > 0", "not tags == 'ros2'", "start_line < 15")),
]
PARAMS = [
    {"exact": True},
    {"hnsw_ef": 64, "indexed_only": True},
    {"quantization": {"rescore": True, "oversampling": 2.0}},
    {"quantization": {"ignore": True}, "exact": False},
]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_server_gives_what_an_embedded_store_gives_whatever_the_search_parameters_on_a_few_chunks(
    config: RetrieverConfig, embedded: RetrieverConfig, way: dict[str, Any]
) -> None:
    expected = ranked(embedded, **way)
    assert all(ranked(config, **way, search_params=params) == expected for params in (None, *PARAMS))


def test_the_pages_indexed_again_change_nothing(config: RetrieverConfig, tmp_path: Path) -> None:
    before = ranked(config)
    index_pages(config, write_pages(tmp_path, PAGES), ENV)
    assert ranked(config) == before


def test_a_missing_collection_is_told_with_its_neighbours(config: RetrieverConfig) -> None:
    with pytest.raises(CollectionNotFoundError, match=f"did you mean .*{config.collection}"):
        QdrantRetriever.open(config.model_copy(update={"collection": config.collection[:-1]}), env=ENV)


# Strict mode


@pytest.mark.parametrize("mode", ["semantic", "keyword", "hybrid"])
def test_strict_mode_changes_no_result(config: RetrieverConfig, plain: QdrantClient, mode: str) -> None:
    before = ranked(config, mode=mode)
    with strict(plain, config, **STRICT, unindexed_filtering_retrieve=False):
        assert ranked(config, mode=mode) == before
        with QdrantRetriever.open(config, env=ENV) as retriever:
            assert len(retriever.chunks({"source_url": ["/docs/ros2/topics"]})) == 4
            assert len(retriever.chunks()) == 9


def test_what_strict_mode_forbids_is_told_before_the_run(config: RetrieverConfig, plain: QdrantClient) -> None:
    with strict(plain, config, **STRICT, unindexed_filtering_retrieve=False):
        with pytest.raises(StoreError, match=r"Index required but not found for .metadata\.start_line."):
            ranked(config, filters="start_line < 15")
        assert ranked(config, filters="chunk_index > 0")


def test_writing_keeps_to_strict_mode(copy: RetrieverConfig, plain: QdrantClient, tmp_path: Path) -> None:
    more = {"new.md": "# New\n\n" + "".join(f"## Part {n}\n\nfresh text {n}\n\n" for n in range(5))}
    with strict(plain, copy, **STRICT):
        index_pages(copy, write_pages(tmp_path / "more", PAGES | more), ENV)
    assert plain.count(copy.collection).count == 9 + 5


@pytest.mark.slow
def test_a_rate_limit_is_kept_to(config: RetrieverConfig, plain: QdrantClient) -> None:
    with QdrantRetriever.open(config, env=ENV) as retriever, patient(120):
        with strict(plain, config, read_rate_limit=60):
            statuses = {retriever.search(QUERIES[0], use_cache=False).status for _ in range(90)}
        assert statuses == {"success"}


@pytest.mark.parametrize("distance", distances.DISTANCES)
def test_a_foreign_collection_of_every_distance(plain: QdrantClient, distance: str) -> None:
    name = f"retrieval-evals-live-{uuid.uuid4().hex}"
    distances.make(plain, distance, name)
    foreign = settings(store={"url": URL}, collection=name, embedding={"model": "python:mine:make"})
    try:
        with QdrantRetriever.open(foreign, env=ENV, embeddings=distances.EMBEDDINGS) as one:
            candidates = [list(each) for each in one.candidates(distances.QUERIES)]
    finally:
        plain.delete_collection(name)
    for number, hits in enumerate(candidates):
        scores = distances.semantic(number)
        best = distances.ranked(scores)
        assert [hit.chunk.chunk_id for hit in hits] == [distances.chunk_id(n) for n in best]
        assert [hit.score for hit in hits] == pytest.approx([scores[n] for n in best], abs=1e-4)


# What happens meanwhile


def test_a_changed_collection_is_noticed(config: RetrieverConfig, copy: RetrieverConfig, plain: QdrantClient) -> None:
    assert ranked(copy) == ranked(config)
    with QdrantRetriever.open(copy, env=ENV) as retriever:
        before = collection_facts(retriever)
        assert before == collection_facts(retriever)
        plain.delete(copy.collection, [record.id for record in plain.scroll(copy.collection, limit=2)[0]])
        after = collection_facts(retriever)
    assert before and after
    assert differences(before, after) == "points 9 → 7, content of 9 sampled points"


# The doubles do what a real server is asked for: else one of the two is wrong


@pytest.mark.slow
@pytest.mark.integration
def test_the_doubles_do_what_a_real_server_is_asked_for() -> None:
    with QdrantServer() as server:
        command = ["-m", "pytest", "-q", "tests/live", "-m", "not slow", "-p", "no:cacheprovider"]
        done = python(command, ROOT, {"QDRANT_TEST_URL": server.url})
    assert done.returncode == 0 and "skipped" not in done.stdout, done.stdout[-3_000:]

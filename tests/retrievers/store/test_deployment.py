"""How a server runs a collection, out of what a real one says; and what a key for one collection may not see."""

from collections.abc import Iterator
from typing import Any

import pytest

from retrievers import QdrantRetriever
from retrievers.config import RetrieverConfig
from retrievers.errors import CollectionNotFoundError
from retrievers.store import Deployment, open_client, survey
from tests.support.collections import index_pages, settings, write_pages
from tests.support.qdrant_rules import Rules, recorded
from tests.support.qdrant_server import KEY, QdrantServer

ENV = {"QDRANT_API_KEY": KEY}


def config_of(record: str) -> dict[str, Any]:
    """Return the recorded configuration of a collection, without its vectors."""
    config: dict[str, Any] = recorded(record)["answer"]["result"]["config"]
    params = {k: v for k, v in config["params"].items() if k not in ("vectors", "sparse_vectors")}
    return {
        "params": params,
        "hnsw_config": config["hnsw_config"],
        "quantization_config": config["quantization_config"],
    }


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[QdrantServer, RetrieverConfig]]:
    with QdrantServer() as server:
        config = settings(store={"url": server.url}, collection="pages", threshold=0)
        index_pages(config, write_pages(tmp_path_factory.mktemp("pages")))
        server.aliases["prod"] = "pages"
        yield server, config


@pytest.fixture
def server(running: tuple[QdrantServer, RetrieverConfig]) -> Iterator[QdrantServer]:
    server, _ = running
    server.rules, server.config = Rules(), config_of("info-sharded")
    yield server


@pytest.fixture
def config(running: tuple[QdrantServer, RetrieverConfig]) -> RetrieverConfig:
    return running[1]


def surveyed(config: RetrieverConfig, **changes: Any) -> Deployment | None:
    client = open_client(config.store, ENV)
    try:
        return survey(client, config.model_copy(update=changes))[1]
    finally:
        client.close()


def test_version_shards_replicas_and_indexes_are_told(server: QdrantServer, config: RetrieverConfig) -> None:
    told = surveyed(config)
    assert told and (told.version, told.shards, told.replicas) == ("1.18.3", 4, 2)
    assert (told.hnsw["m"], told.hnsw["ef_construct"], told.quantization, told.alias_of) == (16, 100, None, None)


def test_quantisation_is_told(server: QdrantServer, config: RetrieverConfig) -> None:
    server.config |= {"quantization_config": {"binary": {"always_ram": True}}}
    told = surveyed(config)
    assert told and told.quantization == {"binary": {"always_ram": True}}


def test_an_alias_is_told_with_what_it_stands_for(server: QdrantServer, config: RetrieverConfig) -> None:
    told = surveyed(config, collection="prod")
    assert told and told.alias_of == "pages"


def test_a_key_for_one_collection_is_enough(server: QdrantServer, config: RetrieverConfig) -> None:
    server.rules = Rules(api_key=KEY, scope="pages", read_only=True)
    told = surveyed(config)
    assert told and (told.version, told.shards, told.alias_of) == ("1.18.3", 4, None)
    with QdrantRetriever.open(config.model_copy(update={"mode": "hybrid"}), env=ENV) as retriever:
        assert retriever.search("who sends messages").status == "success"
        assert len(retriever.chunks({"source_url": ["/docs/ros2/topics"]})) == 4
        assert len(retriever.sample(256)) == 9
        assert retriever.candidates(["a topic", "a service"])


def test_a_key_for_another_collection_says_so(server: QdrantServer, config: RetrieverConfig) -> None:
    server.rules = Rules(api_key=KEY, scope="others")
    with pytest.raises(Exception, match=r"may not do this \(Forbidden: Access to collection pages is required\)"):
        surveyed(config)


def test_a_collection_that_is_gone_is_told(server: QdrantServer, config: RetrieverConfig) -> None:
    with pytest.raises(CollectionNotFoundError, match="did you mean 'pages'"):
        surveyed(config, collection="page")


@pytest.mark.parametrize(("mode", "noted"), [("semantic", False), ("keyword", True), ("hybrid", True)])
def test_terms_counted_by_shard_are_noted(
    server: QdrantServer, config: RetrieverConfig, mode: str, noted: bool
) -> None:
    with QdrantRetriever.open(config.model_copy(update={"mode": mode}), env={}) as retriever:
        assert bool(retriever.notes) == noted
        assert not noted or "has 4 shards, and Qdrant counts how rare a term is (IDF) within each" in retriever.notes[0]


def test_one_shard_is_not_noted(server: QdrantServer, config: RetrieverConfig) -> None:
    server.config = config_of("info-handbook")
    with QdrantRetriever.open(config.model_copy(update={"mode": "hybrid"}), env={}) as retriever:
        assert retriever.notes == ()

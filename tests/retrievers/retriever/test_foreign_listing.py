from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_qdrant import QdrantVectorStore
from qdrant_client import QdrantClient, models

from retrievers.config import RetrieverConfig
from retrievers.errors import ForeignRetrieverError, StoreError
from retrievers.retriever.foreign import Listing, chunk_of
from retrievers.retriever.vector_store import settings_over
from retrievers.store import open_client
from retrievers.store.chunks import to_metadata
from tests.support.embeddings import Counting
from tests.support.foreign import chunks, documents, settings, vector_store
from tests.support.qdrant_server import QdrantServer
from tests.support.writable import writable


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> RetrieverConfig:
    """An embedded collection of the experiment's chunks, each with its id."""
    config = settings("plain", store={"path": tmp_path_factory.mktemp("listing") / "store"}, collection="robots")
    client = writable(config.store)
    client.create_collection("robots", models.VectorParams(size=9, distance=models.Distance.COSINE))
    store = QdrantVectorStore(client, "robots", embedding=Counting(), validate_collection_config=False)
    store.add_texts([c.text for c in chunks()], [to_metadata(c) for c in chunks()])
    client.close()
    return config


@pytest.fixture
def listing(config: RetrieverConfig) -> Iterator[Listing]:
    made = Listing(open_client(config.store, {}), config)
    yield made
    made.client.close()


def test_all_chunks_or_those_of_some_pages_are_listed(listing: Listing) -> None:
    assert [c.chunk_id for c in listing.chunks()] == sorted(c.chunk_id for c in chunks())
    assert len(listing.chunks({"source_url": ["/docs/ros/topics"]})) == 2
    assert len(listing.sample(3)) == 3
    assert (listing.info.name, listing.info.points, listing.info.dimension) == ("robots", 5, 9)


def listing_of(store: QdrantVectorStore, config: RetrieverConfig) -> Listing:
    return Listing(store.client, settings_over(store, config))


def returned(document: Document, config: RetrieverConfig, **metadata: Any) -> Any:
    return chunk_of(Document(page_content=document.page_content, metadata=metadata), config.metadata)


@pytest.mark.parametrize("known_by", ["chunk_id", "_id", "content", "content with other breaks"])
def test_what_is_returned_gets_the_id_it_has_here(listing: Listing, config: RetrieverConfig, known_by: str) -> None:
    points = {chunk.chunk_id: chunk.point_id for chunk in listing.chunks()}
    for chunk, document in zip(chunks(), documents(), strict=True):
        metadata = {
            "chunk_id": {"chunk_id": chunk.chunk_id},
            "_id": {"_id": points[chunk.chunk_id]},
        }.get(known_by, {"source_url": chunk.source_url, "_id": "an id of its own"})
        text = document.page_content.replace(" ", "\n") if "breaks" in known_by else document.page_content
        found = listing.identified(returned(Document(page_content=text), config, **metadata))
        assert found.chunk_id == chunk.chunk_id
        assert found.text == text


@pytest.mark.parametrize(
    "change",
    [{"source_url": "/docs/other"}, {"page_content": "A topic is"}, {"source_url": None}],
)
def test_what_is_not_here_is_a_fault(listing: Listing, config: RetrieverConfig, change: dict[str, Any]) -> None:
    document = documents()[0]
    text = change.get("page_content", document.page_content)
    url = change.get("source_url", document.metadata["source_url"])
    with pytest.raises(ForeignRetrieverError) as caught:
        listing.identified(returned(Document(page_content=text), config, source_url=url))
    assert "returned a chunk that collection 'robots' does not hold" in str(caught.value)
    assert "or leave store and collection out" in str(caught.value)


def test_of_equal_chunks_one_is_meant() -> None:
    docs = [Document(page_content="the same", metadata={"source_url": "/a"}) for _ in range(3)]
    store = vector_store(docs)
    listing = listing_of(store, settings("dense"))
    without_id = chunk_of(docs[0], settings("dense").metadata)
    assert listing.identified(without_id).chunk_id == min(c.chunk_id for c in listing.chunks())
    listing.client.close()


def test_a_store_lists_what_it_returns_under_the_same_ids() -> None:
    keys: dict[str, Any] = {"content_payload_key": "body", "metadata_payload_key": "about"}
    for options in ({}, keys):
        store, config = vector_store(**options), settings("dense")
        listing = listing_of(store, config)
        found = [chunk_of(document, config.metadata) for document in store.similarity_search("arm", k=5)]
        assert sorted((c.chunk_id, c.text, c.heading) for c in found) == [
            (c.chunk_id, c.text, c.heading) for c in listing.chunks()
        ]
        listing.client.close()


def test_a_store_on_a_server_that_goes_away_is_named_without_its_secrets() -> None:
    with QdrantServer() as server:
        address = server.url.replace("http://", "http://me:s3cret@")
        vectors = models.VectorParams(size=9, distance=models.Distance.COSINE)
        server.client.create_collection("robots", vectors)
        client = QdrantClient(url=server.url, check_compatibility=False)
        client._init_options["url"] = address
        store = QdrantVectorStore(client, "robots", embedding=Counting(), validate_collection_config=False)
        listing = listing_of(store, settings("dense"))
        assert listing.chunks() == []
    with pytest.raises(StoreError) as caught:
        listing.chunks()
    assert str(caught.value).startswith(f"collection 'robots' at {address.replace('me:s3cret', '***')}: cannot be")
    listing.client.close()


def test_whatever_a_users_client_raises_is_typed(tmp_path: Path) -> None:
    store = vector_store()
    listing = listing_of(store, settings("dense"))
    store.client.close()
    with pytest.raises(StoreError, match="collection 'robots' cannot be read: RuntimeError"):
        listing.chunks()

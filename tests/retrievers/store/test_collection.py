from pathlib import Path

import pytest
from qdrant_client import models

from retrievers import QdrantRetriever
from retrievers.config import RetrieverConfig
from retrievers.errors import CollectionNotFoundError, EmbeddingMismatchError
from retrievers.store import open_client, read_info
from tests.support.checked import at, described
from tests.support.collections import fill, settings
from tests.support.qdrant_server import QdrantServer
from tests.support.recorded_server import RecordedServer


def test_an_indexed_collection_describes_itself(pages: RetrieverConfig) -> None:
    info = described(pages)
    assert (info.name, info.points, info.dimension, info.distance) == ("pages", 9, 256, "cosine")
    assert (info.vectors, info.sparse_vectors) == ({"": 256}, ("bm25",))
    assert info.manifest["embedding"] == {"provider": "wordllama", "model": "l2_supercat_256", "dimension": 256}
    assert info.manifest["state"] == "complete"


def test_reading_leaves_the_folder_as_it_was(pages: RetrieverConfig) -> None:
    def contents() -> dict[str, bytes]:
        folder = pages.store.path or Path()
        return {str(file): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}

    before = contents()
    with QdrantRetriever.open(pages, env={}) as retriever:
        retriever.search("how do topics work")
        retriever.chunks()
    assert contents() == before


def test_named_and_sparse_vectors_are_told(server: QdrantServer) -> None:
    params = {
        "dense": models.VectorParams(size=3, distance=models.Distance.COSINE),
        "other": models.VectorParams(size=2, distance=models.Distance.DOT),
    }
    server.client.create_collection("mine", params, sparse_vectors_config={"bm25": models.SparseVectorParams()})
    info = described(at(server, vector_name="dense"))
    assert (info.dimension, info.distance, info.vectors) == (3, "cosine", {"dense": 3, "other": 2})
    assert (info.sparse_vectors, info.manifest, info.points) == (("bm25",), {}, 0)
    with pytest.raises(EmbeddingMismatchError, match=r"no dense vector '': it has 'dense', 'other'; set vector_name"):
        described(at(server))


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["pages", "papers"], "it has 'pages', 'papers'; did you mean 'pages'"),
        (["unlike"], "it has 'unlike' (set"),
        ([], "it has none (set"),
    ],
)
def test_a_missing_collection_names_the_nearest(server: QdrantServer, names: list[str], said: str) -> None:
    for name in names:
        fill(server.client, name, [[1.0]], [{}])
    with pytest.raises(CollectionNotFoundError) as caught:
        described(at(server, collection="pagse"))
    assert str(caught.value).startswith(f"no collection 'pagse' at {server.url}: {said}")


def test_a_missing_collection_of_a_folder_names_the_nearest(pages: RetrieverConfig) -> None:
    with pytest.raises(CollectionNotFoundError, match="it has 'pages'; did you mean 'pages'"):
        described(pages.model_copy(update={"collection": "page"}))


@pytest.mark.parametrize(
    ("recording", "in_hnsw", "quantization"),
    [
        ("info-big", True, ""),  # 50,613 points, of which nearly all dense vectors are indexed
        ("info-handbook", False, ""),  # too small: only its sparse vectors are
        ("info-q_bq", False, "binary"),
    ],
)
def test_a_real_server_tells_whether_its_search_may_miss_something(
    recording: str, in_hnsw: bool, quantization: str
) -> None:
    with RecordedServer(recording) as server:
        config = settings(store={"url": server.url})
        client = open_client(config.store, {})
        info = read_info(client, config)
        client.close()
    assert (info.in_hnsw, info.quantization, info.ef_construct) == (in_hnsw, quantization, 100)
    assert info.is_approximate == (in_hnsw or bool(quantization))

"""What a collection says of itself, and the checks before it may be queried."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import models

from retrievers import QdrantRetriever
from retrievers.config import IndexSettings, RetrieverConfig
from retrievers.config.indexing import recorded_settings
from retrievers.embedding.models import make_embeddings
from retrievers.errors import CollectionNotFoundError, StoreError
from retrievers.store import MANIFEST_KEY, CollectionInfo, check_index, open_client, read_info
from tests.support.checked import OTHER, TABLE, at, check, described, texts
from tests.support.collections import TableEmbeddings, fill, index_pages, settings, write_pages
from tests.support.hybrid import fill_sparse
from tests.support.qdrant_rules import Rules
from tests.support.qdrant_server import KEY, QdrantServer

DENSE = models.VectorParams(size=3, distance=models.Distance.COSINE)
TABLED = TableEmbeddings(TABLE)


def held(server: QdrantServer, vectors: Any = None, payloads: Any = None, **parts: Any) -> None:
    """Fill the collection `mine`, by default with the table's texts and vectors."""
    vectors = [*TABLE.values()] if vectors is None else vectors
    fill(server.client, "mine", vectors, texts(*TABLE) if payloads is None else payloads, **parts)


# Properties


def test_an_indexed_collection_describes_itself(pages: RetrieverConfig) -> None:
    info = described(pages)
    assert (info.name, info.points, info.dimension, info.distance) == ("pages", 9, 256, "cosine")
    assert (info.vectors, info.sparse_vectors, info.without_idf) == ({"": 256}, ("bm25",), ())
    assert info.manifest["embedding"] == {"provider": "wordllama", "model": "l2_supercat_256", "dimension": 256}
    assert (info.manifest["state"], info.indexed["metadata.module"]) == ("complete", "keyword")


def test_the_vector_that_is_searched_is_the_named_or_the_only_one(server: QdrantServer) -> None:
    several = models.VectorParams(
        size=3,
        distance=models.Distance.COSINE,
        multivector_config=models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM),
    )
    two = {"dense": DENSE, "other": models.VectorParams(size=2, distance=models.Distance.DOT), "colbert": several}
    server.client.create_collection("mine", two, sparse_vectors_config={"bm25": models.SparseVectorParams()})
    info = described(at(server, vector_name="dense"))
    assert (info.dimension, info.distance, info.vectors) == (3, "cosine", {"dense": 3, "other": 2})
    assert (info.without_idf, info.manifest, info.points) == (("bm25",), {}, 0)
    for name in ("", "colbert"):
        with pytest.raises(StoreError, match=rf"vector '{name}': it has 'dense', 'other' \(multi-vectors are not"):
            described(at(server, vector_name=name))
    server.client.create_collection("one", {"dense": DENSE})
    assert described(at(server, collection="one")).vector_name == "dense"


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["pages", "papers"], "it has 'pages', 'papers'; did you mean 'pages'"),
        (["unlike"], "it has 'unlike' (index"),
        ([], "it has none (index"),
    ],
)
def test_a_missing_collection_names_the_nearest(server: QdrantServer, names: list[str], said: str) -> None:
    for name in names:
        fill(server.client, name, [[1.0]], [{}])
    with pytest.raises(CollectionNotFoundError) as caught:
        described(at(server, collection="pagse"))
    assert str(caught.value).startswith(f"no collection 'pagse' at {server.url}: {said}")


def read(config: RetrieverConfig) -> CollectionInfo:
    with closing(open_client(config.store, {"QDRANT_API_KEY": KEY})) as client:
        return read_info(client, config)


def test_a_key_for_one_collection_is_enough(server: QdrantServer, tmp_path: Path) -> None:
    config = settings(store={"url": server.url}, collection="pages", threshold=0)
    index_pages(config, write_pages(tmp_path))
    server.rules = Rules(api_key=KEY, scope="pages", read_only=True)
    assert read(config).points == 9
    hybrid = config.model_copy(update={"mode": "hybrid"})
    with QdrantRetriever.open(hybrid, env={"QDRANT_API_KEY": KEY}) as retriever:
        assert retriever.search("who sends messages").status == "success"
        assert len(retriever.chunks({"source_url": ["/docs/ros2/topics"]})) == 4
    server.rules = Rules(api_key=KEY, scope="others")
    with pytest.raises(StoreError, match=r"Access to collection pages is required; the API key in \w+ may not do this"):
        read(config)


# The model


def test_the_model_is_checked_by_embedding_three_chunks_again(server: QdrantServer) -> None:
    held(server)
    asked: list[list[str]] = []

    class Recording(TableEmbeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            asked.append(texts)
            return super().embed_documents(texts)

    check(at(server), Recording(TABLE))
    assert asked == [["a", "b", "c"]]
    with pytest.raises(StoreError, match=r"by another model: python:mine:make gives stored texts a vector of cosine 0"):
        check(at(server), TableEmbeddings(OTHER))
    check(at(server, trust_embedding=True), TableEmbeddings({}))


def test_a_recorded_model_is_checked_first_and_named(server: QdrantServer) -> None:
    own = {"provider": "python", "model": "mine:make"}
    held(server, metadata={MANIFEST_KEY: {"embedding": own | {"options": {"device": "cpu"}, "dimension": 3}}})
    check(at(server), TABLED)
    with pytest.raises(StoreError, match=r"'mine' was embedded by another model: python:mine:make gives stored texts"):
        check(at(server), TableEmbeddings(OTHER))
    prefixed = at(server, embedding=own | {"document_prefix": "p: "})
    said = r"by python:mine:make, but the query would be embedded by .* with document_pre"
    with pytest.raises(StoreError, match=said):
        check(prefixed, TableEmbeddings({}))  # of which no text is asked


@pytest.mark.parametrize(
    ("made", "same"),
    [
        (lambda v: v, True),
        (lambda v: [7 * x for x in v], True),  # another length
        (lambda v: [0.0005**0.5 * 1.4, *v[1:]] if v == TABLE["c"] else v, True),  # providers round
        (lambda v: [0.0545, *v[1:]] if v == TABLE["c"] else v, False),  # one of three chunks decides
        (lambda _: [0.0, 0.0, 0.0], False),
    ],
)
def test_nearly_the_same_vectors_are_the_same_model(server: QdrantServer, made: Any, same: bool) -> None:
    held(server)
    embeddings = TableEmbeddings({text: made(vector) for text, vector in TABLE.items()})
    if same:
        check(at(server), embeddings)
    else:
        with pytest.raises(StoreError, match=r"cosine 0\.\d+ to theirs, expected at least 0\.999; set embedding"):
            check(at(server), embeddings)


def test_a_named_vector_is_the_one_verified_and_points_without_it_are_passed_over(server: QdrantServer) -> None:
    vectors: list[Any] = [{}, *({"dense": vector, "other": vector[::-1]} for vector in TABLE.values())]
    held(server, vectors, texts("none", *TABLE), params={"dense": DENSE, "other": DENSE})
    check(at(server, vector_name="dense"), TABLED)
    with pytest.raises(StoreError, match="gives stored texts"):
        check(at(server, vector_name="other"), TABLED)


@pytest.mark.parametrize(
    ("vectors", "payloads"), [([TABLE["a"]], [{"text": "a"}]), ([TABLE["a"]], [{"page_content": ""}])]
)
def test_a_collection_without_text_to_verify_by_is_refused(server: QdrantServer, vectors: Any, payloads: Any) -> None:
    held(server, vectors, payloads, params=DENSE)
    with pytest.raises(StoreError, match=r"holds no vector with a text under payload key 'page_content'"):
        check(at(server), TABLED)


# Its state, its payload, its keyword side


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        ({"state": "indexing"}, "is unfinished: an indexing run was interrupted; index the pages again"),
        ({"state": "complete", "points": 6}, "holds 4 of the 6 points that were indexed; index the pages again"),
        ({"state": "complete", "points": 4}, None),
        ({"state": "complete", "points": 3}, None),
    ],
)
def test_a_collection_that_is_not_whole_is_refused(server: QdrantServer, manifest: Any, said: str | None) -> None:
    held(server, metadata={MANIFEST_KEY: manifest})
    if said is None:
        check(at(server), TABLED)
        return
    with pytest.raises(StoreError, match=f"collection 'mine' {said}"):
        check(at(server, trust_embedding=True), TABLED)


@pytest.mark.parametrize(
    ("written", "read", "expected"),
    [
        ({}, {"text_key": "body"}, "metadata.text_key: 'page_content'"),
        ({"nested_under": ""}, {}, "metadata.nested_under: ''"),
        ({"map": {"title": "name"}}, {}, "metadata.map: {'title': 'name'}"),
        ({}, {}, None),
        ({"map": {"url": "url"}}, {}, None),  # an alias is read without being told
        ({"map": {"title": "name"}}, {"map": {"title": "heading"}}, None),  # on purpose
    ],
)
def test_a_collection_is_read_under_the_keys_it_was_indexed_under(
    server: QdrantServer, written: dict[str, Any], read: dict[str, Any], expected: str | None
) -> None:
    layout = at(server, metadata=written).metadata.layout
    held(server, metadata={MANIFEST_KEY: {"payload": layout}})
    config = at(server, metadata=read, trust_embedding=True)
    if expected is None:
        check(config, TABLED)
        return
    with pytest.raises(StoreError, match=rf"'mine' was indexed under other payload keys; set {expected}, or index the"):
        check(config, TABLED)


@pytest.mark.parametrize("mode", ["keyword", "hybrid"])
def test_a_search_by_keywords_needs_its_sparse_vector(server: QdrantServer, pages: RetrieverConfig, mode: str) -> None:
    rows: list[tuple[Any, str, dict[str, Any]]] = [(vector, text, {}) for text, vector in TABLE.items()]
    held(server)
    fill_sparse(server.client, "terms", rows)
    fill_sparse(server.client, "plain", rows, modifier=None)
    check(at(server, collection="terms", mode=mode), TABLED)
    faults = {
        "mine": rf"has no sparse vector 'bm25', which mode '{mode}' searches: it has none; set keyword\.vector_name",
        "plain": r"has no IDF modifier on sparse vector 'bm25', which BM25 needs; set keyword\.vector_name",
    }
    for name, fault in faults.items():
        check(at(server, collection=name), TABLED)
        with pytest.raises(StoreError, match=fault):
            check(at(server, collection=name, mode=mode), TABLED)
    german = {"mode": mode, "keyword": settings(keyword={"language": "german"}).keyword}
    with pytest.raises(StoreError, match="was tokenised as english, but the query would be as german; set keyword"):
        check(pages.model_copy(update=german), make_embeddings(pages.embedding, {}))


def test_index_settings_that_are_named_must_be_the_recorded_ones() -> None:
    def indexed(changes: dict[str, Any], **named: Any) -> None:
        manifest = {"embedding": {"provider": "wordllama"}, **changes} if changes else {}
        check_index(IndexSettings.model_validate(named), "mine", recorded_settings(manifest))

    recorded = {"index": {"context": "path", "max_tokens": 128}}
    indexed(recorded, context="path", max_tokens=128)
    indexed(recorded)
    indexed({})
    with pytest.raises(StoreError, match=r"with index\.context 'path', but index\.context 'title' is expected; leave"):
        indexed(recorded, context="title")
    with pytest.raises(StoreError, match=r"with no recorded settings, but index\.context 'none' is expected; leave"):
        indexed({}, context="none")

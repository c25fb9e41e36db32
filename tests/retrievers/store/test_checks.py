from collections.abc import Sequence
from typing import Any

import pytest
from qdrant_client import models

from retrievers.config import IndexSettings, RetrieverConfig
from retrievers.config.indexing import recorded_settings
from retrievers.embedding.models import make_embeddings
from retrievers.errors import CollectionStateError, EmbeddingMismatchError
from retrievers.store import MANIFEST_KEY, check_index
from tests.support.checked import OTHER, TABLE, accepted, at, check, described, texts
from tests.support.collections import TableEmbeddings, fill, settings
from tests.support.hybrid import fill_sparse
from tests.support.qdrant_server import QdrantServer


def test_the_recorded_model_is_accepted(pages: RetrieverConfig) -> None:
    assert accepted(pages, make_embeddings(pages.embedding, {})).manifest["embedding"]["provider"] == "wordllama"


def test_another_model_than_the_recorded_one_is_refused(pages: RetrieverConfig) -> None:
    other = pages.model_copy(update={"embedding": settings(embedding={"provider": "cohere"}).embedding})
    with pytest.raises(EmbeddingMismatchError) as caught:
        check(other, TableEmbeddings({}))
    assert "was embedded by wordllama:l2_supercat_256, but the query would be embedded by cohere:embed-en" in str(
        caught.value
    )


def indexed(changes: dict[str, Any], **named: Any) -> None:
    """Check settings against a collection that `retrievers index` made."""
    manifest = {"embedding": {"provider": "wordllama"}, **changes} if changes else {}
    check_index(IndexSettings.model_validate(named), "mine", recorded_settings(manifest))


def test_index_settings_that_are_named_must_be_the_recorded_ones() -> None:
    recorded = {"index": {"context": "path", "max_tokens": 128}}
    indexed(recorded, context="path", max_tokens=128)
    indexed(recorded)
    indexed({})
    with pytest.raises(CollectionStateError) as caught:
        indexed(recorded, context="title")
    assert str(caught.value) == (
        "collection 'mine' was indexed with index.context 'path', but 'title' is expected; set index.context to the "
        "former or leave it out, or index the pages again (python -m retrievers index DIR --context title --replace)"
    )
    with pytest.raises(CollectionStateError, match=r"index\.max_tokens 128, but 256 is expected; .*--max-tokens 256"):
        indexed(recorded, max_tokens=256)


def test_what_earlier_versions_indexed_has_no_context() -> None:
    indexed({"max_tokens": 64}, context="none", max_tokens=64)
    with pytest.raises(CollectionStateError, match=r"was indexed with index\.context 'none', but 'path' is expected"):
        indexed({"max_tokens": 64}, context="path")


def test_an_index_setting_cannot_be_expected_of_a_collection_that_records_none() -> None:
    with pytest.raises(CollectionStateError, match=r"records no index settings: .*; leave index\.context out"):
        indexed({}, context="none")


def test_trust_does_not_outweigh_the_record(pages: RetrieverConfig) -> None:
    update = {"embedding": settings(embedding={"provider": "cohere"}).embedding, "trust_embedding": True}
    with pytest.raises(EmbeddingMismatchError):
        check(pages.model_copy(update=update), TableEmbeddings({}))


def test_an_unfinished_collection_is_refused(server: QdrantServer) -> None:
    fill(server.client, "mine", [[1.0]], texts("a"), metadata={MANIFEST_KEY: {"state": "indexing"}})
    with pytest.raises(CollectionStateError, match="'mine' is unfinished: an indexing run was interrupted"):
        check(at(server, trust_embedding=True), TableEmbeddings({}))


def test_a_collection_that_has_lost_points_is_refused(server: QdrantServer) -> None:
    for name, points in (("mine", 6), ("same", 4), ("more", 3)):
        manifest = {"state": "complete", "points": points, "embedding": {"provider": "python", "model": "mine:make"}}
        fill(server.client, name, list(TABLE.values()), texts(*TABLE), metadata={MANIFEST_KEY: manifest})
    with pytest.raises(CollectionStateError, match=r"'mine' holds 4 of the 6 points that were indexed; index the"):
        check(at(server), TableEmbeddings(TABLE))
    for name in ("same", "more"):
        check(at(server, collection=name), TableEmbeddings(TABLE))


@pytest.mark.parametrize("distance", [models.Distance.DOT])
def test_every_distance_is_checked_alike(server: QdrantServer, distance: models.Distance) -> None:
    params = models.VectorParams(size=3, distance=distance)
    fill(server.client, "mine", [TABLE["a"]], texts("a"), params=params)
    check(at(server), TableEmbeddings(TABLE))
    with pytest.raises(EmbeddingMismatchError):
        check(at(server), TableEmbeddings(OTHER))


def test_a_foreign_collection_is_verified_by_embedding_three_chunks_again(server: QdrantServer) -> None:
    fill(server.client, "mine", list(TABLE.values()), texts(*TABLE))
    embeddings = Recording(TABLE)
    check(at(server), embeddings)
    assert embeddings.asked == [["a", "b", "c"]]
    with pytest.raises(EmbeddingMismatchError, match=r"python:mine:make is not it: .* gives cosine 0\.000, expected"):
        check(at(server), TableEmbeddings(OTHER))
    check(at(server, trust_embedding=True), TableEmbeddings({}))


@pytest.mark.parametrize(("cosine", "accepted"), [(0.9995, True), (0.9985, False)])
def test_nearly_the_same_vectors_are_the_same_model(server: QdrantServer, cosine: float, accepted: bool) -> None:
    """Providers round; one of three chunks decides."""
    fill(server.client, "mine", list(TABLE.values()), texts(*TABLE))
    near = {**TABLE, "c": [(1 - cosine**2) ** 0.5, 0.6 * cosine, 0.8 * cosine]}
    if accepted:
        check(at(server), TableEmbeddings(near))
    else:
        with pytest.raises(EmbeddingMismatchError, match=r"cosine 0\.998"):
            check(at(server), TableEmbeddings(near))


def test_another_length_of_the_same_vectors_is_the_same_model(server: QdrantServer) -> None:
    fill(server.client, "mine", list(TABLE.values()), texts(*TABLE))
    longer = {text: [7 * x for x in vector] for text, vector in TABLE.items()}
    assert accepted(at(server), TableEmbeddings(longer)).points == len(longer)


def test_another_dimension_is_refused_with_a_hint_at_the_model(server: QdrantServer) -> None:
    fill(server.client, "mine", [[1.0] * 1024], texts("a"))
    with pytest.raises(EmbeddingMismatchError) as caught:
        check(at(server), TableEmbeddings(TABLE))
    assert "holds vectors of 1024 dimensions (as cohere (embed-english-v3.0) makes)" in str(caught.value)
    assert "but python:mine:make makes 3; set embedding.provider and embedding.model" in str(caught.value)


def test_a_named_vector_is_the_one_verified(server: QdrantServer) -> None:
    params = {name: models.VectorParams(size=3, distance=models.Distance.COSINE) for name in ("dense", "other")}
    vectors = [{"dense": vector, "other": vector[::-1]} for vector in TABLE.values()]
    fill(server.client, "mine", vectors, texts(*TABLE), params=params)
    check(at(server, vector_name="dense"), TableEmbeddings(TABLE))
    with pytest.raises(EmbeddingMismatchError, match="is not it"):
        check(at(server, vector_name="other"), TableEmbeddings(TABLE))


@pytest.mark.parametrize(
    ("vectors", "payloads"),
    [
        ([], []),
        ([TABLE["a"]], [{"text": "a"}]),
        ([TABLE["a"]], [{"page_content": ""}]),
    ],
)
def test_a_collection_without_text_to_verify_by_is_refused(
    server: QdrantServer, vectors: list[Any], payloads: list[dict[str, str]]
) -> None:
    params = models.VectorParams(size=3, distance=models.Distance.COSINE)
    fill(server.client, "mine", vectors, payloads, params=params)
    with pytest.raises(EmbeddingMismatchError, match=r"holds no vector with a text under payload key 'page_content'"):
        check(at(server), TableEmbeddings(TABLE))


def test_a_point_without_the_vector_is_passed_over(server: QdrantServer) -> None:
    params = {"dense": models.VectorParams(size=3, distance=models.Distance.COSINE)}
    fill(server.client, "mine", [{}, {"dense": TABLE["b"]}], texts("a", "b"), params=params)
    embeddings = Recording(TABLE)
    check(at(server, vector_name="dense"), embeddings)
    assert embeddings.asked == [["b"]]


def test_a_stored_zero_vector_is_nobodys(server: QdrantServer) -> None:
    fill(server.client, "mine", [TABLE["a"], [0.0, 0.0, 0.0]], texts("a", "b"))
    with pytest.raises(EmbeddingMismatchError, match=r"cosine 0\.000"):
        check(at(server), TableEmbeddings(TABLE))


class Recording(TableEmbeddings):
    def __init__(self, table: dict[str, Sequence[float]] | dict[str, list[float]]) -> None:
        super().__init__(table)
        self.asked: list[list[str]] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.asked.append(texts)
        return super().embed_documents(texts)


# Where the payload is


@pytest.mark.parametrize(
    ("written", "read", "expected"),
    [
        ({}, {"text_key": "body"}, "metadata.text_key: 'page_content'"),
        ({"nested_under": ""}, {}, "metadata.nested_under: ''"),
        ({"text_key": "body", "nested_under": ""}, {}, "metadata.text_key: 'body', metadata.nested_under: ''"),
        ({"map": {"title": "name"}}, {}, "metadata.map: {'title': 'name'}"),
        ({}, {}, None),
        ({"map": {"url": "url"}}, {}, None),  # an alias is read without being told
        ({"map": {"title": "name"}}, {"map": {"title": "heading"}}, None),  # on purpose
        ({}, {"map": {"title": "heading"}, "required": ["title"]}, None),
    ],
)
def test_a_collection_is_read_under_the_keys_it_was_indexed_under(
    server: QdrantServer, written: dict[str, Any], read: dict[str, Any], expected: str | None
) -> None:
    layout = at(server, metadata=written).metadata.layout
    recorded = {"embedding": {"provider": "python", "model": "mine:make"}, "payload": layout}
    fill(server.client, "mine", list(TABLE.values()), texts(*TABLE), metadata={MANIFEST_KEY: recorded})
    if expected is None:
        assert accepted(at(server, metadata=read), TableEmbeddings({})).points == len(TABLE)
        return
    with pytest.raises(CollectionStateError) as caught:
        check(at(server, metadata=read), TableEmbeddings({}))
    assert str(caught.value) == (
        f"collection 'mine' was indexed under other payload keys; expected {expected}; set that, or index the pages "
        "again with the keys that are set (python -m retrievers index DIR)"
    )


# What keyword and hybrid search need


@pytest.fixture
def sparse(server: QdrantServer) -> QdrantServer:
    """A foreign collection with BM25 vectors, and one whose sparse vectors lack the modifier."""
    rows: list[tuple[Any, str, dict[str, Any]]] = [(vector, text, {}) for text, vector in TABLE.items()]
    fill_sparse(server.client, "mine", rows)
    fill_sparse(server.client, "plain", rows, modifier=None)
    return server


@pytest.mark.parametrize("mode", ["semantic", "keyword", "hybrid"])
def test_a_collection_with_term_weights_is_accepted_in_every_mode(sparse: QdrantServer, mode: str) -> None:
    assert accepted(at(sparse, mode=mode), TableEmbeddings(TABLE)).sparse_vectors == ("bm25",)


@pytest.mark.parametrize("mode", ["keyword", "hybrid"])
def test_a_collection_without_sparse_vectors_is_told_how_to_index_it(server: QdrantServer, mode: str) -> None:
    fill(server.client, "mine", list(TABLE.values()), texts(*TABLE))
    with pytest.raises(CollectionStateError) as caught:
        check(at(server, mode=mode), TableEmbeddings(TABLE))
    assert str(caught.value) == (
        f"collection 'mine' has no sparse vector 'bm25', which mode '{mode}' searches: it has none; "
        "set keyword.vector_name, search by meaning alone (mode: semantic), or index the pages again (python -m "
        "retrievers index DIR --replace)"
    )
    check(at(server), TableEmbeddings(TABLE))


def test_another_name_of_the_sparse_vector_is_told(sparse: QdrantServer) -> None:
    with pytest.raises(
        CollectionStateError, match=r"no sparse vector 'terms', .* it has 'bm25'; set keyword.vector_name"
    ):
        check(at(sparse, mode="hybrid", keyword={"vector_name": "terms"}), TableEmbeddings(TABLE))


def test_sparse_vectors_without_the_modifier_are_no_bm25(sparse: QdrantServer) -> None:
    config = at(sparse, mode="keyword", collection="plain")
    assert described(config).without_idf == ("bm25",)
    assert described(at(sparse)).without_idf == ()
    with pytest.raises(CollectionStateError, match="'bm25' of collection 'plain' has no IDF modifier"):
        check(config, TableEmbeddings(TABLE))
    check(at(sparse, collection="plain"), TableEmbeddings(TABLE))


@pytest.mark.parametrize("mode", ["keyword", "hybrid"])
def test_another_language_than_the_recorded_one_is_refused(pages: RetrieverConfig, mode: str) -> None:
    german = settings(keyword={"language": "german"}).keyword
    config = pages.model_copy(update={"mode": mode, "keyword": german})
    with pytest.raises(CollectionStateError) as caught:
        check(config, make_embeddings(pages.embedding, {}))
    assert str(caught.value) == (
        "collection 'pages' was tokenised as english, but the query would be as german; "
        "set keyword.language to the former"
    )
    check(config.model_copy(update={"mode": "semantic"}), make_embeddings(pages.embedding, {}))

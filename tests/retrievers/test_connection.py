"""Opening a store, and what must hold before a collection may be queried; folders and a server on the loopback."""

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings
from qdrant_client import QdrantClient, models

from retrievers.config import RetrieverConfig
from retrievers.connection import (
    MANIFEST_KEY,
    CollectionInfo,
    all_or_nothing,
    check_collection,
    describe,
    location,
    open_client,
    store_errors,
)
from retrievers.embeddings import make_embeddings
from retrievers.errors import (
    CollectionNotFoundError,
    CollectionStateError,
    ConfigError,
    EmbeddingMismatchError,
    StoreError,
    StoreLockedError,
    StoreTimeoutError,
    StoreUnreachableError,
)
from retrievers.retriever import QdrantRetriever
from retrievers.retry import ATTEMPTS
from tests.support.collections import TableEmbeddings, embedded, fill, index_pages, indexed, settings, write_pages
from tests.support.hybrid import fill_sparse
from tests.support.loopback import free_port
from tests.support.qdrant_server import FAULTS, KEY, QdrantServer

TABLE = {"a": [1.0, 0.0, 0.0], "b": [0.6, 0.8, 0.0], "c": [0.0, 0.6, 0.8], "d": [0.0, 0.0, 1.0]}
OTHER = {text: vector[::-1] for text, vector in TABLE.items()}


@pytest.fixture
def server() -> Iterator[QdrantServer]:
    with QdrantServer() as running:
        yield running


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> RetrieverConfig:
    """An embedded store that holds the pages; to be read only."""
    return indexed(tmp_path_factory.mktemp("connection"))


def at(server: QdrantServer, **values: Any) -> RetrieverConfig:
    own = {"provider": "python", "model": "mine:make"}
    return settings(**{"store": {"url": server.url}, "collection": "mine", "embedding": own, **values})


def described(config: RetrieverConfig) -> CollectionInfo:
    client = open_client(config.store, {})
    try:
        return describe(client, config)
    finally:
        client.close()


def check(config: RetrieverConfig, embeddings: Embeddings) -> None:
    accepted(config, embeddings)


def accepted(config: RetrieverConfig, embeddings: Embeddings) -> CollectionInfo:
    """What a collection says of itself that passed its checks."""
    client = open_client(config.store, {})
    try:
        info = describe(client, config)
        check_collection(client, config, embeddings, info)
        return info
    finally:
        client.close()


def texts(*names: str) -> list[dict[str, str]]:
    return [{"page_content": name} for name in names]


# Embedded folders


def test_a_folder_that_does_not_exist_is_named_and_not_made(tmp_path: Path) -> None:
    config = settings(store={"path": str(tmp_path / "none")})
    with pytest.raises(StoreUnreachableError, match=r"no embedded store at .*none: index pages into it first"):
        open_client(config.store, {})
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(StoreUnreachableError):
        open_client(settings(store={"path": str(tmp_path)}).store, {})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("create", [False, True])
def test_a_file_in_place_of_the_folder_is_named(tmp_path: Path, create: bool) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnreachableError, match=str(tmp_path / "file")):
        open_client(settings(store={"path": str(tmp_path / "file")}).store, {}, create=create)


def test_indexing_may_make_the_folder(tmp_path: Path) -> None:
    open_client(settings(store={"path": str(tmp_path / "new")}).store, {}, create=True).close()
    assert (tmp_path / "new" / "edge.json").is_file()


def test_a_folder_is_read_by_several_and_written_to_by_one(pages: RetrieverConfig) -> None:
    first, second = open_client(pages.store, {}, create=True), open_client(pages.store, {}, create=True)
    with all_or_nothing(first, "pages"):
        assert second.count("pages").count == first.count("pages").count > 0
        with pytest.raises(StoreLockedError, match="writ"):
            second.delete_collection("pages")
    first.close()
    second.close()


def test_a_folder_of_the_clients_local_mode_is_to_be_indexed_again(tmp_path: Path) -> None:
    QdrantClient(path=str(tmp_path / "old")).close()
    with pytest.raises(StoreError, match="index"):
        open_client(settings(store={"path": str(tmp_path / "old")}).store, {})


def test_a_database_that_fails_later_is_a_store_error() -> None:
    config = settings(store={"path": "p"}, collection="c")
    with pytest.raises(
        StoreError, match=r"collection 'c' at p: cannot be read or written \(OperationalError: readonly"
    ):
        with store_errors(config.store, config.collection):
            raise sqlite3.OperationalError("readonly database")


def test_a_store_is_where_it_says_or_in_the_working_folder() -> None:
    assert location(settings(store={"url": "http://h:1"}).store) == "http://h:1"
    assert location(settings(store={"path": "a/b"}).store) == "a/b"
    assert location(settings().store) == ".qdrant"


# What a collection says of itself


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


# Whether a query may be compared with what it holds


def test_the_recorded_model_is_accepted(pages: RetrieverConfig) -> None:
    assert accepted(pages, make_embeddings(pages.embedding, {})).manifest["embedding"]["provider"] == "wordllama"


def test_another_model_than_the_recorded_one_is_refused(pages: RetrieverConfig) -> None:
    other = pages.model_copy(update={"embedding": settings(embedding={"provider": "cohere"}).embedding})
    with pytest.raises(EmbeddingMismatchError) as caught:
        check(other, TableEmbeddings({}))
    assert "was embedded by wordllama:l2_supercat_256, but the query would be embedded by cohere:embed-en" in str(
        caught.value
    )


def test_trust_does_not_outweigh_the_record(pages: RetrieverConfig) -> None:
    update = {"embedding": settings(embedding={"provider": "cohere"}).embedding, "trust_embedding": True}
    with pytest.raises(EmbeddingMismatchError):
        check(pages.model_copy(update=update), TableEmbeddings({}))


def test_an_unfinished_collection_is_refused(server: QdrantServer) -> None:
    fill(server.client, "mine", [[1.0]], texts("a"), metadata={MANIFEST_KEY: {"state": "indexing"}})
    with pytest.raises(CollectionStateError, match="'mine' is unfinished: an indexing run was interrupted"):
        check(at(server, trust_embedding=True), TableEmbeddings({}))


@pytest.mark.parametrize("distance", [models.Distance.DOT, models.Distance.EUCLID, models.Distance.MANHATTAN])
def test_another_distance_than_cosine_is_refused(server: QdrantServer, distance: models.Distance) -> None:
    params = models.VectorParams(size=3, distance=distance)
    fill(server.client, "mine", [TABLE["a"]], texts("a"), params=params)
    with pytest.raises(CollectionStateError, match=f"uses the {distance.value.lower()} distance; expected cosine"):
        check(at(server, trust_embedding=True), TableEmbeddings(TABLE))


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


# Servers


def test_the_key_goes_into_the_header_of_every_request(server: QdrantServer) -> None:
    server.api_key = KEY
    fill(server.client, "mine", [[1.0]], texts("a"))
    config = at(server)
    client = open_client(config.store, {"QDRANT_API_KEY": f"{KEY}\n"})
    assert describe(client, config).points == 1
    client.close()
    assert {request.headers["api-key"] for request in server.requests} == {KEY}


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({}, "answered 401 Unauthorized: the API key was refused; expected it in TEAM_KEY"),
        ({"TEAM_KEY": "SECRET-other"}, "answered 403 Forbidden: the API key in TEAM_KEY may not do this"),
    ],
)
def test_a_missing_or_wrong_key_names_its_variable_and_not_the_key(
    server: QdrantServer, env: dict[str, str], message: str
) -> None:
    server.api_key = KEY
    config = at(server, store={"url": server.url, "api_key_env": "TEAM_KEY"})
    client = open_client(config.store, env)
    with pytest.raises(StoreError) as caught:
        describe(client, config)
    client.close()
    assert str(caught.value) == f"collection 'mine' at {server.url}: {message}"


def test_a_key_that_no_header_can_carry_is_not_shown(server: QdrantServer) -> None:
    with pytest.raises(ConfigError) as caught:
        open_client(at(server).store, {"QDRANT_API_KEY": "SEC\nRET"})
    assert str(caught.value).startswith("QDRANT_API_KEY: holds a line break")


@pytest.mark.parametrize(
    ("fault", "message", "requests"),
    [
        ("401", "answered 401 Unauthorized: the API key was refused; expected it in QDRANT_API_KEY", 1),
        ("403", "answered 403 Forbidden: the API key in QDRANT_API_KEY may not do this", 1),
        ("404", "answered 404 Not Found: not found; is the address that of Qdrant itself?", 1),
        ("429", "answered 429 Too Many Requests: requests come too fast; wait, and try again", 4),
        ("429 with Retry-After", "answered 429 Too Many Requests: requests come too fast; wait, and try again", 4),
        ("500", "answered 500 Internal Server Error: panicked; see the log of the server", 4),
        ("502 HTML", "answered 502 Bad Gateway: see the log of the server", 4),
        ("200 HTML", "answered something that is not Qdrant's; is the address right?", 1),
        ("200 truncated", "answered something that is not Qdrant's; is the address right?", 1),
        ("200 other", "answered something that is not Qdrant's; is the address right?", 1),
    ],
)
def test_every_fault_of_a_server_is_a_store_error_with_a_remedy(
    server: QdrantServer, fault: str, message: str, requests: int
) -> None:
    with server.failing(FAULTS[fault]), pytest.raises(StoreError) as caught:
        described(at(server))
    said, _, tried = str(caught.value).partition(" (")
    assert said == f"collection 'mine' at {server.url}: {message}"
    assert tried.startswith("4 attempts in ") == (requests == ATTEMPTS)
    assert len(server.requests) == requests


def test_a_server_that_does_not_answer_is_a_timeout(server: QdrantServer) -> None:
    config = at(server, store={"url": server.url, "timeout_s": 0.2})
    with server.failing(FAULTS["slow"]), pytest.raises(StoreTimeoutError) as caught:
        described(config)
    assert "no answer within 0.2 s; raise store.timeout_s" in str(caught.value)
    assert len(server.requests) == ATTEMPTS


def test_nobody_listening_is_unreachable() -> None:
    config = settings(store={"url": f"http://127.0.0.1:{free_port()}"})
    with pytest.raises(StoreUnreachableError, match=r"cannot be reached \(ConnectError: .*is the server running"):
        described(config)


def test_an_old_server_that_drops_the_metadata_is_refused_for_indexing(server: QdrantServer, tmp_path: Path) -> None:
    server.keeps_metadata = False
    config = settings(store={"url": server.url}, collection="pages")
    with pytest.raises(CollectionStateError, match=r"does not keep collection metadata; indexing needs version 1\.16"):
        index_pages(config, write_pages(tmp_path))
    assert server.client.get_collections().collections == []


def test_an_old_servers_collection_can_be_searched_once_verified(server: QdrantServer) -> None:
    server.keeps_metadata = False
    fill(server.client, "mine", list(TABLE.values()), texts(*TABLE))
    with QdrantRetriever.open(at(server), env={}, embeddings=TableEmbeddings(TABLE)) as retriever:
        assert [c.chunk.text for c in retriever.search("b").chunks] == ["b", "a", "c"]


def test_an_embedded_folder_holds_what_a_plain_client_wrote(tmp_path: Path) -> None:
    with embedded(tmp_path) as client:
        fill(client, "mine", list(TABLE.values()), texts(*TABLE), metadata={MANIFEST_KEY: {"any": 1}})
    info = described(settings(store={"path": str(tmp_path)}, collection="mine"))
    assert (info.points, info.manifest) == (4, {"any": 1})
    assert (tmp_path / "edge.json").is_file()


def test_a_closed_client_is_closed(pages: RetrieverConfig) -> None:
    client: QdrantClient = open_client(pages.store, {})
    client.close()
    with pytest.raises((RuntimeError, StoreError), match="closed"):
        describe(client, pages)


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
        "set keyword.vector_name, or index the pages again (python -m retrievers index DIR --replace)"
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

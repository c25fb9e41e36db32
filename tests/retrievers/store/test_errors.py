from pathlib import Path

import pytest
from qdrant_client import QdrantClient

from retrievers import QdrantRetriever
from retrievers.config import RetrieverConfig
from retrievers.errors import CollectionStateError, ConfigError, StoreError, StoreTimeoutError, StoreUnreachableError
from retrievers.store import MANIFEST_KEY, describe, open_client
from tests.support.checked import TABLE, at, described, texts
from tests.support.clock import ATTEMPTS
from tests.support.collections import TableEmbeddings, embedded, fill, index_pages, settings, write_pages
from tests.support.loopback import free_port
from tests.support.qdrant_server import FAULTS, KEY, QdrantServer


def test_the_key_goes_into_the_header_of_every_request(server: QdrantServer) -> None:
    server.rules.api_key = KEY
    fill(server.client, "mine", [[1.0]], texts("a"))
    config = at(server)
    client = open_client(config.store, {"QDRANT_API_KEY": f"{KEY}\n"})
    assert describe(client, config).points == 1
    client.close()
    assert {request.headers["api-key"] for request in server.requests} == {KEY}


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (
            {},
            "answered 401 Unauthorized: it wants an API key, and none was sent; set TEAM_KEY",
        ),
        (
            {"TEAM_KEY": "SECRET-other"},
            "answered 401 Unauthorized: the API key in TEAM_KEY was refused (Invalid API key or JWT)",
        ),
    ],
)
def test_a_missing_or_wrong_key_names_its_variable_and_not_the_key(
    server: QdrantServer, env: dict[str, str], message: str
) -> None:
    server.rules.api_key = KEY
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
        ("401", "answered 401 Unauthorized: it wants an API key, and none was sent", 1),
        ("403", "answered 403 Forbidden: the API key in QDRANT_API_KEY may not do this", 1),
        ("404", "answered 404 Not Found: not found (no such path); is the address that of Qdrant itself?", 1),
        ("429", "answered 429 Too Many Requests: requests come too fast (Rate limit); wait, and try again", ATTEMPTS),
        ("500", "answered 500 Internal Server Error: panicked; see the log of the server", ATTEMPTS),
        ("503", "answered 503 Service Unavailable: see the log of the server", ATTEMPTS),
        ("502 HTML", "answered 502 Bad Gateway: see the log of the server", ATTEMPTS),
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
    assert str(caught.value).startswith(f"collection 'mine' at {server.url}: {message}")
    assert (f" ({ATTEMPTS} attempts in " in str(caught.value)) == (requests == ATTEMPTS)
    assert len(server.requests) == requests


@pytest.mark.slow
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
        assert [c.chunk.text for c in retriever.search("b").chunks][:3] == ["b", "a", "c"]


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

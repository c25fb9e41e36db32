"""The same over gRPC as over HTTP: results, what is tried again, what each fault says, TLS."""

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Timer
from typing import Any

import grpc
import pytest

from retrievers.config import RetrieverConfig
from retrievers.errors import ConfigError, StoreError, StoreTimeoutError, StoreUnreachableError
from retrievers.net import deadline
from retrievers.net.patience import patient
from retrievers.retriever.qdrant import QdrantRetriever
from retrievers.store import describe, open_client
from tests.support.clock import Clock
from tests.support.collections import index_pages, settings, write_pages
from tests.support.loopback import free_port
from tests.support.qdrant_grpc import GrpcFront
from tests.support.qdrant_rules import Rules, recorded
from tests.support.qdrant_server import FAULTS, KEY, QdrantServer
from tests.support.tls import authority

Signed = tuple[Path, grpc.ServerCredentials]
QUERY = "who sends messages to listeners"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[QdrantServer, RetrieverConfig]]:
    with QdrantServer() as server, GrpcFront(server) as front:
        config = settings(store=over_grpc(server.url, front.port), collection="pages", threshold=0)
        index_pages(config, write_pages(tmp_path_factory.mktemp("pages")))
        yield server, config


@pytest.fixture
def server(running: tuple[QdrantServer, RetrieverConfig]) -> Iterator[QdrantServer]:
    server, _ = running
    yield server
    server.rules = Rules()


@pytest.fixture
def config(running: tuple[QdrantServer, RetrieverConfig]) -> RetrieverConfig:
    return running[1]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(deadline, "WAITING", clock.waiting())
    return clock


def over_grpc(url: str, port: int, **more: Any) -> dict[str, Any]:
    return {"url": url, "prefer_grpc": True, "grpc_port": port, **more}


def points(config: RetrieverConfig, env: dict[str, str] | None = None) -> int:
    client = open_client(config.store, env or {})
    try:
        return describe(client, config).points
    finally:
        client.close()


@pytest.mark.parametrize("mode", ["semantic", "keyword", "hybrid"])
def test_grpc_gives_what_http_gives(server: QdrantServer, config: RetrieverConfig, mode: str) -> None:
    shown = []
    for store in (config.store, settings(store={"url": server.url}).store):
        with QdrantRetriever.open(config.model_copy(update={"mode": mode, "store": store}), env={}) as retriever:
            batch = retriever.candidates([QUERY, "the glossary"])
            found = [[(c.chunk, c.score) for c in candidates] for candidates in batch]
            shown.append((found, retriever.sample(3), retriever.chunks({"source_url": ["/docs/ros2/topics"]})))
    assert shown[0] == shown[1]
    assert len(shown[0][0][0]) >= 3


@pytest.mark.parametrize("fault", ["500", "503", "reset"])
def test_what_passes_is_tried_again(server: QdrantServer, config: RetrieverConfig, clock: Clock, fault: str) -> None:
    with QdrantRetriever.open(config, env={}) as retriever, server.failing(replace(FAULTS[fault], times=3)):
        assert retriever.search(QUERY).status == "success"
    assert clock.waits == [0.5, 1.0, 2.0]


def test_a_wait_that_is_asked_for_is_waited(server: QdrantServer, config: RetrieverConfig, clock: Clock) -> None:
    with QdrantRetriever.open(config, env={}) as retriever:
        with server.failing(replace(FAULTS["429 with Retry-After"], times=3)):
            assert retriever.search(QUERY).status == "success"
    assert clock.waits == [7.5, 7.5, 7.5]


def test_silence_is_a_timeout(server: QdrantServer, config: RetrieverConfig) -> None:
    store = config.store.model_copy(update={"timeout_s": 0.2})
    with server.failing(FAULTS["slow"]), pytest.raises(StoreTimeoutError) as caught:
        points(config.model_copy(update={"store": store}))
    assert "no answer in time over gRPC; raise store.timeout_s" in str(caught.value)
    assert "(4 attempts in" in str(caught.value)


def test_nobody_listening_names_both_ports(clock: Clock) -> None:
    port = free_port()
    config = settings(store=over_grpc("http://127.0.0.1:6333", port), collection="pages")
    with pytest.raises(StoreUnreachableError) as caught:
        points(config)
    assert f"cannot be reached over gRPC at port {port} (" in str(caught.value)
    assert "are store.url and store.grpc_port right? (4 attempts in 3.5 s)" in str(caught.value)


def test_a_patient_run_outlives_a_restart(
    server: QdrantServer, config: RetrieverConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadline, "WAITING", deadline.Waiting(jitter=lambda low, high: 0.1))
    first, port = GrpcFront(server), free_port()
    with first:
        store = config.store.model_copy(update={"grpc_port": first.port})
        retriever = QdrantRetriever.open(config.model_copy(update={"store": store}), env={})
        assert retriever.search(QUERY).status == "success"
        port = first.port
    second = GrpcFront(server, port=port)
    again = Timer(0.8, second.__enter__)
    again.start()
    with patient(20), retriever:
        start = time.perf_counter()
        assert retriever.search(QUERY, use_cache=False).status == "success"
        assert time.perf_counter() - start > 0.7
    again.join()
    second.__exit__()


@pytest.mark.parametrize(
    ("rules", "env", "message"),
    [
        (
            Rules(api_key=KEY),
            {},
            "UNAUTHENTICATED: it wants an API key, and none was sent; set QDRANT_API_KEY",
        ),
        (
            Rules(api_key=KEY),
            {"QDRANT_API_KEY": "other"},
            "UNAUTHENTICATED: the API key in QDRANT_API_KEY was refused (Invalid API key or JWT)",
        ),
        (
            Rules(scope="my_documents"),
            {"QDRANT_API_KEY": KEY},
            "PERMISSION_DENIED: the API key in QDRANT_API_KEY may not do this (Forbidden: Access to collection pages",
        ),
    ],
)
def test_a_key_that_is_refused_says_what_to_do(
    server: QdrantServer, config: RetrieverConfig, rules: Rules, env: dict[str, str], message: str
) -> None:
    server.rules = rules
    with pytest.raises(StoreError) as caught:
        points(config, env)
    assert message in str(caught.value)


@pytest.mark.parametrize("case", ["wrong dimension", "strict limit", "strict batch", "missing collection"])
def test_the_servers_own_words_are_shown(case: str, config: RetrieverConfig) -> None:
    from retrievers.store.grpc_errors import grpc_error

    record = next(one for one in recorded("grpc-errors") if one["case"] == case)

    class Refused(grpc.RpcError):  # type: ignore[misc]
        def code(self) -> Any:
            return grpc.StatusCode[record["code"]]

        def details(self) -> str:
            said: str = record["details"]
            return said

    typed = grpc_error(Refused(), "here", config.store, True)
    assert typed is not None and record["details"][:60] in str(typed) and not typed.transient


# TLS


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    folder = tmp_path_factory.mktemp("authority")
    ca, _ = authority(folder)
    pair = (folder / "server.pem").read_bytes()
    return ca, grpc.ssl_server_credentials([(pair, pair)])


@pytest.mark.parametrize("by_variable", [False, True])
def test_a_private_authority_is_trusted_by_its_file(
    server: QdrantServer,
    signed: tuple[Path, grpc.ServerCredentials],
    monkeypatch: pytest.MonkeyPatch,
    by_variable: bool,
) -> None:
    ca, credentials = signed
    if by_variable:
        monkeypatch.setenv("SSL_CERT_FILE", str(ca))
    with GrpcFront(server, credentials) as front:
        file = {} if by_variable else {"ca_file": str(ca)}
        store = over_grpc("https://127.0.0.1:6333", front.port, **file)
        assert points(settings(store=store, collection="pages")) == 9


def test_an_unknown_authority_is_refused_at_once(server: QdrantServer, signed: Signed, clock: Clock) -> None:
    with GrpcFront(server, signed[1]) as front, pytest.raises(StoreError, match=r"is not trusted .*store\.ca_file"):
        points(settings(store=over_grpc("https://127.0.0.1:6333", front.port), collection="pages"))
    assert clock.waits == []


def test_a_port_without_tls_says_so(config: RetrieverConfig, clock: Clock) -> None:
    store = over_grpc("https://127.0.0.1:6333", config.store.grpc_port)
    with pytest.raises(StoreUnreachableError, match="does not speak TLS: write http://"):
        points(settings(store=store, collection="pages"))


def test_a_file_that_is_missing_is_a_wrong_setting(tmp_path: Path) -> None:
    store = over_grpc("https://127.0.0.1:1", 1, ca_file=str(tmp_path / "ca.pem"))
    with pytest.raises(ConfigError, match=r"store\.ca_file '.*ca\.pem'"):
        points(settings(store=store, collection="pages"))


@pytest.mark.parametrize("grpc", [True, False])
def test_a_pipe_of_certificates_is_not_waited_for(grpc: bool, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ca.pem")
    store = {"url": "https://127.0.0.1:1", "ca_file": str(tmp_path / "ca.pem"), "prefer_grpc": grpc}
    with pytest.raises(ConfigError, match=r"ca\.pem: expected a PEM file of certificates, found a pipe"):
        points(settings(store=store, collection="pages"))


def test_the_port_of_http_is_not_that_of_grpc(server: QdrantServer, clock: Clock) -> None:
    port = int(server.url.rpartition(":")[2])
    with pytest.raises(StoreError, match=r"store\.grpc_port"):
        points(settings(store=over_grpc(server.url, port), collection="pages"))

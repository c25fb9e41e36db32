"""A Qdrant server and Cohere over HTTP: every fault in every stage, TLS, and the same results as an embedded store."""

import logging
import ssl
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from retrievers import QdrantRetriever
from retrievers.config import RetrieverConfig
from retrievers.errors import (
    ConfigError,
    EmbeddingError,
    RerankError,
    RetrievalError,
    StoreError,
    StoreTimeoutError,
    StoreUnreachableError,
)
from retrievers.store import describe, open_client
from tests.support import cohere_server, qdrant_server
from tests.support.clock import ATTEMPTS, TRIED, Clock, patient
from tests.support.cohere_server import CohereServer
from tests.support.collections import index_pages, settings, write_pages
from tests.support.loopback import Fault, LoopbackServer, Reply, Request, free_port
from tests.support.qdrant_server import QdrantServer
from tests.support.raw_server import HEAD, drip, raw_server
from tests.support.tls import authority
from tests.support.tls_alert import TlsAlert

# the Cohere libraries call what Pydantic deprecates; it is silenced where they are built, here once for many tests
pytestmark = pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning")

ENV = {"COHERE_API_KEY": cohere_server.KEY}
QUERY = "who sends messages to listeners"
STAGES = {"embed": "/v1/embed", "search": "/points/query", "rerank": "/v2/rerank"}
FAILED = {
    "embed": "cohere:embed-english-v3.0 failed to embed: ",
    "search": "collection 'pages' at ",
    "rerank": "cohere:rerank-v3.5 failed to rerank ",
}
NAMES = {"embed": "embed", "search": "store", "rerank": "rerank"}
TYPES: dict[str, type[RetrievalError]] = {"embed": EmbeddingError, "search": StoreError, "rerank": RerankError}
PASSING = ["429", "429 with Retry-After", "500", "502 HTML", "reset", "torn"]
LASTING = ["401", "403", "404", "200 HTML", "200 truncated"]
COHERE_NAMES = {"200 HTML": "html", "200 truncated": "truncated"}


class Provider(CohereServer):
    """Embeds, and reranks by the length of the texts."""

    def answer(self, request: Request) -> Reply:
        if request.path != "/v2/rerank":
            return super().answer(request)
        texts = request.body["documents"]
        results = [{"index": i, "relevance_score": 1 / (1 + len(text))} for i, text in enumerate(texts)]
        return Reply.json({"id": "0", "results": results, "meta": {}})


class World(NamedTuple):
    """Two servers and the settings of a search that asks both."""

    store: QdrantServer
    provider: Provider
    config: RetrieverConfig

    def at(self, stage: str) -> LoopbackServer:
        return self.store if stage == "search" else self.provider

    def fault(self, stage: str, name: str, **changes: Any) -> Fault:
        faults = qdrant_server.FAULTS if stage == "search" else cohere_server.FAULTS
        key = name if stage == "search" else COHERE_NAMES.get(name, name)
        return replace(faults[key], on=STAGES[stage], **changes)

    def asked(self, stage: str) -> int:
        """Return the number of requests of the stage."""
        return sum(request.path.endswith(STAGES[stage]) for request in self.at(stage).requests)

    def forget(self) -> None:
        self.store.requests.clear()
        self.provider.requests.clear()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with QdrantServer() as store, Provider() as provider:
        config = settings(
            store={"url": store.url},
            collection="pages",
            embedding={"provider": "cohere", "base_url": provider.url},
            rerank="cross-encoder",
            cross_encoder={"provider": "cohere", "base_url": provider.url},
            threshold=0,
        )
        index_pages(config, write_pages(tmp_path_factory.mktemp("pages")), ENV)
        yield World(store, provider, config)


@pytest.fixture(scope="module")
def opened(running: World) -> Iterator[QdrantRetriever]:
    with QdrantRetriever.open(running.config, env=ENV) as retriever:
        yield retriever


@pytest.fixture
def world(running: World, opened: QdrantRetriever) -> World:
    """The servers, with the retriever opened and its requests forgotten."""
    running.forget()
    return running


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock().rules(monkeypatch)


def impatient(config: RetrieverConfig, **values: Any) -> RetrieverConfig:
    """The same with 0.2 s for each request."""
    parts = {name: getattr(config, name) for name in ("store", "embedding", "cross_encoder")}
    short = {name: part.model_copy(update={"timeout_s": 0.2}) for name, part in parts.items()}
    return config.model_copy(update={**short, **values})


# Every fault in every stage


def test_without_a_fault_each_stage_is_one_request(world: World, opened: QdrantRetriever) -> None:
    session = opened.search(QUERY)
    assert (session.status, session.chunks[0].score_scale) == ("success", "rerank")
    assert [world.asked(stage) for stage in STAGES] == [1, 1, 1]


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("fault", sorted({*PASSING} - {"429 with Retry-After"}))
def test_a_fault_that_may_pass_is_repeated_for_five_seconds(
    world: World, opened: QdrantRetriever, clock: Clock, stage: str, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    with world.at(stage).failing(world.fault(stage, fault)):
        session = opened.search(QUERY)
    assert (session.status, session.chunks, world.asked(stage)) == ("error", (), ATTEMPTS)
    assert (session.error or "").startswith(FAILED[stage])
    assert (session.error or "").endswith(TRIED)
    assert clock.waits == [0.25, 0.5, 1, 2, 2]
    logged = [(r.levelname, r.__dict__["stage"], r.__dict__["attempt"]) for r in caplog.records]
    assert logged == [("WARNING", NAMES[stage], 1), ("ERROR", NAMES[stage], ATTEMPTS)]


@pytest.mark.parametrize("stage", STAGES)
def test_who_asks_to_wait_is_waited_for_in_a_run(
    world: World, opened: QdrantRetriever, clock: Clock, stage: str
) -> None:
    with world.at(stage).failing(world.fault(stage, "429 with Retry-After", times=3)), patient(60):
        session = opened.search(QUERY)
    assert (session.status, world.asked(stage), clock.waits) == ("success", 4, [7, 7, 7])


@pytest.mark.parametrize("stage", STAGES)
def test_a_longer_wait_than_an_application_has_is_refused_at_once(
    world: World, opened: QdrantRetriever, clock: Clock, stage: str
) -> None:
    with world.at(stage).failing(world.fault(stage, "429 with Retry-After")):
        session = opened.search(QUERY)
    assert (session.status, world.asked(stage), clock.waits) == ("error", 1, [])
    assert (session.error or "").endswith(" (asked to wait 7 s, more than 5 s)")


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("fault", LASTING)
def test_a_fault_that_lasts_is_one_request(
    world: World, opened: QdrantRetriever, clock: Clock, stage: str, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    with world.at(stage).failing(world.fault(stage, fault)):
        session = opened.search(QUERY)
    assert (session.status, world.asked(stage), clock.waits) == ("error", 1, [])
    assert (session.error or "").startswith(FAILED[stage])
    assert "attempt" not in (session.error or "")
    assert [r.levelno for r in caplog.records] == [logging.ERROR]


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("fault", sorted({*PASSING} - {"429 with Retry-After"}))
def test_a_fault_that_passed_leaves_no_trace_in_the_result(
    world: World, opened: QdrantRetriever, clock: Clock, stage: str, fault: str
) -> None:
    expected = [(c.chunk.chunk_id, c.score) for c in opened.search(QUERY).chunks]
    world.forget()
    with world.at(stage).failing(world.fault(stage, fault, times=3)):
        session = opened.search(QUERY)
    assert (session.status, world.asked(stage)) == ("success", 4)
    assert [(c.chunk.chunk_id, c.score) for c in session.chunks] == expected


@pytest.mark.parametrize("stage", STAGES)
def test_invoke_raises_the_type_of_the_stage(world: World, opened: QdrantRetriever, clock: Clock, stage: str) -> None:
    with world.at(stage).failing(world.fault(stage, "500")), pytest.raises(TYPES[stage]) as caught:
        opened.invoke(QUERY)
    assert (caught.value.transient, caught.value.attempts, caught.value.stage) == (True, ATTEMPTS, NAMES[stage])


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.slow
def test_a_stage_that_stays_silent_is_a_timeout(world: World, clock: Clock, stage: str) -> None:
    with QdrantRetriever.open(impatient(world.config), env=ENV) as retriever:
        world.forget()
        with world.at(stage).failing(world.fault(stage, "slow")):
            session = retriever.search(QUERY)
    assert (session.status, world.asked(stage)) == ("timeout", ATTEMPTS)
    assert "no answer" in (session.error or "") and TRIED in (session.error or "")


def test_vectors_of_a_wrong_dimension_are_refused_at_once(world: World, opened: QdrantRetriever, clock: Clock) -> None:
    reply = cohere_server.embedded([QUERY], [[1.0, 0.0]])
    with world.provider.failing(Fault(reply=reply, on=STAGES["embed"])):
        session = opened.search(QUERY)
    assert (session.status, [world.asked(stage) for stage in STAGES]) == ("error", [1, 0, 0])
    assert "holds vectors of 32 dimensions, but cohere:embed-english-v3.0 made one of 2" in (session.error or "")


def test_a_batch_with_an_answer_missing_is_refused_at_once(world: World, opened: QdrantRetriever, clock: Clock) -> None:
    reply = cohere_server.embedded(["one"])
    with world.provider.failing(Fault(reply=reply, on=STAGES["embed"])), pytest.raises(EmbeddingError) as caught:
        opened.candidates(["one", "two"])
    assert "returned 1 vectors for 2 texts" in str(caught.value)
    assert [world.asked(stage) for stage in STAGES] == [1, 0, 0]


def test_nobody_listening_is_told_in_either_place(world: World, clock: Clock) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    gone = world.config.model_copy(update={"store": settings(store={"url": nobody}).store})
    with pytest.raises(StoreUnreachableError, match=r"ConnectError.*\(6 attempts in 5\.8 s\)$"):
        QdrantRetriever.open(gone, env=ENV)
    embedding = world.config.embedding.model_copy(update={"base_url": nobody})
    with QdrantRetriever.open(world.config.model_copy(update={"embedding": embedding}), env=ENV) as retriever:
        session = retriever.search(QUERY)
    assert "ConnectError" in (session.error or "") and (session.error or "").endswith(TRIED)


@pytest.mark.parametrize("times", [1, 3])
def test_one_request_of_a_hybrid_search_is_repeated_alone(world: World, clock: Clock, times: int) -> None:
    hybrid = world.config.model_copy(update={"mode": "hybrid", "rerank": "none"})
    with QdrantRetriever.open(hybrid, env=ENV) as retriever:
        world.forget()
        assert retriever.search(QUERY).status == "success"
        plain = world.asked("search")
        world.forget()
        with world.store.failing(world.fault("search", "500", times=times)):
            assert retriever.search(QUERY).status == "success"
        assert world.asked("search") == plain + times


def test_mmr_asks_a_server_once_for_candidates_and_then_for_their_vectors(world: World) -> None:
    with QdrantRetriever.open(world.config.model_copy(update={"rerank": "mmr"}), env=ENV) as retriever:
        world.forget()
        assert retriever.search(QUERY).status == "success"
    paths = [request.path.partition("/pages/")[2] for request in world.store.requests]
    assert paths[0] == "points/query" and {*paths[1:]} == {"points"}
    assert [bool(r.body.get("with_vector")) for r in world.store.requests[1:]].count(True) == 1


# Writing


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["429", "500", "reset", "torn"])
@pytest.mark.parametrize("on", ["/pages/points", "/exists"])
def test_indexing_gets_over_faults_and_writes_nothing_twice(tmp_path: Path, clock: Clock, fault: str, on: str) -> None:
    with QdrantServer() as server:
        config = settings(store={"url": server.url}, collection="pages")
        with server.failing(replace(qdrant_server.FAULTS[fault], on=on, times=2)):
            index_pages(config, write_pages(tmp_path))
        assert len(clock.waits) == 2
        with QdrantRetriever.open(config, env={}) as retriever:
            assert (retriever.info.points, retriever.info.manifest["state"]) == (9, "complete")


def test_a_collection_is_made_by_one_request(tmp_path: Path, clock: Clock) -> None:
    """Its answer is lost: a second request would find what the first one made."""
    with QdrantServer() as server:
        config = settings(store={"url": server.url}, collection="pages")
        with server.failing(Fault(reset=True, on="/collections/pages", times=1)):
            with pytest.raises(StoreUnreachableError, match=r"the address right\?"):
                index_pages(config, write_pages(tmp_path))
        assert [request.method for request in server.requests if request.path == "/collections/pages"] == ["PUT"]


# The same as an embedded store


@pytest.mark.parametrize(
    ("mode", "fusion"),
    [
        ("semantic", "weighted"),
        ("keyword", "weighted"),
        ("hybrid", "weighted"),
        ("hybrid", "rrf"),
        ("hybrid", "dbsf"),
    ],
)
def test_a_server_gives_what_an_embedded_store_gives(tmp_path: Path, mode: str, fusion: str) -> None:
    pages = write_pages(tmp_path / "pages")
    common = {"collection": "pages", "mode": mode, "fusion": fusion, "threshold": 0}
    with QdrantServer() as server:
        remote = settings(store={"url": server.url}, **common)
        local = settings(store={"path": str(tmp_path / "store")}, **common)
        index_pages(remote, pages)
        index_pages(local, pages)
        with QdrantRetriever.open(remote, env={}) as one, QdrantRetriever.open(local, env={}) as other:
            queries = [QUERY, "glossary words", "imu drift", "of the", "zzz"]
            for query, again in zip(queries, one.search_batch(queries), strict=True):
                expected: Any = [
                    (c.chunk.chunk_id, pytest.approx(c.score, abs=1e-6)) for c in other.search(query).chunks
                ]
                assert [(c.chunk.chunk_id, c.score) for c in one.search(query).chunks] == expected
                assert [(c.chunk.chunk_id, c.score) for c in again.chunks] == expected


# TLS


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ssl.SSLContext]:
    return authority(tmp_path_factory.mktemp("authority"))


def points(store: dict[str, Any]) -> int:
    config = settings(store=store, collection="pages")
    client = open_client(config.store, {"QDRANT_API_KEY": qdrant_server.KEY})
    try:
        return describe(client, config).points
    finally:
        client.close()


def test_a_server_of_a_private_authority_is_reached_with_its_file(
    signed: tuple[Path, ssl.SSLContext], tmp_path: Path
) -> None:
    ca, context = signed
    with QdrantServer(tls=context, api_key=qdrant_server.KEY) as server:
        config = settings(store={"url": server.url, "ca_file": str(ca)}, collection="pages", threshold=0)
        env = {"QDRANT_API_KEY": qdrant_server.KEY}
        index_pages(config, write_pages(tmp_path), env)
        assert server.url.startswith("https://")
        with QdrantRetriever.open(config, env=env) as retriever:
            assert retriever.search("robot").status == "success"


def test_the_standard_variable_names_the_authority_too(
    signed: tuple[Path, ssl.SSLContext], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca, context = signed
    with QdrantServer(tls=context) as server:
        monkeypatch.setenv("SSL_CERT_FILE", str(ca))
        index_pages(settings(store={"url": server.url}, collection="pages"), write_pages(tmp_path))
        assert points({"url": server.url}) == 9


def test_an_authority_that_is_not_known_is_refused_at_once(signed: tuple[Path, ssl.SSLContext], clock: Clock) -> None:
    _, context = signed
    with QdrantServer(tls=context) as server:
        with pytest.raises(StoreError, match=r"certificate is not trusted \(.*name the authority.* store\.ca_file$"):
            points({"url": server.url})
        assert (server.requests, clock.waits) == ([], [])


def test_a_certificate_of_another_address_is_refused(tmp_path: Path, clock: Clock) -> None:
    ca, context = authority(tmp_path, "127.0.0.2")
    with QdrantServer(tls=context) as server, pytest.raises(StoreError, match="certificate is not trusted"):
        points({"url": server.url, "ca_file": str(ca)})
    assert clock.waits == []


def test_a_server_without_tls_is_refused_at_once(clock: Clock) -> None:
    with QdrantServer() as server, pytest.raises(StoreUnreachableError, match="does not speak TLS: write http://"):
        points({"url": server.url.replace("http:", "https:")})
    assert clock.waits == []


def test_a_server_that_speaks_tls_is_known_by_what_it_answers(clock: Clock) -> None:
    with TlsAlert() as server, pytest.raises(StoreUnreachableError, match="not HTTP: if it speaks TLS, write https://"):
        points({"url": server.url})
    assert clock.waits == []


def test_a_server_that_hangs_up_may_speak_tls(signed: tuple[Path, ssl.SSLContext], clock: Clock) -> None:
    _, context = signed
    with QdrantServer(tls=context) as server, pytest.raises(StoreUnreachableError, match=r"If it speaks TLS, write"):
        points({"url": server.url.replace("https:", "http:")})


@pytest.mark.parametrize("content", [None, "", "not a certificate"])
def test_a_file_that_holds_no_certificate_is_a_wrong_setting(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigError, match=r"store\.ca_file '.*ca\.pem': expected a PEM file of certificates"):
        points({"url": "https://127.0.0.1:1", "ca_file": str(file)})


@pytest.mark.slow
def test_an_answer_that_drips_does_not_outlive_the_timeout() -> None:
    start = time.monotonic()
    with (
        raw_server(lambda _: drip(HEAD + b"\r\n")) as host,
        pytest.raises(StoreTimeoutError, match=r"no answer within 0\.3 s"),
    ):
        describe_at(host, timeout_s=0.3)
    assert time.monotonic() - start < 0.3 * ATTEMPTS + 2, "six attempts"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", r"sent an answer of 10000000000 bytes, more than 536,870,912; is the address right"),
        (b"[" * 100_000 + b"]" * 100_000, r"answered something that is not Qdrant's"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, r"answered something that is not Qdrant's"),
    ],
    ids=["ten gigabytes", "nested lists", "nested objects"],
)
def test_an_answer_too_large_or_too_deep_is_refused(body: bytes, message: str) -> None:
    answer = HEAD + b"Content-Length: %d\r\n\r\n" % (len(body) or 10_000_000_000)
    with raw_server(lambda _: [answer, body]) as host, pytest.raises(StoreError, match=message):
        describe_at(host, timeout_s=5)


def describe_at(host: str, timeout_s: float) -> None:
    config = settings(store={"url": f"http://{host}", "timeout_s": timeout_s})
    describe(open_client(config.store, {}), config)

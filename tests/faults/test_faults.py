"""Every fault of the network in every client: the requests that it costs, what becomes of it, what is said of it.

A row is a fault, a column a client. The clients of a search (Qdrant over REST, embeddings of Cohere and of OpenAI,
Cohere's reranker) are tried alike. The judge, over Cohere's protocol and over OpenAI's, fails at the first call of a
run, which ends it (exit code 2), or later, which is one failure (exit code 3). What may pass is got over in the end.
"""

import gzip
import logging
import re
import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import format_datetime
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import Mock

import aiohttp
import httpx
import pytest
import requests
from langchain_qdrant import QdrantVectorStore
from qdrant_client import QdrantClient

from evals.collect.observations import Failure, Unscored
from evals.errors import JudgeError
from evals.judge import asking
from evals.judge.judge import Judge
from evals.judge.tasks import PRECISION
from evals.judge.verdicts import ChunkVerdict
from retrievers import QdrantRetriever, net
from retrievers.config import EmbeddingConfig, RetrieverConfig
from retrievers.embedding import models
from retrievers.errors import EmbeddingError, RerankError, RetrievalError, StoreError
from retrievers.retriever.opened import adopt_given
from retrievers.search.rerank import cross_encoder
from retrievers.text import shown
from tests.support import cohere_server, openai_embedding_server, qdrant_server
from tests.support.chat_server import CohereChatServer, OpenAIChatServer
from tests.support.clock import ATTEMPTS, TRIED, Clock
from tests.support.cohere_server import CohereServer
from tests.support.collections import PAGES, index_pages, settings
from tests.support.indexing import write_pages
from tests.support.judged import judge_of, observe, oracle
from tests.support.loopback import HEAD, Fault, LoopbackServer, Reply, drip, free_port, raw_server
from tests.support.openai_embedding_server import EmbeddingServer
from tests.support.qdrant_server import QdrantServer

ENV = {
    "QDRANT_API_KEY": qdrant_server.KEY,
    "COHERE_API_KEY": cohere_server.KEY,
    "OPENAI_API_KEY": openai_embedding_server.KEY,
}
WAITS = [0.25, 0.5, 1, 2, 2]
"""Seconds between the attempts of an application's search."""


def error(status: int, **headers: str) -> Fault:
    """An error as all of the servers word it, which quotes every key."""
    told = f"refused {' '.join(ENV.values())}"
    body = {"message": told, "status": {"error": told}, "error": {"message": told, "type": "t", "code": "c"}}
    return Fault(reply=Reply.json(body, status, **headers))


QUOTA = {"message": "You exceeded your current quota", "code": "insufficient_quota"}
NO_CREDIT = Fault(reply=Reply.json({"error": QUOTA, **QUOTA}, 429))


class Row(NamedTuple):
    fault: Fault
    searching: int  # requests of each client of a search
    first: int  # requests of the judge, asked for the first time in a run
    later: int
    store: str  # what is said of Qdrant
    model: str  # what is said of the server of a model
    judge: str = ""  # and of a judge's


PAGE = Reply(body=b"<html>a page of the proxy's</html>", content_type="text/html")
PROXYS = {status: Fault(reply=replace(PAGE, status=status)) for status in (200, 502)}
NO_JSON, LATE_SAID = "base_url right|Expecting value", "no answer in time; raise judge.timeout_s"
LOST, UNREAD = "cannot be reached .*; does it run", r"cannot be read or written \(.*\); is it Qdrant, and the address"
TABLE = {
    "dropped": Row(Fault(reset=True), ATTEMPTS, 14, 14, LOST, "ReadError|Connection error"),
    "dropped in mid-answer": Row(Fault(torn=True), ATTEMPTS, 14, 14, LOST, "ReadError|Connection error"),
    "no answer in time": Row(Fault(slow=True), ATTEMPTS, 3, 3, "in time; raise store.timeout_s", "in time", LATE_SAID),
    "401": Row(error(401), 1, 1, 1, "401 Unauthorized: .*_API_KEY was refused", "401, the API key.* was refused"),
    "403": Row(error(403), 1, 1, 1, "403 Forbidden: .*_API_KEY may not do this", "403, the API key.* may not do this"),
    "404": Row(error(404), 1, 1, 1, "404 Not Found: .*is the address that of Qdrant", r"status 404, refused \*\*\*"),
    "413": Row(error(413), 1, 1, 1, "413 Request Entity Too Large: refused", r"status 413, refused \*\*\*"),
    "429": Row(error(429), ATTEMPTS, 1, 1, "429 Too Many Requests: .*come too fast", r"429, refused \*\*\*"),
    "500": Row(error(500), ATTEMPTS, 14, 14, "500 Internal Server Error: .*see the log", r"status 500, refused \*\*\*"),
    "503": Row(error(503), ATTEMPTS, 14, 14, "503 Service Unavailable: .*see the log", r"status 503, refused \*\*\*"),
    "a proxy's 502": Row(PROXYS[502], ATTEMPTS, 14, 14, "502 Bad Gateway: an HTML page", "status 502"),
    "a proxy's 200": Row(PROXYS[200], 1, 3, 3, UNREAD, "base_url right|'str' object|a page of the proxy's"),
    "JSON cut off": Row(Fault(reply=Reply(body=b'{"a": [')), 1, 3, 3, UNREAD, NO_JSON),
    "other JSON": Row(Fault(reply=Reply(body=b'{"hello": "world"}')), 1, 3, 3, UNREAD, "Error, "),
    "none": Row(Fault(reply=Reply.json({"choices": [], "message": None})), 1, 3, 3, UNREAD, "", "cannot be read: "),
    "too large": Row(Fault(reply=Reply(body=b" " * 200_000)), 1, 3, 3, "more than 100", "more than 100,000", NO_JSON),
    "nothing": Row(Fault(reply=Reply()), 1, 3, 3, UNREAD, NO_JSON),
    "a number too long": Row(Fault(reply=Reply(body=b'{"result": ' + b"9" * 10_000 + b"}")), 1, 3, 3, UNREAD, ""),
    "too deep": Row(Fault(reply=Reply(body=b"[" * 40_000 + b"]" * 40_000)), 1, 3, 3, UNREAD, ""),
}


@pytest.fixture(autouse=True)
def quick(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody waits long, no more is read than is needed, and whatever is said and logged holds no key."""
    monkeypatch.setattr("retrievers.net.MOST_BYTES", 100_000)
    monkeypatch.setattr(asking, "BASE_S", 0.0)
    monkeypatch.setattr(asking, "PATIENCE_S", 0.5)
    shown.remember_environment(ENV)
    for name in ("evals", "retrievers"):
        caplog.set_level(logging.DEBUG, name)
    yield
    assert "SECRET" not in caplog.text


class Client(NamedTuple):
    """Where the server of a client is, what asks it, and what its fault is."""

    server: LoopbackServer
    retriever: QdrantRetriever
    path: str
    error: type[RetrievalError]
    said: str

    def asked(self) -> int:
        return sum(request.path.endswith(self.path) for request in self.server.requests)

    def found(self, query: str) -> list[tuple[str, float | None]]:
        session = self.retriever.search(query, use_cache=False)
        return [(one.chunk.chunk_id, one.score) for one in session.chunks]

    def of_time(self, seconds: float, monkeypatch: pytest.MonkeyPatch) -> "Client":
        monkeypatch.setattr(models, "TIMEOUT_S", seconds)
        config = self.retriever.settings
        store = config.store.model_copy(update={"timeout_s": seconds})
        quick = QdrantRetriever.open(config.model_copy(update={"store": store}), env=ENV)
        self.server.requests.clear()
        return self._replace(retriever=quick)


CLIENTS: dict[str, tuple[str, type[RetrievalError], str]] = {
    "Qdrant": ("/points/query/batch", StoreError, "collection 'of cohere' at "),
    "Cohere's embeddings": ("/v1/embed", EmbeddingError, "cohere:embed-english-v3.0 failed to embed: "),
    "OpenAI's embeddings": ("/embeddings", EmbeddingError, "openai:text-embedding-3-small failed to embed: "),
    "Cohere's reranker": ("/v2/rerank", RerankError, "cohere:rerank-v3.5 failed to rerank "),
}
COHERE, OPENAI = "cohere:embed-english-v3.0", "openai:text-embedding-3-small"


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Client]]:
    pages = write_pages(tmp_path_factory.mktemp("pages"), PAGES)
    with QdrantServer(api_key=qdrant_server.KEY) as qdrant, CohereServer() as cohere, EmbeddingServer() as openai:

        def opened(model: str, url: str) -> QdrantRetriever:
            name, embedding = f"of {model.partition(':')[0]}", {"model": model, "base_url": url}
            ranked = {"rerank": "cross-encoder", "cross_encoder": {"base_url": cohere.url}}
            config = settings(store={"url": qdrant.url}, collection=name, embedding=embedding, **ranked)
            index_pages(config, pages, ENV)
            return QdrantRetriever.open(config, env=ENV)

        with opened(COHERE, cohere.url) as one, opened(OPENAI, f"{openai.url}/v1") as other:
            servers: dict[str, LoopbackServer] = {"Qdrant": qdrant, "OpenAI's embeddings": openai}
            yield {
                name: Client(servers.get(name, cohere), other if "OpenAI" in name else one, path, error, said)
                for name, (path, error, said) in CLIENTS.items()
            }


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, clients: dict[str, Client]) -> Client:
    found = clients[request.param]
    found.server.requests.clear()
    return found


@pytest.mark.parametrize("row", TABLE.values(), ids=TABLE)
def test_a_search_raises_the_error_of_its_stage_after_so_many_requests(
    client: Client,
    row: Row,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked, query = client.of_time(0.3, monkeypatch) if row.fault.slow else client, request.node.name
    clock.waits.clear()  # those while it was opened
    caplog.clear()
    with asked.server.failing(replace(row.fault, on=client.path)), pytest.raises(client.error) as caught:
        asked.retriever.invoke(query)
    failed, passes = caught.value, row.searching > 1
    assert (failed.transient, failed.timed_out) == (passes, row.fault.slow)
    assert (asked.asked(), clock.waits) == (row.searching, WAITS if passes else [])
    assert [record.levelname for record in caplog.records].count("WARNING") == passes, "one for all attempts"
    assert str(failed).startswith(client.said) and str(failed).endswith(TRIED) == passes
    assert re.search(row.store if client.error is StoreError else row.model, str(failed))
    assert "SECRET" not in str(failed)
    with net.patient(0), asked.server.failing(replace(row.fault, on=client.path)):
        session = asked.retriever.search(query, use_cache=False)
    assert (session.status, session.chunks) == ("timeout" if row.fault.slow else "error", ())
    assert session.error is not None and session.error.startswith(client.said)
    if passes and not row.fault.slow:
        with asked.server.failing(replace(row.fault, on=client.path, times=3)):
            got_over = asked.found(query)
        assert got_over == asked.found(query) != []
    if asked is not client:
        asked.retriever.close()


def test_an_answer_of_a_model_that_never_ends_is_no_answer_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "TIMEOUT_S", 0.3)
    with raw_server(lambda _: drip(HEAD + b"\r\n")) as host, net.patient(0):
        place = {"base_url": f"http://{host}"}
        embed, other = (models.make_embeddings(EmbeddingConfig(model=m, **place), ENV) for m in (COHERE, OPENAI))
        rerank = cross_encoder(settings(rerank="cross-encoder", cross_encoder=place), ENV)
        for ask in (embed.embed_query, other.embed_query, lambda text: rerank(text, ["one", "two"])):
            with pytest.raises(RetrievalError, match="no answer in time"):
                ask("arm")


def test_who_asks_to_wait_is_waited_for_in_a_run_and_not_by_an_application(client: Client, clock: Clock) -> None:
    busy = replace(error(429, **{"Retry-After": "7"}), on=client.path)
    with client.server.failing(replace(busy, times=3)), net.patient(60):
        session = client.retriever.search("who sends?", use_cache=False)
    assert (session.status, client.asked(), clock.waits) == ("success", 4, [7, 7, 7])
    with client.server.failing(busy):
        session = client.retriever.search("who sends?", use_cache=False)
    assert (session.status, client.asked(), clock.waits) == ("error", 5, [7, 7, 7])
    assert str(session.error).endswith(" (asked to wait 7 s, more than 5 s)")


@pytest.mark.usefixtures("clock")
def test_a_store_of_ones_own_is_asked_again_as_ours_is(clients: dict[str, Client], caplog: Any) -> None:
    server, ours, path, *_ = clients["Qdrant"]
    place: Any = {"embedding": ours._embeddings, "collection_name": "of cohere", "validate_collection_config": False}
    theirs = QdrantClient(url=server.url, metadata={"api-key": qdrant_server.KEY}, check_compatibility=False)
    for client in (theirs, ours.client):
        own, _ = adopt_given(QdrantVectorStore(client, **place), RetrieverConfig(trust_embedding=True), None, ENV)
        for status, asks in ((503, {}), (429, {"Retry-After": "1"})):
            caplog.clear()
            with server.failing(replace(error(status, **asks), on=path)):
                said = str(own.search("who sends?").error)
            assert re.search(rf"{TABLE[str(status)].store}.* \(6 attempts in 5\.[08] s\)$", said)
            assert caplog.text.count("WARNING") == 1


def ask(judge: Judge, server: LoopbackServer, chunk: str) -> tuple[object, str, int]:
    before = len(server.requests)
    try:
        said = judge.judge([PRECISION], [observe("pose", [chunk])]).verdicts["pose", chunk]
    except JudgeError as error:
        return JudgeError, str(error), len(server.requests) - before
    told = said.failed.partition(": ")[2] if isinstance(said, Failure) else getattr(said, "reason", "")
    return type(said), told, len(server.requests) - before


chats = pytest.mark.parametrize("chat", [CohereChatServer, OpenAIChatServer], ids=["Cohere", "OpenAI"])
Chat = type[CohereChatServer] | type[OpenAIChatServer]


@chats
@pytest.mark.parametrize("row", TABLE.values(), ids=TABLE)
@pytest.mark.parametrize("first", [True, False], ids=["first", "later"])
def test_a_judge_that_fails_first_ends_the_run_and_later_leaves_a_failure(chat: Chat, row: Row, first: bool) -> None:
    with chat(oracle()) as server, judge_of(server, timeout_s=0.5 if row.fault.slow else 10) as judge:
        assert first or ask(judge, server, "soup")[0] is ChunkVerdict
        with server.failing(row.fault):
            said, told, requests = ask(judge, server, "topic")
        assert re.search(row.judge or row.model, told) and "SECRET" not in told
        if first:
            of_one_prompt = row is TABLE["413"]
            assert (said, requests) == (Failure if of_one_prompt else JudgeError, row.first)
            assert of_one_prompt or re.match("the judge .* (failed at the first call|lets no call through for)", told)
            return
        limited = row is TABLE["429"]
        assert (said, requests) == (Unscored if limited else Failure, row.later)
        assert told.endswith(f" ({row.later} attempts)") == (row.later > 1)
        if row.later > 1 and not row.fault.slow:
            with server.failing(replace(row.fault, times=row.later - 1)):
                assert ask(judge, server, "forward")[::2] == (ChunkVerdict, row.later)


@chats
def test_a_judge_that_is_not_there_or_can_give_nothing_for_long_ends_the_run(chat: Chat) -> None:
    port = free_port()
    with chat(oracle()) as server, judge_of(server, base_url=f"http://127.0.0.1:{port}/v1") as judge:
        found, told, _ = ask(judge, server, "topic")
    assert found is JudgeError
    reason = rf"failed at the first call: .*Connect call failed \('127.0.0.1', {port}\)"
    assert re.search(rf"at http://127.0.0.1:{port}/v1 {reason}; check judge.model, judge.base_url", told)
    for fault, said in (
        (error(429, **{"Retry-After": "4000"}), "lets no call through for 4,000 s, more than a run waits"),
        (NO_CREDIT, "status 429, You exceeded your current quota"),
    ):
        with chat(oracle()) as server, judge_of(server) as judge, server.failing(fault):
            assert said in ask(judge, server, "topic")[1]


# Faults of libraries that the table has not, how long they are repeated, answers that fit


def because(error: Exception, origin: Exception) -> Exception:
    error.__cause__ = origin
    return error


def answered(status: int, **headers: str) -> requests.HTTPError:
    response = requests.Response()
    response.status_code = status
    response.headers.update(headers)
    return requests.HTTPError("answered", response=response)


REQUEST: Any = httpx.Request("GET", "http://127.0.0.1")  # the SDK may want that of another version
UNTRUSTED = ssl.SSLCertVerificationError("self-signed")
ENDLESS = ValueError("a")
ENDLESS.__cause__ = because(httpx.ConnectError("b"), ENDLESS)
NO, PASSES, LATE = (False, False), (True, False), (True, True)


def test_a_fault_may_pass_and_may_be_a_timeout() -> None:
    for error, kind in (
        *((answered(code), PASSES) for code in (429, 503, 504)),
        *((answered(code), NO) for code in (400, 409, 422, 501)),
        (httpx.UnsupportedProtocol("ftp"), NO),
        (because(httpx.ConnectError("tls"), UNTRUSTED), NO),
        (because(httpx.ConnectError("tls"), ssl.SSLEOFError("EOF")), PASSES),
        (because(httpx.ConnectError("dns"), socket.gaierror(socket.EAI_NONAME, "unknown")), NO),
        (because(httpx.ConnectError("dns"), socket.gaierror(socket.EAI_AGAIN, "later")), PASSES),
        (ConnectionResetError("of no HTTP library"), PASSES),
        (TimeoutError("of no HTTP library"), LATE),
        (requests.ConnectionError("refused"), PASSES),
        (requests.ReadTimeout("x"), LATE),
        (aiohttp.ServerDisconnectedError(), PASSES),
        (aiohttp.ServerTimeoutError(), LATE),
        (aiohttp.ClientResponseError(REQUEST, (), status=429), PASSES),
        (because(ValueError("a wrapper"), requests.ConnectionError("refused")), PASSES),
        (because(ValueError("a wrapper"), answered(400)), NO),
        (because(answered(400), ConnectionResetError("before")), NO),
        (ENDLESS, PASSES),
        (ValueError("x"), NO),
    ):
        assert (net.is_transient(error), net.timed_out(error)) == kind


def test_retry_after_is_read_as_seconds_or_as_a_date_by_any_case_of_its_name() -> None:
    now = format_datetime(datetime.now(UTC), usegmt=True)
    dates = {"Thu, 01 Jan 1970 00:00:00 GMT": 0, now: pytest.approx(0, abs=1)}
    no_seconds = dict.fromkeys(("-3", "nan", "inf", "", "Thu, 01 Jan"))
    for value, seconds in ({"7": 7, " 0.5 ": 0.5} | dates | no_seconds).items():
        for name in ("Retry-After", "RETRY-AFTER"):
            assert net.retry_after_s(answered(429, **{name: value})) == seconds
        assert net.retry_after_s(answered(429, Other=value)) is None is net.retry_after_s(ValueError(value))


def busy(wait_s: float | None = None) -> StoreError:
    fault = StoreError("busy")
    fault.transient, fault.retry_after_s = True, wait_s
    return fault


def action(clock: Clock, faults: Sequence[StoreError | None], lasts: float = 0) -> Mock:
    """Return what takes `lasts` seconds and raises the faults in turn, the last again and again; None succeeds."""
    left = iter(faults)

    def act() -> str:
        clock.time += lasts
        if (fault := next(left, faults[-1])) is not None:
            raise busy(fault.retry_after_s) if fault.transient else StoreError(str(fault))
        return "done"

    return Mock(side_effect=act)


PASSING, LASTING = busy(), StoreError("refused")


def test_attempts_end_with_an_answer_or_the_last_error_which_says_how_often_and_how_long(clock: Clock) -> None:
    cases: list[tuple[list[StoreError | None], float, float | None, str, list[float]]] = [
        # Who asks to wait is waited for, and not pestered.
        *(([busy(s), None], 0, None, "done", [max(s, 0.25)]) for s in (0, 0.001, 5)),
        # An application tries for five seconds.
        ([PASSING], 0.25, None, "busy (5 attempts in 5.0 s)", [0.25, 0.5, 1, 2]),
        ([PASSING], 5, None, "busy", []),  # one request took all the time
        ([PASSING, LASTING], 0, None, "refused (2 attempts in 0.2 s)", [0.25]),
        ([PASSING], 0, 0, "busy", []),
    ]
    for faults, lasts, run_s, said, waits in cases:
        clock.waits.clear()
        with nullcontext() if run_s is None else net.patient(run_s):
            try:
                got = net.attempt(action(clock, faults, lasts), name="store")
            except StoreError as error:
                got = str(error)
        assert (got, clock.waits) == (said, waits)


def test_a_random_part_is_added_to_each_wait(clock: Clock) -> None:
    clock.share = 1
    net.attempt(action(clock, [*[PASSING] * 5, None]), name="store")
    assert clock.waits == [0.5, 0.75, 1.25, 2, 2]


def test_what_may_not_be_repeated_or_is_no_error_of_ours_is_tried_once_and_its_cause_kept(clock: Clock) -> None:
    once = action(clock, [PASSING, None])
    with net.patient(60), pytest.raises(StoreError, match=r"^busy$"):
        net.attempt(once, name="store", retried=False)
    for error in (ZeroDivisionError(), because(StoreError("away"), TimeoutError("no answer"))):
        with pytest.raises(type(error)) as caught:
            net.attempt(Mock(side_effect=error), name="store")
        assert caught.value is error
    assert (once.call_count, clock.waits) == (1, [])


def test_a_run_outlives_a_store_that_restarts_says_so_once_and_counts_no_failed_attempt_as_latency(
    clock: Clock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = SimpleNamespace(monotonic=clock.now, perf_counter=clock.now)
    monkeypatch.setattr("retrievers.net.time", told)
    before = net.working_time()
    with net.patient(60):
        net.attempt(action(clock, [PASSING] * 20 + [None], lasts=0.5), name="store")
        assert net.working_time() - before == pytest.approx(0.5), "of all requests the last alone"
        net.attempt(action(clock, [busy(7), None]), name="store")
    assert caplog.messages == ["store: trying again for up to 60 s: busy", "store: waiting 7 s, as asked: busy"]


# Answers; `tests/evals/cases/test_relevance.py` has those without an end


def fetched(head: bytes, content: bytes) -> httpx.Response:
    packed = gzip.compress(content)
    whole = head + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed
    with raw_server(lambda _: [whole]) as host, httpx.Client(trust_env=False) as client:
        request = client.build_request("GET", f"http://{host}/")
        return net.exchange(client, request, timeout_s=5, most_bytes=1_000_000)


def test_an_answer_is_what_was_sent_unpacked_if_that_is_not_too_large() -> None:
    response = fetched(b"HTTP/1.1 418 Short\r\nRetry-After: 3\r\n", b'{"a": 1}')
    assert (response.status_code, response.reason_phrase, response.json()) == (418, "I'm a teapot", {"a": 1})
    assert (response.headers["retry-after"], response.headers["content-length"]) == ("3", "8")
    with pytest.raises(net.TooLargeError, match="more than 1,000,000"):
        fetched(HEAD, b" " * 50_000_000)

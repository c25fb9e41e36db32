"""Many queries at once: in batches, threads and tasks, with the results of one after the other."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from retrievers import QdrantRetriever
from retrievers.config import RetrieverConfig
from retrievers.records import RetrievalSession
from tests.support.cohere_server import KEY, CohereServer
from tests.support.collections import REPEATED, index_pages, settings, write_pages
from tests.support.loopback import Fault
from tests.support.qdrant_server import QdrantServer

ENV = {"COHERE_API_KEY": KEY}
MODES: dict[str, dict[str, Any]] = {
    "semantic": {},
    "keyword": {"mode": "keyword"},
    "weighted": {"mode": "hybrid"},
    "rrf": {"mode": "hybrid", "fusion": "rrf"},
    "dbsf": {"mode": "hybrid", "fusion": "dbsf"},
    "mmr": {"mode": "hybrid", "rerank": "mmr"},
    "grouped": {"mode": "hybrid", "group_by": "source_url"},
    "filtered": {"mode": "hybrid", "filters": {"title": "Topics"}},
    "threshold": {"mode": "hybrid", "threshold": 0.2},
}
QUICK = ("semantic", "weighted", "mmr")
IN_EVERY_MODE = pytest.mark.parametrize(
    "mode", [pytest.param(mode, marks=[] if mode in QUICK else pytest.mark.slow) for mode in MODES]
)
WORDS = "topic service node message glossary client answer rate IMU drift the of robot".split()
QUERIES = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join), max_size=6)
GOOD = ("how do nodes stream messages", "request answer client", REPEATED, "the of", "acceleration and drift")


@pytest.fixture(scope="module")
def cohere() -> Iterator[CohereServer]:
    with CohereServer() as running:
        yield running


@pytest.fixture(scope="module")
def server() -> Iterator[QdrantServer]:
    with QdrantServer() as running:
        yield running


@pytest.fixture(scope="module")
def configs(
    cohere: CohereServer, server: QdrantServer, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, RetrieverConfig]:
    """The pages in a folder with the packaged model, and on a server embedded by Cohere."""
    folder = tmp_path_factory.mktemp("batches")
    pages = write_pages(folder / "pages")
    local = settings(store={"path": str(folder / "store")}, collection="pages", threshold=0)
    remote = settings(
        store={"url": server.url},
        collection="pages",
        threshold=0,
        top_k=20,
        embedding={"provider": "cohere", "base_url": cohere.url},
    )
    index_pages(local, pages)
    index_pages(remote, pages, ENV)
    return {"folder": local, "server": remote}


@pytest.fixture(scope="module")
def retrievers(configs: dict[str, RetrieverConfig]) -> Iterator[dict[str, QdrantRetriever]]:
    """One for each mode, over the folder."""
    plain = configs["folder"].model_dump()
    opened = {
        mode: QdrantRetriever.open(RetrieverConfig.model_validate({**plain, **values}), env={})
        for mode, values in MODES.items()
    }
    yield opened
    for retriever in opened.values():
        retriever.close()


@pytest.fixture
def remote(
    configs: dict[str, RetrieverConfig], cohere: CohereServer, server: QdrantServer
) -> Iterator[QdrantRetriever]:
    """Over the server, with the requests counted from here on; as deep as the collection, so that no edge is tied."""
    with QdrantRetriever.open(configs["server"], env=ENV) as opened:
        cohere.requests.clear()
        server.requests.clear()
        yield opened


def outcome(session: RetrievalSession) -> tuple[Any, ...]:
    """A session without what is new every time: ids and times."""
    chunks = [
        [(c.chunk, c.rank, c.score, c.score_scale, dict(c.scores), c.original_rank, c.original_score) for c in part]
        for part in (session.chunks, session.below_threshold)
    ]
    told = (session.status, session.error, session.warnings, session.suggestions, session.confidence)
    return (session.query, chunks, session.candidates_found, session.filtered_out, *told, dict(session.cache))


# Batches


@IN_EVERY_MODE
@examples(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(queries=QUERIES)
def test_a_batch_is_what_its_queries_are_one_by_one(
    retrievers: dict[str, QdrantRetriever], mode: str, queries: list[str]
) -> None:
    retriever = retrievers[mode]
    batch = retriever.search_batch(queries)
    assert [outcome(session) for session in batch] == [outcome(retriever.search(query)) for query in queries]


@pytest.mark.parametrize("mode", ["semantic", "keyword", "weighted"])
def test_a_batch_over_a_server_is_what_its_queries_are_one_by_one(
    configs: dict[str, RetrieverConfig], mode: str
) -> None:
    config = RetrieverConfig.model_validate({**configs["server"].model_dump(), **MODES[mode]})
    with QdrantRetriever.open(config, env=ENV) as retriever:
        batch = retriever.search_batch(GOOD)
        assert all(session.chunks for session in batch if session.query != "the of")
        assert [outcome(session) for session in batch] == [outcome(retriever.search(query)) for query in GOOD]


@pytest.mark.parametrize(("count", "sizes"), [(2, [2]), (96, [96]), (97, [96, 1]), (200, [96, 96, 8])])
def test_queries_are_embedded_96_a_request_and_searched_in_one(
    remote: QdrantRetriever, cohere: CohereServer, server: QdrantServer, count: int, sizes: list[int]
) -> None:
    queries = [f"topic number {number} of {number * 7}" for number in range(count)]
    sessions = remote.search_batch(queries)
    assert [session.query for session in sessions] == queries
    assert {session.status for session in sessions} == {"success"}
    assert [len(texts) for _, texts in cohere.inputs] == sizes
    assert [text for _, texts in cohere.inputs for text in texts] == queries
    search, read = server.requests
    assert (search.path, len(search.body["searches"])) == ("/collections/pages/points/query/batch", count)
    assert read.path == "/collections/pages/points"


def test_a_query_given_twice_is_embedded_and_searched_once(
    remote: QdrantRetriever, cohere: CohereServer, server: QdrantServer
) -> None:
    first, other, again = remote.search_batch(["topic", "service", "topic"])
    assert outcome(first) == outcome(again) != outcome(other)
    assert cohere.inputs == [("search_query", ["topic", "service"])]
    assert len(server.requests[0].body["searches"]) == 2


def test_no_queries_ask_nobody(remote: QdrantRetriever, cohere: CohereServer, server: QdrantServer) -> None:
    assert remote.search_batch([]) == []
    assert (cohere.requests, server.requests) == ([], [])


@pytest.mark.parametrize("mode", ["semantic", "keyword", "weighted"])
@pytest.mark.parametrize("bad", ["", "word " * 513, "x" * 4_001, "\ud800"])
@pytest.mark.parametrize("place", [0, 2, 5])
def test_one_bad_query_spoils_no_other(retrievers: dict[str, QdrantRetriever], mode: str, bad: str, place: int) -> None:
    retriever = retrievers[mode]
    queries = [*GOOD[:place], bad, *GOOD[place:]]
    sessions = retriever.search_batch(queries)
    assert [outcome(session) for session in sessions] == [outcome(retriever.search(query)) for query in queries]
    assert sum(session.error is not None or bool(session.warnings) for session in sessions if session.query == bad) == 1
    assert all(session.status == "success" for session in sessions if session.query != bad)


def test_a_provider_that_fails_fails_every_query_and_raises_nothing(
    remote: QdrantRetriever, cohere: CohereServer
) -> None:
    with cohere.failing(Fault(reset=True)):
        sessions = remote.search_batch(["a", "b"])
    assert [(session.query, session.status) for session in sessions] == [("a", "error"), ("b", "error")]
    assert {session.status for session in remote.search_batch(["a", "b"])} == {"success"}


# Tasks


def while_another_task_runs(
    retriever: QdrantRetriever, server: QdrantServer, ask: Callable[[], Coroutine[Any, Any, Any]]
) -> Any:
    """Return the result of `ask`, over a server that answers only after a task on the same loop has run."""
    waiting, released = threading.Event(), threading.Event()

    def hold() -> None:
        waiting.set()
        assert released.wait(20), "the event loop stood still"

    async def other() -> None:
        while not waiting.is_set():
            await asyncio.sleep(0.001)
        released.set()

    async def both() -> Any:
        return (await asyncio.gather(ask(), other()))[0]

    unheld = server.answer

    def held(request: Any) -> Any:
        hold()
        return unheld(request)

    server.answer = held  # type: ignore[method-assign]
    try:
        return asyncio.run(both())
    finally:
        server.answer = unheld  # type: ignore[method-assign]


def test_another_task_runs_while_a_search_waits(remote: QdrantRetriever, server: QdrantServer) -> None:
    expected = remote.invoke(GOOD[0])
    assert while_another_task_runs(remote, server, lambda: remote.ainvoke(GOOD[0])) == expected != []


def test_another_task_runs_while_many_searches_wait(remote: QdrantRetriever, server: QdrantServer) -> None:
    expected = [remote.invoke(query) for query in GOOD]
    assert while_another_task_runs(remote, server, lambda: remote.abatch(list(GOOD))) == expected


@IN_EVERY_MODE
def test_tasks_and_threads_get_what_one_caller_gets(retrievers: dict[str, QdrantRetriever], mode: str) -> None:
    retriever = retrievers[mode]
    expected = [retriever.invoke(query) for query in GOOD]
    assert asyncio.run(retriever.abatch(list(GOOD))) == expected
    assert retriever.batch(list(GOOD)) == expected
    assert [asyncio.run(retriever.ainvoke(query)) for query in GOOD] == expected
    serial = [outcome(retriever.search(query)) for query in GOOD]
    with ThreadPoolExecutor(8) as pool:
        assert [outcome(session) for session in pool.map(retriever.search, GOOD * 6)] == serial * 6
        batches = list(pool.map(retriever.search_batch, [GOOD] * 6))
    assert [[outcome(session) for session in batch] for batch in batches] == [serial] * 6

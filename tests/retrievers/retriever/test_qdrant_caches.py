"""The retriever's caches: what is bought and searched for once, what sessions say of it, when it is dropped."""

import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from retrievers import QdrantRetriever
from retrievers.config import RetrieverConfig
from retrievers.errors import ConfigError
from retrievers.records import RetrievalSession
from tests.support.caches import clocked
from tests.support.clock import Clock
from tests.support.cohere_server import KEY, CohereServer, refused
from tests.support.collections import PAGES, index_pages, settings, write_pages
from tests.support.qdrant_server import QdrantServer

ENV = {"COHERE_API_KEY": KEY}
QUERY = "how do nodes stream messages"
MORE = {**PAGES, "motion/new.md": "---\ntitle: New\n---\nHow do nodes stream messages: how do nodes stream messages?\n"}


@pytest.fixture(scope="module")
def cohere() -> Iterator[CohereServer]:
    with CohereServer() as running:
        yield running


@pytest.fixture(scope="module")
def embedded(cohere: CohereServer, tmp_path_factory: pytest.TempPathFactory) -> RetrieverConfig:
    """The pages in a folder, embedded by Cohere; nothing of them is changed."""
    folder = tmp_path_factory.mktemp("cohere")
    config = settings(
        store={"path": str(folder / "store")},
        collection="pages",
        threshold=0,
        embedding={"provider": "cohere", "base_url": cohere.url},
    )
    index_pages(config, write_pages(folder / "pages"), ENV)
    return config


@pytest.fixture(autouse=True)
def nothing_asked(cohere: CohereServer) -> None:
    cohere.requests.clear()


@contextmanager
def opened(config: RetrieverConfig, tmp_path: Path, results: int = 256, **cache: Any) -> Iterator[QdrantRetriever]:
    """The retriever with vectors kept in a file of this test, and results in memory."""
    kept = {"embeddings": "auto", "path": tmp_path / "vectors.sqlite", "results": results, **cache}
    wanted = config.model_copy(update={"cache": settings(cache=kept).cache})
    with QdrantRetriever.open(wanted, env=ENV) as retriever:
        yield retriever


def said(session: RetrievalSession) -> tuple[str, str]:
    return session.cache["embedding"], session.cache["result"]


def counted(retriever: QdrantRetriever, cache: str) -> tuple[int, int]:
    """Return the hits and misses of a cache."""
    stats = retriever.cache_stats[cache]
    return stats.hits, stats.misses


def found(session: RetrievalSession) -> list[tuple[str, float, int]]:
    return [(c.chunk.chunk_id, c.known_score, c.rank) for c in session.chunks]


# Query vectors


def test_a_query_is_bought_once_and_gives_the_same(
    cohere: CohereServer, embedded: RetrieverConfig, tmp_path: Path
) -> None:
    with opened(embedded, tmp_path, results=0) as retriever:
        first, second = (retriever.search(QUERY, with_vector=True) for _ in range(2))
        assert cohere.inputs == [("search_query", [QUERY])]
        assert (said(first), said(second)) == (("miss", "off"), ("hit", "off"))
        assert found(first) == found(second) != []
        assert first.embedding == second.embedding
        assert counted(retriever, "embedding") == (1, 1)


def test_a_query_bought_by_one_retriever_is_known_to_the_next(
    cohere: CohereServer, embedded: RetrieverConfig, tmp_path: Path
) -> None:
    for state in ("miss", "hit", "hit"):
        with opened(embedded, tmp_path) as retriever:
            assert said(retriever.search(QUERY)) == (state, "miss")
    assert len(cohere.requests) == 1


@pytest.mark.parametrize(("passed", "requests"), [(3_599, 1), (3_601, 2)])
def test_a_query_is_bought_again_when_its_hour_is_over(
    cohere: CohereServer, embedded: RetrieverConfig, tmp_path: Path, passed: float, requests: int
) -> None:
    clock = Clock()
    with opened(embedded, tmp_path, results=0) as retriever:
        clocked(retriever, clock, tmp_path / "clocked.sqlite")
        retriever.search(QUERY)
        clock.pass_by(passed)
        retriever.search(QUERY)
    assert len(cohere.requests) == requests


def test_another_model_buys_its_own_vector(cohere: CohereServer, embedded: RetrieverConfig, tmp_path: Path) -> None:
    with opened(embedded, tmp_path) as retriever:
        retriever.search(QUERY)
    other = embedded.embedding.model_copy(update={"model": "embed-multilingual-v3.0"})
    shutil.copytree(embedded.store.path or "", tmp_path / "store")
    config = embedded.model_copy(
        update={"embedding": other, "store": settings(store={"path": tmp_path / "store"}).store}
    )
    index_pages(config.model_copy(update={"collection": "other"}), write_pages(tmp_path / "pages"), ENV)
    cohere.requests.clear()
    with opened(config.model_copy(update={"collection": "other"}), tmp_path) as retriever:
        assert said(retriever.search(QUERY)) == ("miss", "miss")
    assert [request.body["model"] for request in cohere.requests] == ["embed-multilingual-v3.0"]


def test_abbreviations_are_part_of_what_is_bought(
    cohere: CohereServer, embedded: RetrieverConfig, tmp_path: Path
) -> None:
    with opened(embedded, tmp_path) as retriever:
        retriever.search("IMU drift")
    with opened(embedded.model_copy(update={"abbreviations": {"IMU": "inertial unit"}}), tmp_path) as retriever:
        assert said(retriever.search("IMU drift"))[0] == "miss"
    assert [texts for _, texts in cohere.inputs] == [["IMU drift"], ["IMU (inertial unit) drift"]]


def test_a_batch_buys_only_what_is_not_known(cohere: CohereServer, embedded: RetrieverConfig, tmp_path: Path) -> None:
    with opened(embedded, tmp_path, results=0) as retriever:
        retriever.search("b")
        sessions = retriever.search_batch(["a", "b", "c", "a"])
    assert cohere.inputs == [("search_query", ["b"]), ("search_query", ["a", "c"])]
    assert [said(session)[0] for session in sessions] == ["miss", "hit", "miss", "miss"]


def test_what_failed_is_not_kept(cohere: CohereServer, embedded: RetrieverConfig, tmp_path: Path) -> None:
    with opened(embedded, tmp_path) as retriever:
        with cohere.failing(refused(401)):
            assert retriever.search(QUERY).status == "error"
        assert said(retriever.search(QUERY)) == ("miss", "miss")


def test_a_packaged_model_is_kept_only_when_asked(tmp_path: Path) -> None:
    config = settings(store={"path": str(tmp_path / "store")}, collection="pages")
    index_pages(config, write_pages(tmp_path / "pages"))
    with opened(config, tmp_path) as retriever:
        assert said(retriever.search(QUERY)) == ("off", "miss")
        assert set(retriever.cache_stats) == {"result"}
    with opened(config, tmp_path, results=0, embeddings="on") as retriever:
        first, second = (retriever.search(QUERY, with_vector=True) for _ in range(2))
    assert (said(first), said(second)) == (("miss", "off"), ("hit", "off"))
    assert first.embedding == second.embedding


def test_a_cache_file_that_cannot_be_used_leaves_the_folder_free(embedded: RetrieverConfig, tmp_path: Path) -> None:
    (tmp_path / "vectors.sqlite").write_text("no database, but a text of some length " * 40)
    shutil.copytree(embedded.store.path or "", tmp_path / "store")
    config = embedded.model_copy(update={"store": settings(store={"path": tmp_path / "store"}).store})
    with pytest.raises(ConfigError, match=r"cache\.path"), opened(config, tmp_path):
        pass
    index_pages(config, write_pages(tmp_path / "pages", MORE), ENV)


# Results


def test_a_result_is_searched_for_once(cohere: CohereServer, embedded: RetrieverConfig, tmp_path: Path) -> None:
    with opened(embedded, tmp_path) as retriever:
        first, second = retriever.search(QUERY), retriever.search(QUERY)
        assert (said(first), said(second)) == (("miss", "miss"), ("off", "hit"))
        assert found(first) == found(second) != []
        assert (second.timings.embed_ms, second.timings.search_ms) == (None, None)
        assert {*retriever.cache_stats} == {"embedding", "result"}
        assert (counted(retriever, "embedding"), counted(retriever, "result")) == ((0, 1), (1, 1))
    assert len(cohere.requests) == 1


def test_langchain_gets_kept_results_which_it_may_change(embedded: RetrieverConfig, tmp_path: Path) -> None:
    with opened(embedded, tmp_path) as retriever:
        first = retriever.invoke(QUERY)
        before = [document.model_copy(deep=True) for document in first]
        for document in first:
            document.metadata.clear()
            document.page_content = ""
        assert retriever.invoke(QUERY) == before
        assert counted(retriever, "result") == (1, 1)


def test_a_call_may_pass_both_caches_by(cohere: CohereServer, embedded: RetrieverConfig, tmp_path: Path) -> None:
    with opened(embedded, tmp_path) as retriever:
        kept = retriever.search(QUERY)
        before = retriever.cache_stats
        alone = retriever.search(QUERY, use_cache=False)
        (batched,) = retriever.search_batch([QUERY], use_cache=False)
        assert said(alone) == said(batched) == ("off", "off")
        assert found(alone) == found(batched) == found(kept)
        assert retriever.cache_stats == before
        assert said(retriever.search(QUERY)) == ("off", "hit")
    assert len(cohere.requests) == 3


def test_a_call_that_passes_the_caches_by_leaves_nothing_in_them(
    cohere: CohereServer, embedded: RetrieverConfig, tmp_path: Path
) -> None:
    with opened(embedded, tmp_path) as retriever:
        retriever.search(QUERY, use_cache=False)
        retriever.candidates([QUERY], use_cache=False)
        assert said(retriever.search(QUERY)) == ("miss", "miss")
    assert len(cohere.requests) == 3


def test_candidates_use_kept_vectors_but_are_searched_for(
    cohere: CohereServer, embedded: RetrieverConfig, tmp_path: Path
) -> None:
    with opened(embedded, tmp_path) as retriever:
        retriever.search(QUERY)
        (candidates,) = retriever.candidates([QUERY])
        assert candidates.cache == {"embedding": "hit"}
        assert len(candidates) == 9
        assert said(retriever.search(QUERY)) == ("off", "hit")
    assert len(cohere.requests) == 1


def test_the_least_used_result_makes_room(embedded: RetrieverConfig, tmp_path: Path) -> None:
    with opened(embedded, tmp_path, results=2) as retriever:
        states = [said(retriever.search(query))[1] for query in ("a", "b", "a", "c", "a", "b")]
    assert states == ["miss", "miss", "hit", "miss", "hit", "miss"]


def test_a_batch_takes_what_is_kept_and_searches_for_the_rest(
    cohere: CohereServer, embedded: RetrieverConfig, tmp_path: Path
) -> None:
    with opened(embedded, tmp_path) as retriever:
        one = retriever.search("b")
        sessions = retriever.search_batch(["a", "b", "c"])
        assert [said(session) for session in sessions] == [("miss", "miss"), ("off", "hit"), ("miss", "miss")]
        assert [session.query for session in sessions] == ["a", "b", "c"]
        assert found(sessions[1]) == found(one)


def test_threads_get_what_one_gets_from_the_caches(embedded: RetrieverConfig, tmp_path: Path) -> None:
    queries = ["topic", "service", "messages", "client waits", QUERY] * 8
    with opened(embedded, tmp_path, results=3) as retriever:
        expected = [found(retriever.search(query, use_cache=False)) for query in queries]
        with ThreadPoolExecutor(8) as pool:
            sessions = list(pool.map(retriever.search, queries))
        stats = retriever.cache_stats["result"]
    assert [found(session) for session in sessions] == expected
    assert stats.hits + stats.misses == len(queries)


@pytest.fixture
def own(tmp_path: Path) -> RetrieverConfig:
    """An embedded store of this test alone."""
    config = settings(store={"path": str(tmp_path / "store")}, collection="pages", threshold=0)
    index_pages(config, write_pages(tmp_path / "pages"))
    return config


def test_results_are_dropped_when_an_embedded_store_is_indexed_again(own: RetrieverConfig, tmp_path: Path) -> None:
    with opened(own, tmp_path) as retriever:
        before = retriever.search(QUERY)
        retriever.search("hz")
        generation = retriever.client.generation("pages")
        index_pages(own, write_pages(tmp_path / "pages", MORE))
        assert retriever.client.generation("pages") != generation
        after = retriever.search(QUERY)
        assert said(after)[1] == said(retriever.search("hz"))[1] == "miss"
        assert (before.chunks[0].chunk.title, after.chunks[0].chunk.title) == ("Topics", "New")
        assert said(retriever.search(QUERY))[1] == "hit"
        assert retriever.invoke(QUERY)[0].metadata["title"] == "New"


def test_indexing_that_changes_nothing_keeps_the_results(own: RetrieverConfig, tmp_path: Path) -> None:
    with opened(own, tmp_path) as retriever:
        retriever.search(QUERY)
        index_pages(own, tmp_path / "pages")
        assert said(retriever.search(QUERY))[1] == "hit"


def test_a_change_during_a_search_makes_its_result_an_old_one(own: RetrieverConfig, tmp_path: Path) -> None:
    """The pages are indexed again while the query is embedded, that is after the version was read."""
    with opened(own, tmp_path) as retriever:
        embed = retriever.embeddings.embed_queries

        def meanwhile(texts: list[str]) -> list[list[float]]:
            index_pages(own, write_pages(tmp_path / "pages", MORE))
            found: list[list[float]] = embed(texts)
            return found

        retriever.embeddings.embed_queries = meanwhile
        retriever.search(QUERY)
        del retriever.embeddings.embed_queries
        assert said(retriever.search(QUERY))[1] == "miss"
        assert said(retriever.search(QUERY))[1] == "hit"


def test_settings_that_choose_otherwise_from_the_candidates_get_their_own_results(
    own: RetrieverConfig, tmp_path: Path
) -> None:
    with opened(own, tmp_path) as retriever:
        assert len(retriever.search(QUERY).chunks) == 5
        fewer = retriever.model_copy(update={"settings": retriever.settings.model_copy(update={"top_k": 2})})
        assert len(fewer.search(QUERY).chunks) == 2
        assert said(fewer.search(QUERY))[1] == said(retriever.search(QUERY))[1] == "hit"


def test_settings_that_find_otherwise_get_their_own_results(own: RetrieverConfig, tmp_path: Path) -> None:
    with opened(own.model_copy(update={"mode": "keyword"}), tmp_path) as retriever:
        query, settings = "messages messages stream", retriever.settings
        keyword = settings.keyword.model_copy(update={"term_counts": False})
        once = retriever.model_copy(update={"settings": settings.model_copy(update={"keyword": keyword})})
        counted = [chunk.score for chunk in retriever.search(query).chunks]
        assert [chunk.score for chunk in once.search(query).chunks] != counted
        assert said(once.search(query))[1] == said(retriever.search(query))[1] == "hit"


# Results of a server


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[tuple[QdrantServer, RetrieverConfig]]:
    """A server of this test alone."""
    with QdrantServer() as server:
        config = settings(store={"url": server.url}, collection="pages", threshold=0)
        index_pages(config, write_pages(tmp_path / "pages"))
        yield server, config


def rewritten(server: QdrantServer, point: str) -> None:
    """Change a text in place, which neither the size nor the description of a collection shows."""
    payload = {"page_content": "rewritten", "metadata": {"chunk_id": "new"}}
    server.client.overwrite_payload("pages", payload, points=[point])


def test_a_server_does_not_tell_of_its_changes_so_nothing_of_it_is_kept(
    remote: tuple[QdrantServer, RetrieverConfig], tmp_path: Path
) -> None:
    server, config = remote
    with opened(config, tmp_path) as retriever:
        best = retriever.search(QUERY).chunks[0].chunk
        rewritten(server, best.point_id)
        after = retriever.search(QUERY)
        assert after.chunks[0].chunk.text == "rewritten"
        assert said(after)[1] == "off"
        assert counted(retriever, "result") == (0, 0)


def test_a_server_s_results_are_kept_for_as_long_as_the_settings_allow(
    remote: tuple[QdrantServer, RetrieverConfig], tmp_path: Path
) -> None:
    server, config = remote
    clock = Clock()
    with opened(config, tmp_path, results_ttl_s=60) as retriever:
        clocked(retriever, clock)
        first = retriever.search(QUERY)
        rewritten(server, first.chunks[0].chunk.point_id)
        server.requests.clear()
        clock.pass_by(59)
        assert said(retriever.search(QUERY))[1] == "hit"
        assert server.requests == [], "nothing is asked for what is known"
        clock.pass_by(1)
        again = retriever.search(QUERY)
        assert (said(again)[1], again.chunks[0].chunk.text) == ("miss", "rewritten")


@pytest.mark.parametrize(("allowed", "state"), [(0, "off"), (60, "hit")])
def test_the_setting_decides_whether_a_server_s_results_are_kept(
    remote: tuple[QdrantServer, RetrieverConfig], tmp_path: Path, allowed: float, state: str
) -> None:
    with opened(remote[1], tmp_path, results_ttl_s=allowed) as retriever:
        assert found(retriever.search(QUERY)) == found(retriever.search(QUERY))
        assert said(retriever.search(QUERY))[1] == state


def test_a_server_may_be_slow_while_other_threads_use_the_cache(
    remote: tuple[QdrantServer, RetrieverConfig], tmp_path: Path
) -> None:
    """Whatever waits for the server holds no lock that a kept answer needs."""
    server, config = remote
    waiting, released = threading.Event(), threading.Event()
    with opened(config, tmp_path, results_ttl_s=60) as retriever:
        retriever.search(QUERY)
        answer = server.answer

        def held(request: Any) -> Any:
            waiting.set()
            assert released.wait(20), "the kept answer waited for the server"
            return answer(request)

        server.answer = held  # type: ignore[method-assign]
        try:
            with ThreadPoolExecutor(1) as pool:
                slow = pool.submit(retriever.search, "another query")
                assert waiting.wait(20)
                assert said(retriever.search(QUERY))[1] == "hit"
                released.set()
                assert slow.result().status == "success"
        finally:
            released.set()
            server.answer = answer  # type: ignore[method-assign]

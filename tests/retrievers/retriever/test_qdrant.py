"""The retriever as an application uses it: sessions, LangChain, threads; a folder and a server give the same."""

import asyncio
import logging
import re
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_qdrant import QdrantVectorStore

from retrievers import QdrantRetriever
from retrievers.config import RetrieverConfig, dump
from retrievers.errors import (
    ConfigError,
    EmbeddingError,
    MissingKeyError,
    QueryError,
    StoreError,
)
from retrievers.records import RetrievalSession, RetrievedChunk
from tests.support.cohere_server import FAULTS as COHERE_FAULTS
from tests.support.cohere_server import KEY as COHERE_KEY
from tests.support.cohere_server import CohereServer
from tests.support.collections import REPEATED, TableEmbeddings, fill, index_pages, indexed, settings, write_pages
from tests.support.qdrant_server import FAULTS, QdrantServer
from tests.support.selecting import select

QUERIES = (
    "how do nodes stream messages",
    "request answer client",
    REPEATED,
    "acceleration and drift of an IMU",
    "measure the rate with hz",
    "what is the capital of France",
)
WORDS = "topic service node message glossary client answer rate IMU drift robot banana quantum".split()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RetrieverConfig:
    return indexed(tmp_path_factory.mktemp("retriever"), threshold=0)


@pytest.fixture(scope="module")
def retriever(folder: RetrieverConfig) -> Iterator[QdrantRetriever]:
    """Threshold 0, top_k 5, over the pages in a folder."""
    with QdrantRetriever.open(folder, env={}) as opened:
        yield opened


@pytest.fixture(scope="module")
def of_handbook(handbook: Path) -> Iterator[QdrantRetriever]:
    """Threshold 0, top_k 20, over the ROS 2 module of the handbook on a server."""
    with QdrantServer() as server:
        config = settings(store={"url": server.url}, collection="ros2", threshold=0, top_k=20)
        index_pages(config, handbook / "docs" / "module-1-ros2")
        with QdrantRetriever.open(config, env={}) as opened:
            yield opened


@pytest.fixture(scope="module")
def server(folder: RetrieverConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[QdrantServer]:
    """A server with the same pages as the folder."""
    with QdrantServer() as running:
        index_pages(over(running, folder), write_pages(tmp_path_factory.mktemp("pages")))
        yield running


def over(server: QdrantServer, config: RetrieverConfig, timeout_s: float = 10) -> RetrieverConfig:
    store = settings(store={"url": server.url, "timeout_s": timeout_s}).store
    return config.model_copy(update={"store": store})


def with_settings(retriever: QdrantRetriever, **values: Any) -> QdrantRetriever:
    """The same open retriever with other settings."""
    return retriever.with_settings(retriever.settings.model_copy(update=values))


def outcome(session: RetrievalSession) -> RetrievalSession:
    """A session without what is new every time."""
    return replace(
        session,
        session_id="",
        timings=replace(session.timings, embed_ms=None, search_ms=None, total_ms=0),
        chunks=tuple(untimed(chunk) for chunk in session.chunks),
        below_threshold=tuple(untimed(chunk) for chunk in session.below_threshold),
    )


def untimed(chunk: RetrievedChunk) -> RetrievedChunk:
    return replace(chunk, retrieved_at=None)


def chunks_of(found: Sequence[RetrievedChunk]) -> list[RetrievedChunk]:
    return [untimed(chunk) for chunk in found]


# Sessions


def test_a_session_tells_how_it_went(retriever: QdrantRetriever) -> None:
    session = retriever.search("how do nodes stream messages")
    assert (session.status, session.error, session.query) == ("success", None, "how do nodes stream messages")
    assert session.parameters == {
        "collection": "pages",
        "mode": "semantic",
        "top_k": 5,
        "threshold": 0.0,
        "candidates": 100,
    }
    assert session.embedding == {"provider": "wordllama", "model": "l2_supercat_256", "dimension": 256}
    assert (len(session.chunks), session.candidates_found, session.filtered_out) == (5, 9, 0)
    best = session.chunks[0]
    assert (best.rank, best.score_scale, best.source) == (1, "cosine", "ros2/topics.md:6-6")
    assert best.scores == {"semantic": best.score}
    assert session.confidence is not None and session.confidence.coverage == 1
    timings = session.timings
    assert timings.embed_ms is not None and timings.search_ms is not None and timings.rerank_ms is None
    assert timings.embed_ms + timings.search_ms == pytest.approx(timings.total_ms)


def test_the_vector_is_in_the_session_only_on_request(retriever: QdrantRetriever) -> None:
    assert "vector" not in retriever.search("robot").embedding
    vector = retriever.search("robot", with_vector=True).embedding["vector"]
    assert list(vector) == retriever.embeddings.embed_query("robot")


def test_sessions_have_their_own_ids(retriever: QdrantRetriever) -> None:
    assert len({retriever.search("robot").session_id for _ in range(5)}) == 5


def test_everything_below_the_threshold_is_an_empty_success_with_the_best_of_it(retriever: QdrantRetriever) -> None:
    session = with_settings(retriever, threshold=1.0).search("robot")
    assert (session.status, session.chunks) == ("success", ())
    assert (session.candidates_found, session.filtered_out) == (9, 9)
    assert [chunk.rank for chunk in session.below_threshold] == [1, 2, 3]
    assert session.warnings[0].startswith("all 9 candidates are below the threshold 1")
    assert session.suggestions[0].startswith("lower the threshold to ")
    assert session.confidence is not None and session.confidence.level == "none"


def test_a_query_in_another_language_is_named_whatever_the_threshold_lets_through(retriever: QdrantRetriever) -> None:
    warning = "the query seems to be German, and what was found is English"
    for threshold in (0.0, 1.0):
        asking = with_settings(retriever, threshold=threshold)
        assert warning in asking.search("Welche Knoten tauschen Nachrichten aus, und wer hört ihnen zu?").warnings
        assert warning not in asking.search("Which nodes exchange messages, and who listens to them?").warnings


@pytest.mark.parametrize("query", ["", " ", "\n\t", "\u2003"])
def test_a_blank_query_is_an_empty_session_with_a_message(
    retriever: QdrantRetriever, query: str, caplog: pytest.LogCaptureFixture
) -> None:
    session = retriever.search(query)
    assert (session.status, session.error, session.chunks) == ("success", None, ())
    assert session.warnings == ("the query is empty; expected a question or some words",)
    assert caplog.records == []


@pytest.mark.parametrize(
    ("query", "said"),
    [("word " * 513, "513 words"), ("x" * 4_001, "4001 characters"), ("word " * 600, "at most 512 words and 4000")],
)
def test_a_query_that_is_too_long_is_an_error_session(retriever: QdrantRetriever, query: str, said: str) -> None:
    session = retriever.search(query)
    assert session.status == "error"
    assert session.error is not None and said in session.error


@pytest.mark.parametrize("query", ["w " * 512, "x" * 4_000, "?", "日本語", "a\x00b", "'; DROP TABLE", "{}", "../.."])
def test_any_other_query_is_searched_for(retriever: QdrantRetriever, query: str) -> None:
    session = retriever.search(query)
    assert (session.status, session.error) == ("success", None)
    assert [chunk.chunk.point_id for chunk in session.chunks] == [found.id for found in retriever.invoke(query)]


@pytest.mark.parametrize("mode", ["semantic", "keyword", "hybrid"])
def test_half_a_character_is_an_error_session(retriever: QdrantRetriever, mode: str) -> None:
    session = with_settings(retriever, mode=mode).search("robot \ud800")
    assert (session.status, session.chunks) == ("error", ())
    assert session.error == "the query holds half a character at place 6 (a lone surrogate)"


def test_a_batch_keeps_its_order_and_one_bad_query_spoils_no_other(retriever: QdrantRetriever) -> None:
    sessions = retriever.search_batch(["robot", "", "word " * 600, "hz"])
    assert [s.query for s in sessions] == ["robot", "", "word " * 600, "hz"]
    assert [s.status for s in sessions] == ["success", "success", "error", "success"]
    assert outcome(sessions[3]) == outcome(retriever.search("hz"))
    assert retriever.search_batch([]) == []


# Candidates, and what is made of them


@examples(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    query=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join),
    top_k=st.integers(1, 12),
    threshold=st.sampled_from([0.0, 0.1, 0.25, 0.4, 0.9]),
)
def test_search_selects_from_the_candidates_at_full_depth(
    retriever: QdrantRetriever, query: str, top_k: int, threshold: float
) -> None:
    session = with_settings(retriever, top_k=top_k, threshold=threshold).search(query)
    (candidates,) = retriever.candidates([query])
    full = select(candidates, top_k, threshold)
    assert chunks_of(session.chunks) == chunks_of(full.chunks)
    assert chunks_of(session.below_threshold) == chunks_of(full.below_threshold)[: len(session.below_threshold)]
    assert all(0 <= chunk.known_score <= 1 for chunk in candidates)


@examples(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join))
def test_three_results_are_the_first_of_twenty(of_handbook: QdrantRetriever, query: str) -> None:
    twenty = of_handbook.search(query)
    assert len(twenty.chunks) == 20
    assert chunks_of(with_settings(of_handbook, top_k=3).search(query).chunks) == chunks_of(twenty.chunks)[:3]


def test_identical_texts_tie_exactly_and_are_ordered_by_chunk_id(retriever: QdrantRetriever) -> None:
    (found,) = retriever.candidates([REPEATED])
    tied = found[:3]
    assert {chunk.chunk.heading for chunk in tied} == {"See also"}
    assert len({chunk.score for chunk in tied}) == 1
    ids = [chunk.chunk.chunk_id for chunk in tied]
    assert ids == sorted(ids)
    for top_k in (1, 2, 3):
        session = with_settings(retriever, top_k=top_k).search(REPEATED)
        assert [chunk.chunk.chunk_id for chunk in session.chunks] == ids[:top_k]


def test_results_are_those_of_langchain_qdrant_and_of_brute_force(of_handbook: QdrantRetriever) -> None:
    embeddings, chunks = of_handbook.embeddings, of_handbook.chunks()
    store = QdrantVectorStore(of_handbook.client, "ros2", embedding=embeddings, validate_collection_config=False)
    matrix = np.asarray(embeddings.embed_documents([chunk.text for chunk in chunks]))
    for query in QUERIES:
        found = [(c.chunk.point_id, c.score) for c in of_handbook.search(query).chunks]
        theirs = [(d.metadata["_id"], score) for d, score in store.similarity_search_with_score(query, k=20)]
        cosines = matrix @ np.asarray(embeddings.embed_query(query))
        best = sorted(zip(cosines, chunks, strict=True), key=lambda pair: (-pair[0], pair[1].chunk_id))[:20]
        assert dict(found) == pytest.approx(dict(theirs), abs=1e-6)
        assert [point for point, _ in found] == [chunk.point_id for _, chunk in best]
        assert [score for _, score in found] == pytest.approx([cosine for cosine, _ in best], abs=1e-6)


def test_candidates_go_to_the_depth_of_the_settings_or_the_one_given(retriever: QdrantRetriever) -> None:
    assert [len(c) for c in retriever.candidates(["robot", "hz"])] == [9, 9]
    assert len(retriever.candidates(["robot"], depth=2)[0]) == 2
    assert len(with_settings(retriever, candidates=4, top_k=3).candidates(["robot"])[0]) == 4
    assert list(retriever.candidates([])) == []


def test_candidates_of_a_bad_query_raise(retriever: QdrantRetriever) -> None:
    with pytest.raises(QueryError, match="the query is empty"):
        retriever.candidates(["robot", " "])


def test_chunks_and_samples_are_read_without_a_search(retriever: QdrantRetriever) -> None:
    assert len(retriever.chunks()) == 9
    assert {c.heading for c in retriever.chunks({"url": ["/docs/motion/imu"]})} == {"Inertial Sensors", "See also"}
    (first, second) = retriever.sample(2)
    assert first[0] != second[0]
    assert set(first[1]) == {"page_content", "metadata"}


# LangChain


def test_it_is_a_langchain_retriever_whose_documents_carry_the_metadata(retriever: QdrantRetriever) -> None:
    assert isinstance(retriever, BaseRetriever)
    session = retriever.search("how do nodes stream messages")
    documents = retriever.invoke("how do nodes stream messages")
    best = documents[0]
    assert [document.page_content for document in documents] == [chunk.chunk.text for chunk in session.chunks]
    assert best.id == session.chunks[0].chunk.point_id
    assert best.metadata["source_url"] == "/docs/ros2/topics"
    assert (best.metadata["title"], best.metadata["tags"]) == ("Topics", ["ros2", "topics"])
    assert (best.metadata["file_path"], best.metadata["start_line"]) == ("ros2/topics.md", 6)
    assert best.metadata["score"] == session.chunks[0].score
    assert (best.metadata["rank"], best.metadata["score_scale"]) == (1, "cosine")


def test_every_way_of_invoking_gives_the_same(retriever: QdrantRetriever) -> None:
    one_by_one = [retriever.invoke(query) for query in QUERIES]

    async def at_once() -> list[Any]:
        return list(await asyncio.gather(*(retriever.ainvoke(query) for query in QUERIES)))

    assert asyncio.run(at_once()) == one_by_one
    assert retriever.batch(list(QUERIES)) == one_by_one
    assert asyncio.run(retriever.abatch(list(QUERIES))) == one_by_one


def headings(documents: list[Document]) -> list[str]:
    return [document.metadata["heading"] for document in documents]


def test_it_composes_with_other_runnables(retriever: QdrantRetriever) -> None:
    assert (retriever | RunnableLambda(headings)).invoke("request answer client")[0] == "Services"


def test_invoking_applies_threshold_and_cut(retriever: QdrantRetriever) -> None:
    assert with_settings(retriever, threshold=1.0).invoke("robot") == []
    assert len(with_settings(retriever, top_k=2).invoke("robot")) == 2


@pytest.mark.parametrize("query", ["", "word " * 600])
def test_invoking_with_a_bad_query_raises(retriever: QdrantRetriever, query: str) -> None:
    with pytest.raises(QueryError):
        retriever.invoke(query)
    with pytest.raises(QueryError):
        asyncio.run(retriever.ainvoke(query))


def test_threads_get_what_one_thread_gets(retriever: QdrantRetriever) -> None:
    serial = [outcome(retriever.search(query)) for query in QUERIES]
    with ThreadPoolExecutor(8) as pool:
        parallel = list(pool.map(retriever.search, QUERIES * 10))
    assert [outcome(session) for session in parallel] == serial * 10


def test_threads_get_the_same_from_a_server(of_handbook: QdrantRetriever) -> None:
    serial = [outcome(of_handbook.search(query)) for query in QUERIES]
    with ThreadPoolExecutor(4) as pool:
        assert [outcome(session) for session in pool.map(of_handbook.search, QUERIES * 2)] == serial * 2


# From settings


def test_an_exported_file_opens_the_same_retriever(retriever: QdrantRetriever, tmp_path: Path) -> None:
    """Exported settings hold an absolute or relative path; the environment changes nothing."""
    shutil.copytree(retriever.settings.store.path or "", tmp_path / "copy")
    exported = dump(retriever.settings) | {"store": {"path": "copy"}}
    file = tmp_path / "retriever.yaml"
    file.write_text(yaml.safe_dump(exported, sort_keys=False))
    for source in (file, str(file)):
        with QdrantRetriever.from_config(source, env={"RAG_DEFAULT_TOP_K": "1", "QDRANT_URL": "http://h"}) as opened:
            assert opened.settings.store.path == tmp_path / "copy"
            assert opened.settings.model_copy(update={"store": retriever.settings.store}) == retriever.settings
            assert opened.invoke("robot") == retriever.invoke("robot")
    with QdrantRetriever.from_config(opened.settings, env={}) as again:
        assert again.settings == opened.settings


def test_a_wrong_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("top_k: 0\nthreshhold: 1\n")
    with pytest.raises(ConfigError) as caught:
        QdrantRetriever.from_config(tmp_path / "r.yaml")
    assert len(str(caught.value).splitlines()) == 2


def test_a_flat_payload_is_read_through_map_and_aliases() -> None:
    own = {"provider": "python", "model": "mine:make"}
    metadata = {"text_key": "body", "nested_under": "", "map": {"title": "name", "url": "href"}}
    table = {"one": [1.0, 0.0], "two": [0.8, 0.6], "q": [1.0, 0.0]}
    payloads = [
        {"body": "one", "href": "/docs/1", "name": "One", "document_section": "A > B", "document_id": 7},
        {"body": "two", "href": "/docs/2", "name": 5},
    ]
    with QdrantServer() as server:
        fill(server.client, "mine", [table["one"], table["two"]], payloads)
        config = settings(store={"url": server.url}, collection="mine", embedding=own, metadata=metadata)
        with QdrantRetriever.open(config, env={}, embeddings=TableEmbeddings(table)) as opened:
            first, second = opened.invoke("q")
            (problem,) = opened.search("q").chunks[1].chunk.problems
            assert [c.title for c in opened.chunks({"url": ["/docs/1"]})] == ["One"]
    assert (first.page_content, second.page_content) == ("one", "two")
    assert {k: first.metadata[k] for k in ("source_url", "title", "section_path", "source_document_id")} == {
        "source_url": "/docs/1",
        "title": "One",
        "section_path": "A > B",
        "source_document_id": "7",
    }
    assert first.metadata["chunk_id"] == first.id == "0"
    assert problem == "title: expected text, got 5"


# Faults


def test_no_key_is_told_before_the_store_is_asked() -> None:
    config = settings(store={"path": "/nowhere"}, embedding={"provider": "cohere"})
    with pytest.raises(MissingKeyError, match="COHERE_API_KEY"):
        QdrantRetriever.open(config, env={})


@pytest.mark.parametrize(
    ("values", "kind", "said"),
    [
        ({"filters": "modul = ros2"}, ConfigError, "no field 'modul'; did you mean 'module'"),
        ({"filters": "module > 5"}, ConfigError, "module: a range needs a number"),
        ({"mode": "hybrid", "keyword": {"vector_name": "terms"}}, StoreError, "no sparse vector 'terms'"),
        ({"rerank": "cross-encoder"}, MissingKeyError, "Cohere Rerank needs an API key"),
        (
            {"rerank": "cross-encoder", "cross_encoder": {"provider": "python", "model": "none:make"}},
            ConfigError,
            "cross_encoder.model 'none:make' cannot be loaded",
        ),
    ],
)
def test_what_cannot_be_opened_leaves_the_folder_free(
    folder: RetrieverConfig, tmp_path: Path, values: dict[str, Any], kind: type[Exception], said: str
) -> None:
    shutil.copytree(folder.store.path or "", tmp_path / "copy")
    config = settings(store={"path": str(tmp_path / "copy")}, collection="pages", **values)
    with pytest.raises(kind, match=re.escape(said)):
        QdrantRetriever.open(config, env={})
    QdrantRetriever.open(settings(store=config.store, collection="pages"), env={}).close()


def test_an_opened_retriever_filters_and_reranks(folder: RetrieverConfig, tmp_path: Path) -> None:
    shutil.copytree(folder.store.path or "", tmp_path / "copy")
    config = settings(
        store={"path": str(tmp_path / "copy")},
        collection="pages",
        threshold=0,
        mode="hybrid",
        filters={"module": "ros2"},
        rerank="cross-encoder",
        cross_encoder={"provider": "python", "model": "tests.support.rerankers:Scorer"},
    )
    with QdrantRetriever.open(config, env={}) as opened:
        (found,) = opened.candidates(["client answer"])
    assert {c.chunk.module for c in found} == {"ros2"}
    assert [c.score for c in found[:3]] == [1.0, 1.0, 0.0], "two chunks hold both words"
    assert found.timings.rerank_ms is not None


def test_a_refused_collection_leaves_the_folder_free(folder: RetrieverConfig, tmp_path: Path) -> None:
    shutil.copytree(folder.store.path or "", tmp_path / "copy")
    config = folder.model_copy(update={"store": settings(store={"path": str(tmp_path / "copy")}).store})
    other = config.model_copy(update={"embedding": settings(embedding={"provider": "cohere"}).embedding})
    with pytest.raises(StoreError) as caught:
        QdrantRetriever.open(other, env={}, embeddings=TableEmbeddings({}))
    QdrantRetriever.open(config, env={}).close()
    assert caught.value.__traceback__ is not None, "the error, which holds on to the client, is still there"


class Fickle(Embeddings):
    """A user's own model that changes its dimension, or fails."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def embed_documents(self, texts: list[str]) -> Any:
        raise NotImplementedError

    def embed_query(self, text: str) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        ([1.0, 0.0, 0.0], StoreError, "holds vectors of 2 dimensions, but python:mine:make made one of 3"),
        (RuntimeError("CUDA gone"), EmbeddingError, "python:mine:make failed to embed: RuntimeError, CUDA gone"),
        ([float("nan"), 0.0], EmbeddingError, "python:mine:make made no finite vector for 'q'"),
        ([], StoreError, "made one of 0"),
    ],
)
def test_a_model_that_fails_after_opening_is_an_error_session(
    answer: Any, kind: type[Exception], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    own = {"provider": "python", "model": "mine:make"}
    with QdrantServer() as server:
        fill(server.client, "mine", [[1.0, 0.0]], [{"page_content": "a"}])
        config = settings(store={"url": server.url}, collection="mine", embedding=own, trust_embedding=True)
        with QdrantRetriever.open(config, env={}, embeddings=Fickle(answer)) as opened:
            session = opened.search("q")
            with pytest.raises(kind):
                opened.invoke("q")
    assert session.status == "error"
    assert session.error is not None and said in session.error
    (record,) = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert (record.__dict__["query"], record.__dict__["collection"]) == ("q", "mine")


def test_a_server_gives_the_same_as_a_folder(
    retriever: QdrantRetriever, server: QdrantServer, folder: RetrieverConfig
) -> None:
    with QdrantRetriever.open(over(server, folder), env={}) as opened:
        assert opened.info == retriever.info
        assert opened.chunks() == retriever.chunks()
        for query in QUERIES:
            one, other = opened.search(query), retriever.search(query)
            assert [c.chunk for c in one.chunks] == [c.chunk for c in other.chunks]
            assert [c.score for c in one.chunks] == pytest.approx([c.score for c in other.chunks], abs=1e-6)


@pytest.mark.parametrize("fault", sorted(set(FAULTS) - {"slow"}))
def test_a_server_that_fails_is_an_error_session_and_recovers(
    server: QdrantServer, folder: RetrieverConfig, fault: str
) -> None:
    with QdrantRetriever.open(over(server, folder), env={}) as opened:
        with server.failing(FAULTS[fault]):
            session = opened.search("robot")
            with pytest.raises(StoreError) as caught:
                opened.invoke("robot")
        assert (session.status, session.chunks) == ("error", ())
        assert (session.error or "").partition(" (")[0] == str(caught.value).partition(" (")[0]
        assert opened.search("robot").status == "success"


@pytest.mark.slow
def test_a_server_that_does_not_answer_is_a_timeout_session(server: QdrantServer, folder: RetrieverConfig) -> None:
    with QdrantRetriever.open(over(server, folder, timeout_s=2), env={}) as opened:
        with server.failing(FAULTS["slow"]):
            with ThreadPoolExecutor(2) as pool:
                session = pool.submit(opened.search, "robot")
                raised = pool.submit(opened.invoke, "robot")
                assert session.result().status == "timeout"
                assert isinstance(raised.exception(), StoreError)
        assert "no answer within 2 s" in (session.result().error or "")


def test_a_server_that_goes_away_is_an_error_session(folder: RetrieverConfig, tmp_path: Path) -> None:
    with QdrantServer() as going:
        index_pages(over(going, folder), write_pages(tmp_path / "pages"))
        opened = QdrantRetriever.open(over(going, folder), env={})
    session = opened.search("robot")
    with pytest.raises(StoreError):
        opened.invoke("robot")
    opened.close()
    assert session.status == "error"
    assert "cannot be reached (ConnectError" in (session.error or "")


# Cohere


@pytest.fixture(scope="module")
def cohere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[CohereServer, RetrieverConfig]]:
    """The pages in a folder, embedded by Cohere."""
    with CohereServer() as server:
        embedding = {"provider": "cohere", "base_url": server.url}
        config = settings(
            store={"path": str(tmp_path_factory.mktemp("cohere"))}, collection="pages", embedding=embedding, threshold=0
        )
        index_pages(config, write_pages(tmp_path_factory.mktemp("pages")), {"COHERE_API_KEY": COHERE_KEY})
        yield server, config


def test_pages_are_embedded_as_documents_and_queries_as_queries(cohere: tuple[CohereServer, RetrieverConfig]) -> None:
    server, config = cohere
    sent = [text for kind, texts in server.inputs for text in texts if kind == "search_document"]
    with QdrantRetriever.open(config, env={"COHERE_API_KEY": COHERE_KEY}) as opened:
        assert sorted(sent) == sorted({chunk.text for chunk in opened.chunks()})
        server.requests.clear()
        session = opened.search("A client waits for the answer")
        assert server.inputs == [("search_query", ["A client waits for the answer"])]
    assert session.embedding == {"provider": "cohere", "model": "embed-english-v3.0", "dimension": 32}
    assert session.chunks[0].chunk.heading == "Calling"


@pytest.mark.parametrize("fault", ["401", "404", "slow", "none", "html"])
def test_a_provider_that_fails_is_an_error_session_without_the_key(
    cohere: tuple[CohereServer, RetrieverConfig], fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    server, config = cohere
    if fault == "slow":
        impatient = config.embedding.model_copy(update={"timeout_s": 0.3})
        config = config.model_copy(update={"embedding": impatient})
    with QdrantRetriever.open(config, env={"COHERE_API_KEY": COHERE_KEY}) as opened:
        with server.failing(COHERE_FAULTS[fault]):
            session = opened.search("robot")
            with pytest.raises(EmbeddingError):
                opened.invoke("robot")
    assert session.status == ("timeout" if fault == "slow" else "error")
    assert COHERE_KEY not in f"{session}{caplog.text}"

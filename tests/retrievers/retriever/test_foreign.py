"""The user's own retriever or store as an evaluation sees it, against the same object called as LangChain does."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, chain
from langchain_qdrant import QdrantVectorStore, RetrievalMode
from qdrant_client import QdrantClient, models
from syrupy.assertion import SnapshotAssertion

from retrievers import QdrantRetriever
from retrievers.config import RetrieverConfig
from retrievers.errors import ConfigError, ForeignRetrieverError, QueryError, RetrievalError, StoreError
from retrievers.retriever.foreign import ForeignRetriever
from retrievers.retriever.opened import adopt_given, open_retriever
from retrievers.retriever.protocol import Retriever
from retrievers.store.embedded import EmbeddedClient
from tests.support import foreign
from tests.support.collections import indexed
from tests.support.command import refusal
from tests.support.embeddings import WORDS, Counting
from tests.support.foreign import HERE, Calling, Terms, settings, vector_store

QUERIES = ("kinematics of an arm", "a named channel of messages", "reliable camera images", "zebra")
DOCS = [Document(page_content=f"text {n}", id=f"d{n}") for n in range(12)]


def open_named(name: str, **values: Any) -> Retriever:
    return open_retriever(settings(name, **values), env={})


def around(call: Callable[[str], Any], **values: Any) -> ForeignRetriever:
    return ForeignRetriever(settings("plain", **values), Calling(call=call), None, "Calling")


def of_function(function: Any, **values: Any) -> Retriever:
    return adopt_given(function, RetrieverConfig.model_validate(values), None, {})[0]


# Order and cut


@pytest.mark.parametrize("name", ["plain", "asynchronous", "repeating", "as_retriever"])
def test_documents_are_candidates_in_their_own_order(name: str) -> None:
    made: BaseRetriever = getattr(foreign, name if name != "asynchronous" else "plain")()
    with open_named(name) as retriever:
        for query, candidates in zip(QUERIES, retriever.candidates(QUERIES), strict=True):
            assert [hit.chunk.text for hit in candidates] == [document.page_content for document in made.invoke(query)]
            assert {(hit.score_scale, hit.score) for hit in candidates} <= {("none", None)}
            assert candidates.facts.text == query
        with ThreadPoolExecutor(8) as threads:
            many = [*threads.map(retriever.search, QUERIES * 10)]
        again = [[hit.chunk for hit in retriever.search(query).chunks] for query in QUERIES] * 10
        assert [[hit.chunk for hit in session.chunks] for session in many] == again


@given(st.lists(st.sampled_from(DOCS), max_size=12), st.integers(1, 8), st.integers(9, 13))
def test_any_order_of_any_documents_is_kept_and_cut(returned: list[Document], top_k: int, depth: int) -> None:
    with around(lambda query: returned, top_k=top_k, candidates=depth) as retriever:
        ids = [str(document.id) for document in returned]
        assert retriever.candidates(["q"])[0].chunk_ids == tuple(ids[:depth])
        assert retriever.candidates(["q"], depth=2)[0].chunk_ids == tuple(ids[:2])
        session = retriever.search("q")
        assert [hit.chunk.chunk_id for hit in session.chunks] == ids[:top_k]
        assert (session.candidates_found, session.filtered_out, session.confidence) == (len(ids[:depth]), 0, None)


@pytest.mark.parametrize("kind", [lambda f: lambda query: asyncio.run(f(query)), lambda f: f, RunnableLambda])
def test_a_function_under_a_threshold_gives_pairs(kind: Callable[[Any], Any]) -> None:
    """Those of rounding and below 0 are clipped, as our cosines are, a score at the threshold is kept."""
    pairs = [(DOCS[0], np.float32(1.0000001)), ("text of its own", 0.35), (DOCS[2], -0.2)]

    async def find(query: str) -> Any:
        return pairs

    with of_function(kind(find), threshold=0.35) as retriever:
        [found] = retriever.candidates(["q"])
        session = retriever.search("q")
    assert found.column("score").tolist() == [1.0, 0.35, 0.0]
    assert [hit.chunk.text for hit in session.chunks] == ["text 0", "text of its own"]
    assert [hit.chunk.text for hit in session.below_threshold] == ["text 2"]


def test_a_session_says_what_it_ran_with_and_variants_have_settings_of_their_own() -> None:
    with open_named("plain", top_k=2, candidates=5) as retriever:
        session = retriever.search("kinematics")
        assert session.parameters == {
            "python": f"{HERE}:plain", "top_k": 2, "threshold": None, "candidates": 5, "collection": None,
        }  # fmt: skip
        assert (retriever.label, retriever.embedding_label, len(retriever.notes)) == ("Overlap", None, 1)
        assert session.timings.embed_ms is None and session.timings.total_ms > 0
        shallow, deep = (retriever.with_settings(settings("plain", candidates=n, top_k=1)) for n in (1, 5))
        assert [len(each.candidates([QUERIES[0]])[0]) for each in (shallow, deep)] == [1, 4]
        with pytest.raises(ConfigError, match="rerank: settled by python"):
            retriever.with_settings(retriever.settings.model_copy(update={"rerank": "mmr"}))


def test_metadata_is_read_by_the_settings_and_what_was_made_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[object] = []
    monkeypatch.setattr(foreign.Overlap, "close", lambda made: closed.extend([made]), raising=False)
    mapped = {"map": {"source_url": "source"}, "nested_under": "info"}
    with open_named("under_other_keys", metadata=mapped) as retriever:
        [found] = retriever.candidates(["kinematics of an arm"])
    assert len(closed) == 1
    assert {hit.chunk.source_url for hit in found} == {"/docs/arms/kinematics", "/docs/ros/topics"}


# Faults


@pytest.mark.parametrize("name", ["one_string", "none", "textless", "raises_in_the_middle", "leaves_in_the_middle"])
def test_faults_are_raised_or_told(name: str, snapshot: SnapshotAssertion) -> None:
    with open_named(name) as retriever:
        said = refusal(ForeignRetrieverError, retriever.candidates, ["a named channel"])
        session = retriever.search("a named channel")
    assert said == snapshot
    assert (session.status, session.error, session.chunks) == ("error", said, ())


def test_a_function_that_returns_something_else_than_pairs_is_told(snapshot: SnapshotAssertion) -> None:
    for answer in (None, [DOCS[0]], [(3, 0.5)], [(DOCS[0], 0.5), (DOCS[0], None)], [(DOCS[0], float("nan"))]):
        with of_function(lambda query, answer=answer: answer, threshold=0.4) as retriever:
            assert refusal(ForeignRetrieverError, retriever.candidates, ["q"]).partition(") ")[2] == snapshot
    with of_function(lambda query: [(DOCS[0], 7.5), ("id", "text")]) as retriever:  # without a threshold
        said = refusal(ForeignRetrieverError, retriever.candidates, ["q"])
    assert said.endswith("at place 2; expected a list of documents, texts, or pairs with a similarity")


def test_an_unusable_query_is_not_asked() -> None:
    asked: list[str] = []
    with around(asked.append) as retriever:
        with pytest.raises(QueryError):
            retriever.candidates(["word " * 600])
        assert retriever.search("word " * 600).status == "error" and retriever.search(" ").warnings
    assert asked == []


@pytest.mark.parametrize("error", [NotImplementedError("some day"), RetrievalError("some day")], ids=repr)
def test_one_that_can_do_neither_and_our_own_errors_pass(error: Exception) -> None:
    with around(Mock(side_effect=error)) as retriever, pytest.raises(RetrievalError, match="some day"):
        retriever.candidates(["q"])


# The collection behind it


def test_a_retriever_over_nothing_that_is_known_lists_no_chunks() -> None:
    with open_named("plain") as retriever:
        assert (retriever.label, retriever.info, retriever.describe()) == ("Overlap", None, None)
        assert of_function(chain(around)).label == of_function(partial(around)).label == "around"
        with pytest.raises(StoreError, match="lists no chunks; name the store and collection"):
            retriever.chunks()


def test_a_store_lists_its_own_chunks() -> None:
    # Without a model of meaning (sparse) only the store knows how it searches.
    labels = dict.fromkeys(("dense", "other_keys", "sparse", "euclid"), "QdrantVectorStore")
    for name, label in {**labels, "own_way": "Reversed", "as_retriever": "VectorStoreRetriever"}.items():
        with open_named(name) as retriever:
            assert (retriever.label, isinstance(retriever, QdrantRetriever)) == (label, name in ("dense", "other_keys"))
            assert retriever.info is not None and retriever.info.points == len(retriever.chunks()) == 5
            assert len(retriever.chunks({"source_url": ["/docs/ros/topics"]})) == 2
            [found] = retriever.candidates(["kinematics of an arm"])
            by_id = {chunk.chunk_id: chunk.text for chunk in retriever.chunks()}
            assert {hit.chunk.chunk_id: hit.chunk.text for hit in found}.items() <= by_id.items()
            if name == "own_way":  # it is asked as a retriever
                expected = foreign.own_way().as_retriever(search_kwargs={"k": 100}).invoke("kinematics of an arm")
                assert [hit.chunk.text for hit in found] == [document.page_content for document in expected]


def test_the_collection_is_closed_and_no_object_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = indexed(tmp_path).store
    closed: list[object] = []
    monkeypatch.setattr(EmbeddedClient, "close", lambda client: closed.extend([client]))
    monkeypatch.setattr(foreign.Overlap, "close", lambda made: closed.extend([made]), raising=False)
    with of_function(foreign.Overlap(docs=DOCS), store=store, collection="pages") as retriever:
        assert retriever.info is not None
    assert [type(each) for each in closed] == [EmbeddedClient]


def test_whatever_a_users_client_raises_is_typed() -> None:
    store = foreign.vector_store(mode=RetrievalMode.SPARSE)
    with of_function(store) as retriever:
        store.client.close()
        with pytest.raises(StoreError, match=r"collection 'robots' .*cannot be read or written \(RuntimeError"):
            retriever.chunks()


# A store of the caller's own


def test_a_store_gets_a_threshold_and_another_mode() -> None:
    store = vector_store(mode=RetrievalMode.HYBRID)
    for mode, scale in (("semantic", "cosine"), ("keyword", "sparse"), ("hybrid", "weighted")):
        retriever, _ = adopt_given(store, RetrieverConfig(mode=mode, threshold=0.6), None, {})
        session = retriever.search("kinematics of an arm")
        assert {hit.score_scale for hit in (*session.chunks, *session.below_threshold)} == {scale}
        assert all(hit.scores["semantic"] >= 0.6 for hit in session.chunks)
        assert session.filtered_out > 0 or mode == "keyword"
    sparse = QdrantVectorStore(store.client, "robots", retrieval_mode=RetrievalMode.SPARSE, sparse_embedding=Terms())
    theirs = {d.page_content: score for d, score in sparse.similarity_search_with_score("kinematics arm", k=5)}
    retriever, _ = adopt_given(store, RetrieverConfig(mode="keyword"), None, {})
    [found] = retriever.candidates(["kinematics arm"])
    assert {hit.chunk.text: hit.score for hit in found} == pytest.approx(theirs, abs=1e-5)
    store.client.close()


def test_settings_are_judged_by_the_mode_that_the_store_brings_along() -> None:
    with open_retriever(settings("hybrid", threshold=0.5, threshold_signal="bm25"), env={}) as retriever:
        assert retriever.settings.mode == "hybrid" and retriever.search("kinematics of an arm").chunks
    unscored = {"threshold": 0.3, "threshold_signal": "known_words", "mode": "hybrid"}
    for name, values, said in (
        (
            "dense",
            {"threshold": 0.5, "threshold_signal": "bm25"},
            "'bm25' reads the query's words, which mode 'semantic'",
        ),
        (
            "hybrid",
            {"fusion": "rrf", "threshold": 0.3, "threshold_on": "final"},
            "compare the threshold with rrf scores",
        ),
        ("hybrid", unscored, "'known_words' needs words"),
    ):
        with pytest.raises(ConfigError, match=said):
            open_retriever(settings(name, **values), env={})


class Other(Counting):
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [vector[::-1] for vector in super().embed_documents(texts)]


def test_what_does_not_fit_its_collection_is_refused() -> None:
    store = vector_store()
    with pytest.raises(StoreError, match="has no sparse vector 'bm25', which mode 'hybrid' searches"):
        adopt_given(store, RetrieverConfig(mode="hybrid"), None, {})
    with pytest.raises(StoreError, match="Other gives stored texts a vector of cosine"):
        adopt_given(QdrantVectorStore(store.client, "robots", embedding=Other()), RetrieverConfig(), None, {})
    assert store.similarity_search("kinematics")
    store.client.close()


@pytest.mark.parametrize("mode", RetrievalMode)
def test_what_langchains_tutorials_for_qdrant_end_with_is_taken_as_it_is(mode: RetrievalMode, tmp_path: Path) -> None:
    own: dict[str, Any] = {} if mode == RetrievalMode.SPARSE else {"embedding": Counting(), "vector_name": "dense"}
    own |= {} if mode == RetrievalMode.DENSE else {"sparse_embedding": Terms(), "sparse_vector_name": "sparse"}
    with closing(QdrantClient(path=str(tmp_path / "db"))) as client:
        dense = {"dense": models.VectorParams(size=len(WORDS) + 1, distance=models.Distance.COSINE)}
        client.create_collection("robots", dense, {"sparse": models.SparseVectorParams()})
        store = QdrantVectorStore(client=client, collection_name="robots", retrieval_mode=mode, **own)
        store.add_documents(foreign.documents())
        ours, config = adopt_given(store, RetrieverConfig(), None, {})
        assert isinstance(ours, QdrantRetriever) == (mode != RetrievalMode.SPARSE) and len(ours.chunks()) == 5
        assert config.mode == ("hybrid" if mode == RetrievalMode.HYBRID else "semantic")
        if isinstance(ours, QdrantRetriever):
            assert ours.vector_store is store and len(ours.notes) == (mode == RetrievalMode.HYBRID)
            plain = QdrantVectorStore(client, "robots", embedding=Counting(), vector_name="dense")
            for query in QUERIES:
                found = {hit.chunk.text: hit.scores["semantic"] for hit in ours.search(query).chunks}
                theirs = {d.page_content: max(0.0, s) for d, s in plain.similarity_search_with_score(query, k=5)}
                assert found == pytest.approx({text: theirs[text] for text in found}, abs=1e-6) and len(found) == 5
        else:
            with pytest.raises(ConfigError, match="gives no scores"):
                adopt_given(store, RetrieverConfig(threshold=0.3), None, {})
        kinds = ["similarity"] + ["mmr"] * (mode == RetrievalMode.DENSE)
        for given in (store.as_retriever(search_type=kind, search_kwargs={"k": 2}) for kind in kinds):
            asked, _ = adopt_given(given, RetrieverConfig(), None, {})
            for query in QUERIES[:3]:
                texts = [hit.chunk.text for hit in asked.search(query).chunks]
                assert texts == [document.page_content for document in given.invoke(query)] != []
        best = [hit.chunk.text for hit in ours.search(QUERIES[0]).chunks][:1]
        ours.close()  # and the store stays open
        assert best == [document.page_content for document in store.similarity_search(QUERIES[0], k=1)]

"""The user's retriever as an evaluation sees it, against the same object called as LangChain calls it."""

import logging
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from retrievers.errors import ForeignRetrieverError, QueryError, RetrievalError, StoreUnsupportedError
from retrievers.foreign.adapter import ForeignRetriever, open_foreign
from retrievers.foreign.listing import chunk_of, listing_of
from retrievers.foreign.sources import RetrieverSource, StoreSource
from retrievers.search.candidate_table import Candidates
from tests.support import foreign
from tests.support.embeddings import Counting
from tests.support.foreign import HERE, Calling, settings
from tests.support.selecting import select_by

QUERIES = ("kinematics of an arm", "a named channel of messages", "reliable camera images", "zebra")
DOCS = [Document(page_content=f"text {n}", id=f"d{n}") for n in range(12)]


def open_named(name: str, **values: Any) -> ForeignRetriever:
    return open_foreign(settings(name, **values), {})


def around(call: Callable[[str], Any], **values: Any) -> ForeignRetriever:
    return ForeignRetriever(settings("plain", **values), RetrieverSource(Calling(call=call)), None)


def ids(found: Candidates) -> list[str]:
    return [c.chunk.chunk_id for c in found]


class TestOrder:
    @pytest.mark.parametrize("name", ["plain", "asynchronous", "repeating", "as_retriever"])
    def test_documents_are_candidates_in_their_own_order(self, name: str) -> None:
        made: BaseRetriever = getattr(foreign, name)()
        with open_named(name) as retriever:
            found = retriever.candidates(QUERIES)
            for query, candidates in zip(QUERIES, found, strict=True):
                expected = made.invoke(query) if name != "asynchronous" else foreign.plain().invoke(query)
                assert [c.chunk.text for c in candidates] == [d.page_content for d in expected]
                assert [c.rank for c in candidates] == list(range(1, len(expected) + 1))
                assert (candidates.text, candidates.vector) == (query, None)

    @pytest.mark.parametrize(("returned", "top_k", "kept"), [(0, 5, 0), (3, 5, 3), (5, 5, 5), (12, 5, 5), (12, 12, 12)])
    def test_top_k_cuts_what_is_returned(self, returned: int, top_k: int, kept: int) -> None:
        with around(lambda query: DOCS[:returned], top_k=top_k) as retriever:
            [found] = retriever.candidates(["q"])
            session = retriever.search("q")
        assert ids(found) == [f"d{n}" for n in range(returned)]
        selected = select_by(retriever.settings, found)
        assert [c.chunk.chunk_id for c in selected.chunks] == [f"d{n}" for n in range(kept)]
        assert (selected.filtered_out, selected.below_threshold) == (0, ())
        assert [c.chunk.chunk_id for c in session.chunks] == [c.chunk.chunk_id for c in selected.chunks]
        assert session.candidates_found == returned

    @pytest.mark.parametrize("depth", [None, 1, 4, 50])
    def test_candidates_end_at_the_depth(self, depth: int | None) -> None:
        with around(lambda query: DOCS, candidates=7) as retriever:
            [found] = retriever.candidates(["q"], depth=depth)
        assert len(found) == min(len(DOCS), depth or 7)

    def test_repeated_documents_keep_their_places(self) -> None:
        with around(lambda query: [DOCS[0], DOCS[1], DOCS[0]]) as retriever:
            assert ids(retriever.candidates(["q"])[0]) == ["d0", "d1", "d0"]


class TestStore:
    @pytest.mark.parametrize("name", ["dense", "sparse", "hybrid", "euclid", "own_way"])
    def test_documents_and_scores_are_those_of_its_search(self, name: str) -> None:
        made = getattr(foreign, name)()
        with open_named(name, candidates=4, top_k=2) as retriever:
            for query in QUERIES[:3]:
                expected = made.similarity_search_with_score(query, k=4)
                [found] = retriever.candidates([query])
                assert [c.chunk.text for c in found] == [d.page_content for d, _ in expected]
                assert [c.score for c in found] == pytest.approx([s for _, s in expected], abs=1e-6)
        made.client.close()

    def test_the_similarity_score_threshold_search_is_not_used(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """LangChain's would filter by (cosine + 1) / 2."""

        def never(*_: Any, **__: Any) -> None:
            raise AssertionError("used")

        monkeypatch.setattr("langchain_qdrant.QdrantVectorStore.similarity_search_with_relevance_scores", never)
        with open_named("dense", threshold=0.6) as retriever:
            [found] = retriever.candidates(["kinematics of an arm"])
            selection = retriever.search("kinematics of an arm")
        assert 0 < len(selection.chunks) < len(found) == 5
        assert all((c.known_score >= 0.6) is (c in found[: len(selection.chunks)]) for c in found)
        assert selection.filtered_out == 5 - len(selection.chunks)

    def test_without_a_threshold_none_is_applied(self) -> None:
        with open_named("dense") as retriever:
            [found] = retriever.candidates(["kinematics of an arm"])
            assert min(c.known_score for c in found) < 0.3
            assert len(retriever.search("kinematics of an arm").chunks) == 5

    def test_negative_cosines_are_clipped_as_ours_are(self) -> None:
        class Signed(Counting):
            def embed_query(self, text: str) -> list[float]:
                return [-value for value in super().embed_query(text)]

            def embed_documents(self, texts: list[str]) -> list[list[float]]:
                return [Counting.embed_query(self, text) for text in texts]

        store = foreign.vector_store(embedding=Signed())
        listing = listing_of(store, settings("dense"))
        found = StoreSource(store, listing.info).find("kinematics", 5)
        assert min(score for _, score in store.similarity_search_with_score("kinematics", k=5)) < -0.5
        assert {score for _, score in found} == {0.0}
        listing.close()

    def test_a_search_asks_for_no_more_than_its_answer_needs(self) -> None:
        """Hybrid search of LangChain depends on how deep it goes, so that it must go as deep as was evaluated."""
        for name, found in (("dense", 2), ("sparse", 2), ("hybrid", 4), ("own_way", 4)):
            with open_named(name, top_k=2, candidates=4) as retriever:
                session = retriever.search("kinematics arm joint pose topic messages")
                assert (len(session.chunks), session.candidates_found) == (2, found)
                assert any("at another depth" in note for note in retriever.notes) is (found == 4)

    @pytest.mark.parametrize(
        ("answer", "said"),
        [
            (None, "returned NoneType; expected a list of (document, score)"),
            (DOCS[:1], "returned list; expected a list of (document, score)"),
            ([("text", 0.5)], "returned str 'text' at place 1"),
            ([(DOCS[0], None)], "gave the score None; expected a finite number"),
            ([(DOCS[0], float("nan"))], "gave the score nan"),
        ],
    )
    def test_a_store_that_returns_something_else(self, answer: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
        with open_named("own_way") as retriever:
            monkeypatch.setattr(foreign.Reversed, "similarity_search_with_score", lambda *_, **__: answer)
            with pytest.raises(ForeignRetrieverError) as caught:
                retriever.candidates(["q"])
        assert said in str(caught.value)


class TestAsync:
    def test_a_retriever_that_is_asynchronous_alone_is_waited_for(self) -> None:
        with open_named("asynchronous") as retriever, open_named("plain") as synchronous:
            for query in QUERIES:
                found, expected = (r.candidates([query])[0] for r in (retriever, synchronous))
                assert ids(found) == ids(expected)

    def test_from_many_threads_at_once(self) -> None:
        with open_named("asynchronous") as retriever, ThreadPoolExecutor(8) as pool:
            sessions = list(pool.map(retriever.search, QUERIES * 10))
            again = [retriever.search(query) for query in QUERIES] * 10
        assert [s.status for s in sessions] == ["success"] * 40
        assert [[c.chunk.chunk_id for c in s.chunks] for s in sessions] == [
            [c.chunk.chunk_id for c in s.chunks] for s in again
        ]

    def test_one_that_can_do_neither_is_named(self) -> None:
        def refuse(query: str) -> None:
            raise NotImplementedError("some day")

        with around(refuse) as retriever, pytest.raises(ForeignRetrieverError, match="NotImplementedError, some day"):
            retriever.candidates(["q"])


class TestFaults:
    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("strings", "returned str 'a string' at place 1; expected a LangChain Document"),
            ("one_string", "returned str 'a string'; expected a list of LangChain Documents"),
            ("none", "returned None; expected a list of LangChain Documents"),
            ("textless", "returned a document without text at place 6 (metadata dict {'page': 3})"),
            ("raises_in_the_middle", "failed: ConnectionError, the index went away"),
            ("leaves_in_the_middle", "failed: SystemExit, 0"),
        ],
    )
    def test_are_raised_typed_or_told_in_the_session(
        self, name: str, said: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        query = "a named channel"
        with open_named(name) as retriever:
            with pytest.raises(ForeignRetrieverError) as caught:
                retriever.candidates([query])
            with caplog.at_level(logging.ERROR, "retrievers"):
                session = retriever.search(query)
        assert str(caught.value).startswith(f"python '{HERE}:{name}' (Calling) {said}")
        assert (session.status, session.error, session.chunks) == ("error", str(caught.value), ())
        assert [record.message for record in caplog.records] == [f"search failed: {session.error}"]

    @pytest.mark.parametrize("query", ["", " \n", "word " * 600, "half \ud800"])
    def test_an_unusable_query_is_not_asked(self, query: str) -> None:
        def never(query: str) -> None:
            raise AssertionError("asked")

        with around(never) as retriever:
            with pytest.raises(QueryError):
                retriever.candidates([query])
            session = retriever.search(query)
        assert session.status == ("success" if not query.strip() else "error")
        assert session.warnings or session.error

    def test_our_own_errors_pass_through(self) -> None:
        def fail(query: str) -> None:
            raise RetrievalError("typed already")

        with around(fail) as retriever, pytest.raises(RetrievalError) as caught:
            retriever.candidates(["q"])
        assert str(caught.value) == "typed already"

    def test_chunks_that_cannot_be_listed_are_not(self) -> None:
        with open_named("plain") as retriever:
            for ask in (retriever.chunks, lambda: retriever.sample(3)):
                with pytest.raises(StoreUnsupportedError, match="cannot be listed; name the store and collection"):
                    ask()


class TestSession:
    def test_only_the_total_is_timed(self) -> None:
        with open_named("dense") as retriever:
            timings = retriever.search("kinematics").timings
        assert (timings.embed_ms, timings.search_ms, timings.rerank_ms) == (None, None, None)
        assert timings.total_ms > 0

    def test_says_what_it_ran_with(self) -> None:
        with open_named("dense", top_k=2, threshold=0.4) as retriever:
            assert retriever.search("kinematics").parameters == {
                "python": f"{HERE}:dense",
                "collection": "robots",
                "top_k": 2,
                "threshold": 0.4,
                "candidates": 100,
            }
            assert retriever.embedding_label == "Counting"
        with open_named("plain") as retriever:
            parameters = retriever.search("kinematics").parameters
            assert (parameters["collection"], parameters["threshold"], retriever.embedding_label) == (None, None, None)

    def test_shows_what_the_threshold_removed(self) -> None:
        with open_named("dense", threshold=0.999) as retriever:
            session = retriever.search("kinematics")
        assert (session.chunks, session.filtered_out, len(session.below_threshold)) == ((), 5, 3)
        assert "all 5 candidates are below the threshold 0.999" in session.warnings[0]


def test_metadata_is_read_by_the_settings() -> None:
    mapped = {"map": {"source_url": "source"}, "nested_under": "info"}
    with open_named("under_other_keys", metadata=mapped) as retriever:
        [found] = retriever.candidates(["kinematics of an arm"])
    assert {c.chunk.source_url for c in found} == {"/docs/arms/kinematics", "/docs/ros/topics"}
    assert found[0].chunk == chunk_of(foreign.under_other_keys().invoke("kinematics of an arm")[0],
                                             retriever.settings.metadata)  # fmt: skip


def test_what_it_made_is_closed_with_it() -> None:
    closed: list[str] = []

    class Closing(Calling):
        def close(self) -> None:
            closed.append("retriever")

    retriever = ForeignRetriever(settings("plain"), RetrieverSource(Closing(call=lambda query: DOCS)), None)
    with retriever:
        retriever.search("q")
    assert closed == ["retriever"]
    store = open_named("dense")
    store.close()
    with pytest.raises(RetrievalError):
        store.candidates(["q"])


def test_any_order_of_any_documents_is_kept() -> None:
    rng = random.Random(0)
    for _ in range(50):
        returned = rng.choices(DOCS, k=rng.randrange(0, 12))
        with around(lambda query, returned=returned: returned) as retriever:  # type: ignore[misc]
            assert ids(retriever.candidates(["q"])[0]) == [d.id for d in returned]

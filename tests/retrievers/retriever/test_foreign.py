"""The user's retriever as an evaluation sees it, against the same object called as LangChain calls it."""

import logging
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from retrievers.config import RetrieverConfig
from retrievers.errors import ConfigError, ForeignRetrieverError, QueryError, RetrievalError, StoreError
from retrievers.retriever.foreign import ForeignRetriever, chunk_of
from retrievers.retriever.opened import adopt_given, open_retriever, variants
from retrievers.retriever.protocol import Retriever
from retrievers.search.candidates import Candidates
from tests.support import foreign
from tests.support.foreign import HERE, Calling, settings
from tests.support.selecting import select_by

QUERIES = ("kinematics of an arm", "a named channel of messages", "reliable camera images", "zebra")
DOCS = [Document(page_content=f"text {n}", id=f"d{n}") for n in range(12)]


def open_named(name: str, **values: Any) -> Retriever:
    return open_retriever(settings(name, **values), env={})


def around(call: Callable[[str], Any], **values: Any) -> ForeignRetriever:
    return ForeignRetriever(settings("plain", **values), Calling(call=call))


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


class TestScores:
    @pytest.mark.parametrize("asynchronous", [False, True])
    def test_a_function_under_a_threshold_gives_pairs(self, asynchronous: bool) -> None:
        """Negative similarities are clipped, as our cosines are; a text is a document."""
        pairs = [(DOCS[0], 0.9), ("text of its own", 0.5), (DOCS[2], -0.2)]

        async def find(query: str) -> Any:
            return pairs

        given = find if asynchronous else lambda query: pairs
        retriever, _ = adopt_given(given, RetrieverConfig(threshold=0.4), None, {})
        with retriever:
            [found] = retriever.candidates(["q"])
            session = retriever.search("q")
        assert found.scores.tolist() == pytest.approx([0.9, 0.5, 0.0])
        assert [hit.chunk.text for hit in session.chunks] == ["text 0", "text of its own"]
        assert [hit.chunk.text for hit in session.below_threshold] == ["text 2"]

    @pytest.mark.parametrize(
        ("answer", "said"),
        [
            (None, "returned NoneType; expected a list of (document, score)"),
            (DOCS[:1], "returned list; expected a list of (document, score)"),
            ([(3, 0.5)], "returned int 3 at place 1"),
            ([(DOCS[0], None)], "gave the score None; expected a finite number"),
            ([(DOCS[0], float("nan"))], "gave the score nan"),
            ([(DOCS[0], 7)], "gave the score 7; expected a similarity of at most 1"),
        ],
    )
    def test_one_that_returns_something_else(self, answer: Any, said: str) -> None:
        retriever, _ = adopt_given(lambda query: answer, RetrieverConfig(threshold=0.4), None, {})
        with retriever, pytest.raises(ForeignRetrieverError) as caught:
            retriever.candidates(["q"])
        assert said in str(caught.value)

    def test_a_store_that_searches_in_its_own_way_is_asked_as_a_retriever(self) -> None:
        made = foreign.own_way()
        with open_named("own_way", candidates=3, top_k=3) as retriever:
            [found] = retriever.candidates(["kinematics of an arm"])
        expected = made.as_retriever(search_kwargs={"k": 3}).invoke("kinematics of an arm")
        assert [c.chunk.text for c in found] == [document.page_content for document in expected]
        made.client.close()


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
                with pytest.raises(StoreError, match="cannot be listed; name the store and collection"):
                    ask()


class TestSession:
    def test_only_the_total_is_timed(self) -> None:
        with open_named("plain") as retriever:
            timings = retriever.search("kinematics").timings
        assert (timings.embed_ms, timings.search_ms, timings.rerank_ms) == (None, None, None)
        assert timings.total_ms > 0

    def test_says_what_it_ran_with(self) -> None:
        with open_named("plain", top_k=2) as retriever:
            parameters = retriever.search("kinematics").parameters
            assert (parameters["python"], parameters["top_k"]) == (f"{HERE}:plain", 2)
            assert (parameters["collection"], parameters["threshold"], retriever.embedding_label) == (None, None, None)

    def test_settings_that_it_settles_by_itself_are_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"mode, rerank cannot be set for python .*:plain', which settles them"):
            open_named("plain", mode="hybrid", rerank="mmr")


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

    retriever = ForeignRetriever(settings("plain"), Closing(call=lambda query: DOCS))
    with retriever:
        retriever.search("q")
    assert closed == ["retriever"]


def test_any_order_of_any_documents_is_kept() -> None:
    rng = random.Random(0)
    for _ in range(50):
        returned = rng.choices(DOCS, k=rng.randrange(0, 12))
        with around(lambda query, returned=returned: returned) as retriever:  # type: ignore[misc]
            assert ids(retriever.candidates(["q"])[0]) == [d.id for d in returned]


def test_variants_of_a_retriever_have_their_own_settings() -> None:
    with open_named("plain", candidates=5) as retriever:
        shallow, deep = variants(retriever, [settings("plain", candidates=n, top_k=1) for n in (1, 5)])
        lengths = [len(each.candidates(["kinematics of an arm"])[0]) for each in (shallow, deep)]
        assert lengths[0] == 1 < lengths[1]
        assert variants(retriever, []) == []

"""Whether results are the source's own text, say nothing twice, and are what the case expects."""

from dataclasses import replace
from typing import Any, cast

import pytest

from evals.collect.observations import Observation, Score, Unscored
from evals.golden.source_pages import SourcePages
from evals.metrics.declaration import summarise
from retrievers.records import Chunk
from tests.support.observed import make_case, make_chunk, make_context, observe, results
from tests.support.pages import read_pages, true_chunks
from tests.support.scored import scored, scorer

NOTHING = make_context()
duplicate_rate, heading_in_source, overlap, section_match, source_match, topic_match, unique_sections, verbatim = (
    scorer(f"content/{name}")
    for name in (
        "duplicate_rate",
        "heading_in_source",
        "overlap",
        "section_match",
        "source_match",
        "topic_match",
        "unique_sections",
        "verbatim",
    )
)
FORTY = "0123456789 abcdefghij 0123456789 abcdefg"
"""Forty characters."""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> SourcePages:
    return read_pages(tmp_path_factory.mktemp("docs"))


@pytest.fixture(scope="module")
def chunks(sources: SourcePages) -> tuple[Chunk, ...]:
    return true_chunks(sources, "module-1/topics.md")


class TestVerbatim:
    def test_chunks_as_indexed_stand_in_their_page(self, chunks: tuple[Chunk, ...], sources: SourcePages) -> None:
        assert verbatim(observe(results(*chunks)), make_context(sources=sources)) == 1.0

    @pytest.mark.parametrize(
        ("change", "expected"),
        [
            ({"text": "A  publisher\nsends messages."}, 1.0),  # white space aside
            ({"text": "A publisher gets messages."}, 0.0),
            ({"text": ""}, 0.0),
            ({"file_path": "module-1/services.md"}, 0.0),  # the text of another page
            ({"file_path": None, "source_url": "/docs/gone"}, 0.0),
        ],
    )
    def test_any_other_text_does_not(
        self, chunks: tuple[Chunk, ...], sources: SourcePages, change: dict[str, Any], expected: float
    ) -> None:
        chunk = replace(next(c for c in chunks if "publisher sends" in c.text), **change)
        assert verbatim(observe(results(chunk)), make_context(sources=sources)) == expected

    def test_is_a_share_of_the_returned_chunks(self, chunks: tuple[Chunk, ...], sources: SourcePages) -> None:
        returned = results(chunks[0], chunks[1], chunks[2], replace(chunks[3], text="made up"))
        assert verbatim(observe(returned), make_context(sources=sources)) == 0.75


class TestHeadingInSource:
    @pytest.mark.parametrize(
        ("heading", "expected"),
        [("Publishers", 1.0), ("Topics", 1.0), ("Calls", 0.0), ("not a heading", 0.0)],
    )
    def test_is_one_of_the_pages_own(
        self, chunks: tuple[Chunk, ...], sources: SourcePages, heading: str | None, expected: float
    ) -> None:
        returned = results(replace(chunks[0], heading=heading))
        assert heading_in_source(observe(returned), make_context(sources=sources)) == expected


@pytest.mark.parametrize("metric", [verbatim, heading_in_source])
def test_without_sources_or_results_there_is_nothing_to_check(metric: Any, sources: SourcePages) -> None:
    assert metric(observe(results(make_chunk("a", heading="A"))), NOTHING) == Unscored(reason="no sources")
    assert metric(observe(), make_context(sources=sources)) == Unscored(reason="nothing was returned")


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("same", "same", True),
        ("one holds the other", "holds", True),
        ("head " + FORTY, FORTY + " tail", True),
        (FORTY + " tail", "head " + FORTY, True),
        ("head " + FORTY[1:], FORTY[1:] + " tail", False),  # 39 characters are chance
        ("head " + FORTY, "head " + FORTY[:-1] + "! tail", False),
        ("quite", "different", False),
    ],
)
def test_texts_overlap_when_one_holds_the_other_or_forty_characters_are_shared_at_the_ends(
    a: str, b: str, expected: bool
) -> None:
    for pair in ((a, b), (b, a)):
        found = results(*(make_chunk(str(place), text) for place, text in enumerate(pair)))
        assert overlap(observe(found)) == float(expected)


class TestOverlap:
    A, B, C = make_chunk("a", "head " + FORTY), make_chunk("b", FORTY + " tail"), make_chunk("c", "something else")

    def test_is_the_share_of_pairs(self) -> None:
        """Of the pairs ab, ac, bc only ab."""
        assert overlap(observe(results(self.A, self.C, self.B)), NOTHING) == pytest.approx(1 / 3)

    def test_is_0_without_and_1_with_nothing_but_overlap(self) -> None:
        assert overlap(observe(results(self.A, self.C)), NOTHING) == 0.0
        assert overlap(observe(results(self.A, self.A, self.B)), NOTHING) == 1.0

    def test_chunks_of_other_pages_do_not_overlap(self) -> None:
        assert overlap(observe(results(self.A, replace(self.B, source_url="/docs/other"))), NOTHING) == 0.0

    def test_line_breaks_do_not_hide_it(self) -> None:
        broken = replace(self.B, text=FORTY.replace(" ", "\n") + "\n\ntail")
        assert overlap(observe(results(self.A, broken)), NOTHING) == 1.0

    @pytest.mark.parametrize("returned", [(), ("a",)])
    def test_fewer_than_two_chunks_have_no_pair(self, returned: tuple[str, ...]) -> None:
        assert overlap(observe(results(*returned)), NOTHING) == Unscored(reason="fewer than two chunks were returned")

    def test_chunks_as_indexed_do_not_overlap_but_where_the_page_repeats_itself(
        self, chunks: tuple[Chunk, ...]
    ) -> None:
        """`Mind the queue.` stands under two headings: one pair of all."""
        pairs = len(chunks) * (len(chunks) - 1) / 2
        assert overlap(observe(results(*chunks)), NOTHING) == pytest.approx(1 / pairs)


class TestDuplicates:
    @pytest.mark.parametrize(
        ("returned", "expected"),
        [
            ([make_chunk("a"), make_chunk("b")], 0.0),
            ([make_chunk("a"), make_chunk("a")], 0.5),
            ([make_chunk("a", "x"), make_chunk("a", "y")], 0.5),  # the same id
            ([make_chunk("a", "one two"), make_chunk("b", "one\n two")], 0.5),  # the same text
            ([make_chunk("a", "x")] * 4, 0.75),
            ([make_chunk("a", "x"), make_chunk("b", "y"), make_chunk("a", "y")], 1 / 3),  # counted once
        ],
    )
    def test_count_what_repeats_an_earlier_chunk(self, returned: list[Chunk], expected: float) -> None:
        assert duplicate_rate(observe(results(*returned)), NOTHING) == pytest.approx(expected)

    def test_of_nothing_is_unscored(self) -> None:
        assert duplicate_rate(observe(), NOTHING) == Unscored(reason="nothing was returned")


class TestUniqueSections:
    @pytest.mark.parametrize(
        ("sections", "expected"),
        [
            ([("/a", "A > B")], 1.0),
            ([("/a", "A > B"), ("/a", "A > B")], 1 / 2),
            ([("/a", "A > B"), ("/b", "A > B")], 1.0),
            ([("/a", "A > B"), ("/a", "A > C"), ("/a", "A > B"), ("/a", "A")], 3 / 4),
        ],
    )
    def test_by_hand(self, sections: list[tuple[str, str]], expected: float) -> None:
        chunks = [make_chunk(f"c{n}", source_url=url, section_path=path) for n, (url, path) in enumerate(sections)]
        assert unique_sections(observe(results(*chunks)), NOTHING) == expected

    def test_an_empty_result_has_none(self) -> None:
        assert unique_sections(observe(), NOTHING) == Unscored(reason="nothing was returned")


def expecting(*returned: Chunk, **fields: Any) -> Observation:
    return observe(results(*returned), {"a": 1}, case=make_case(**fields))


class TestTopics:
    CHUNK = make_chunk("a", "A Publisher\nsends messages.", section_path="Topics > Queues", tags=("ros2", "QoS"))

    @pytest.mark.parametrize(
        ("topics", "expected"),
        [
            (["publisher"], 1.0),
            (["publisher sends"], 1.0),  # across a line break
            (["queues", "qos"], 1.0),  # headings and tags count
            (["publisher", "subscriber"], 0.5),
            (["subscriber"], 0.0),
        ],
    )
    def test_is_the_share_that_occurs_in_text_headings_or_tags(self, topics: list[str], expected: float) -> None:
        assert topic_match(expecting(self.CHUNK, expected_topics=topics), NOTHING) == expected

    def test_topics_may_be_spread_over_the_chunks(self) -> None:
        found = expecting(self.CHUNK, make_chunk("b", "a subscriber"), expected_topics=["publisher", "subscriber"])
        assert topic_match(found, NOTHING) == 1.0

    def test_an_empty_result_has_none_of_them(self) -> None:
        assert topic_match(expecting(expected_topics=["publisher"]), NOTHING) == 0.0

    def test_a_case_without_topics_is_unscored(self) -> None:
        assert topic_match(expecting(self.CHUNK), NOTHING) == Unscored(reason="the case names no topics")


class TestSections:
    EVIDENCE = (
        {"source_url": "/docs/page", "heading": "Publishers"},
        {"source_url": "/docs/page", "heading": "Publishers", "quote": "said twice"},
        {"source_url": "/docs/other", "heading": "Calls"},
    )

    @pytest.mark.parametrize(
        ("fields", "expected"),
        [
            ({"heading": "Publishers", "section_path": "Topics > Publishers"}, 0.5),
            ({"heading": "Queue", "section_path": "Topics > Publishers > Queue"}, 0.5),  # below the section
            ({"heading": "Publishers"}, 0.5),
            ({"heading": "Topics", "section_path": "Topics"}, 0.0),  # above the section
            ({"heading": "Publishers", "source_url": "/docs/other"}, 0.0),  # of another page
            ({"heading": "Calls", "source_url": "/docs/other"}, 0.5),
        ],
    )
    def test_is_the_share_of_sections_from_which_something_came(self, fields: dict[str, Any], expected: float) -> None:
        found = expecting(make_chunk("a", **fields), evidence=list(self.EVIDENCE))
        assert section_match(found, NOTHING) == expected

    def test_an_empty_result_comes_from_none(self) -> None:
        assert section_match(expecting(evidence=list(self.EVIDENCE)), NOTHING) == 0.0

    def test_a_case_without_headings_is_unscored(self) -> None:
        found = expecting(make_chunk("a", heading="A"), evidence=[{"source_url": "/docs/page", "quote": "some words"}])
        assert section_match(found, NOTHING) == Unscored(reason="the case names no sections")


class TestSourcePattern:
    @pytest.mark.parametrize(
        ("urls", "pattern", "expected"),
        [
            (["/docs/a/topics"], "topics$", 1.0),
            (["/docs/a/services", "/docs/a/topics"], "topics$", 1.0),  # one is enough
            (["/docs/a/topics-2"], "topics$", 0.0),
            (["/docs/a/topics"], "^/docs/(a|b)/", 1.0),
            (["/docs/A/topics"], "^/docs/a/", 0.0),
            ([None, "/docs/b"], "topics", 0.0),
            ([], "topics", 0.0),
        ],
    )
    def test_one_address_that_matches_is_enough(self, urls: list[str | None], pattern: str, expected: float) -> None:
        chunks = [make_chunk(f"c{n}", source_url=url) for n, url in enumerate(urls)]
        assert source_match(expecting(*chunks, source_url_pattern=pattern), NOTHING) == expected

    def test_a_case_without_a_pattern_is_unscored(self) -> None:
        found = source_match(expecting(make_chunk("a")), NOTHING)
        assert found == Unscored(reason="the case names no source pattern")


def test_unscored_cases_do_not_count_as_missed() -> None:
    """Two cases without topics beside one that has them, all found: 1 of n = 1."""
    found = [expecting(TestTopics.CHUNK), expecting(TestTopics.CHUNK, expected_topics=["qos"]), expecting()]
    scores: list[Score] = scored("content/topic_match", found, NOTHING)
    summary = summarise("content/topic_match", scores, "mean")
    assert (summary.value, summary.n, summary.n_unscored) == (1.0, 1, 2)


FIELDS = {
    "content/verbatim": ("source_url", "file_path"),
    "content/heading_in_source": ("heading",),
    "content/section_match": ("heading", "section_path"),
    "content/source_match": ("source_url",),
}


@pytest.mark.parametrize("name", FIELDS)
def test_metadata_that_no_chunk_of_the_run_carries_tells_nothing_of_the_content(
    name: str, chunks: tuple[Chunk, ...], sources: SourcePages
) -> None:
    bare = replace(chunks[0], **cast(Any, dict.fromkeys(FIELDS[name])))
    case = make_case(
        evidence=[{"source_url": chunks[0].source_url, "heading": chunks[0].heading}], source_url_pattern="."
    )
    without, empty = observe(results(bare), case=case), observe((), case=case)
    unreturned = observe((), case=case, candidates=results(chunks[0]))
    reason = Unscored(reason=f"no chunk found carries {' or '.join(FIELDS[name])}")
    assert scored(name, [without, empty], make_context(sources=sources)) == [reason, reason]
    first, _, _ = scored(name, [without, empty, unreturned], make_context(sources=sources))
    assert first == 0.0, "one chunk that carries it is enough for the others to count as wrong"
    assert scored(name, [empty], make_context(sources=sources)) != [reason]

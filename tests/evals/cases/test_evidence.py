import random
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.cases.case import Case, Evidence
from evals.cases.reading import load_golden
from evals.cases.relevance import (
    Relevance,
    evidence_urls,
    labelled_ids,
    missing_chunks,
    normalise,
    resolve,
    share_held,
)
from evals.config.experiment import DatasetConfig
from evals.errors import DatasetError
from retrievers.embedding.tokens import count_tokens
from retrievers.indexing.chunking import chunk_page
from retrievers.indexing.pages import read_corpus
from retrievers.records import Chunk

PAGE = "/docs/a"
QUOTE = "the base frame is fixed to the torso of the robot"  # 49 characters


def chunk(name: str, text: str, *, page: str = PAGE, section: str = "Frames") -> Chunk:
    return Chunk(
        chunk_id=name,
        point_id=name,
        text=text,
        source_url=page,
        section_path=section,
        heading=section.rpartition(" > ")[2],
    )


def case(name: str = "q", *evidence: dict[str, Any], **values: Any) -> Case:
    return Case.model_validate({"id": name, "query": "q", "evidence": list(evidence), **values})


def passage(quote: str | None = QUOTE, heading: str | None = None, grade: int = 1, page: str = PAGE) -> dict[str, Any]:
    return {"source_url": page, "quote": quote, "heading": heading, "grade": grade}


def relevant(chunks: Sequence[Chunk], *evidence: dict[str, Any], **values: Any) -> Relevance:
    return resolve([case("q", *evidence, **values)], chunks, {})["q"]


def test_the_chunk_that_holds_the_quote_is_relevant() -> None:
    chunks = [chunk("a", f"Now: {QUOTE}."), chunk("b", "Something else entirely.")]
    assert relevant(chunks, passage(grade=3)) == Relevance(grades={"a": 3}, items=(frozenset("a"),))


@pytest.mark.parametrize("text", ["the base  frame is\nfixed\tto the torso of the robot", f"\n{QUOTE}\n"])
def test_white_space_does_not_matter(text: str) -> None:
    assert set(relevant([chunk("a", text)], passage()).grades) == {"a"}
    assert set(relevant([chunk("a", QUOTE)], passage(text)).grades) == {"a"}


def test_every_chunk_that_holds_half_of_the_quote_is_relevant() -> None:
    quote = "0123456789abcdefghij"
    chunks = [chunk("a", "x 0123456789"), chunk("b", "abcdefghij x"), chunk("c", "012345678 bcdefghij")]
    assert relevant(chunks, passage(quote)).items == (frozenset("ab"),)


def test_where_no_chunk_holds_half_the_one_that_holds_most_is_relevant() -> None:
    quote = "a" * 40 + "b" * 45 + "c" * 40
    chunks = [chunk("1", "a" * 40), chunk("2", "b" * 45), chunk("3", "c" * 40)]
    assert set(relevant(chunks, passage(quote)).grades) == {"2"}


def test_of_chunks_that_hold_equally_much_the_lower_id_is_relevant() -> None:
    quote = "a" * 40 + "b" * 40 + "c" * 40
    chunks = [chunk("3", "c" * 40), chunk("2", "b" * 40)]
    assert set(relevant(chunks, passage(quote)).grades) == {"2"}


def test_the_heading_decides_between_chunks_that_both_hold_the_quote() -> None:
    chunks = [chunk("a", QUOTE, section="Frames"), chunk("b", QUOTE, section="Joints")]
    assert set(relevant(chunks, passage(heading="Joints")).grades) == {"b"}
    assert set(relevant(chunks, passage()).grades) == {"a", "b"}


def test_a_wrong_heading_does_not_hide_the_chunk_that_holds_the_quote() -> None:
    chunks = [chunk("a", QUOTE, section="Frames"), chunk("b", QUOTE[:20], section="Joints")]
    for heading in ("Joints", "No such heading"):
        assert set(relevant(chunks, passage(heading=heading)).grades) == {"a"}


@pytest.mark.parametrize(
    ("heading", "expected"), [("Frames", {"a", "b"}), ("Optical", {"b"}), ("tf2", {"a", "b", "c"}), ("Top", {"d"})]
)
def test_without_a_quote_all_under_the_heading_and_its_sub_headings_is_relevant(
    heading: str, expected: set[str]
) -> None:
    chunks = [
        chunk("a", "x", section="tf2 > Frames"),
        chunk("b", "x", section="tf2 > Frames > Optical"),
        chunk("c", "x", section="tf2"),
        chunk("d", "x", section="Top"),
    ]
    assert relevant(chunks, passage(None, heading)).items == (frozenset(expected),)


def test_a_chunk_named_by_several_items_has_the_highest_grade() -> None:
    chunks = [chunk("a", f"{QUOTE} and more")]
    found = relevant(chunks, passage(grade=1), passage(grade=3), passage("and more", grade=2))
    assert found == Relevance(grades={"a": 3}, items=(frozenset("a"),) * 3)


def test_a_page_without_addresses_or_headings_is_nobodys() -> None:
    bare = Chunk(chunk_id="a", point_id="a", text=QUOTE)
    with pytest.raises(DatasetError):
        relevant([bare], passage())


def test_relevant_ids_are_taken_as_they_are_and_judged_irrelevant_ones_are_kept_apart() -> None:
    chunks = [chunk("x", "text"), chunk("y", "text")]
    found = relevant(chunks, relevant_ids={"x": 2, "y": 1, "z": 0, "w": -1})
    items = (frozenset("x"), frozenset("y"))
    assert found == Relevance(grades={"x": 2, "y": 1}, items=items, irrelevant=frozenset("zw"))


def test_what_evidence_makes_relevant_is_not_irrelevant() -> None:
    assert relevant([chunk("a", QUOTE)], passage(), relevant_ids={"a": 0}).irrelevant == frozenset()


def labelled(names: str) -> list[Case]:
    """A case of one relevant chunk for every letter."""
    return [case(f"q{name}", relevant_ids={name: 1}) for name in names]


def test_a_chunk_that_is_not_there_is_relevant_and_missing() -> None:
    letters = "abcdefghijklmnopqrst"
    found = resolve(labelled(letters), [chunk(name, "text") for name in letters[1:]], {})
    assert found["qa"] == Relevance(grades={"a": 1}, items=(frozenset("a"),), missing=frozenset("a"))
    assert found["qb"].missing == frozenset()
    assert missing_chunks(found) == (
        "1 of 20 relevant chunks is not in the collection and counts as not retrieved: 'a' (case qa)"
    )


def test_judged_chunks_that_are_not_relevant_need_not_be_there() -> None:
    found = resolve([case(relevant_ids={"x": 1, "y": 0, "z": -2})], [chunk("x", "text")], {})
    assert (found["q"].missing, missing_chunks(found)) == (frozenset(), "")


def test_more_than_one_in_twenty_missing_is_one_fault_of_one_line() -> None:
    letters = "abcdefghijklmnopqrstuvwxyz"
    with pytest.raises(DatasetError) as caught:
        resolve(labelled(letters), [chunk(name, "text") for name in letters[2:]], {"qa": "g:1"})
    assert str(caught.value) == (
        "g:1: relevant_ids: the collection has no chunk 'a'; 2 of 26 relevant chunks are missing, and at most 5% may "
        "be; are ids written alike? metadata.map {chunk_id: KEY} names the payload key that holds them"
    )


def test_an_out_of_scope_case_has_nothing_relevant() -> None:
    assert resolve([case(in_scope=False)], [], {}) == {"q": Relevance()}


def test_everything_that_resolves_to_nothing_is_listed_at_once_with_its_place() -> None:
    cases = [
        case("a", passage(page="/docs/gone"), passage()),
        case("b", passage(None, "Nowhere")),
        case("c", passage("it is said nowhere on this page")),
        case("d", relevant_ids={"ghost": 1, "a": 1}),
    ]
    with pytest.raises(DatasetError) as caught:
        resolve(cases, [chunk("a", QUOTE)], {"a": "g:1", "b": "g:2", "c": "g:3"})
    assert list(caught.value.faults) == [
        "g:1: evidence.0: the collection has no page '/docs/gone'",
        "g:2: evidence.0: no chunk of '/docs/a' stands under the heading 'Nowhere'",
        "g:3: evidence.0: no chunk of '/docs/a' holds the quote 'it is said nowhere on this page'",
        "d: relevant_ids: the collection has no chunk 'ghost'; 1 of 2 relevant chunks are missing, and at most 5% may "
        "be; are ids written alike? metadata.map {chunk_id: KEY} names the payload key that holds them",
    ]


def test_which_pages_and_ids_must_be_read() -> None:
    cases = [
        case("a", passage(page="/b"), passage(page="/a")),
        case("b", passage(page="/a"), relevant_ids={"y": 1, "x": 3, "z": 0}),
    ]
    assert evidence_urls(cases) == ["/a", "/b"]
    assert labelled_ids(cases) == ["x", "y"]


def test_a_heading_within_a_merged_chunk_is_found() -> None:
    merged = replace(chunk("m", "one two"), chunk_headings=("Intro", "Setup"), heading="Intro", section_path="Intro")
    other = replace(chunk("o", "three"), heading="Other", section_path="Other")
    for heading in ("Intro", "Setup"):
        assert set(relevant([merged, other], passage(heading=heading, quote=None)).grades) == {"m"}


@pytest.mark.slow
def test_the_handbooks_evidence_by_heading_resolves_to_merged_chunks(handbook: Path) -> None:
    for page in read_corpus(handbook / "docs").pages:
        plain = chunk_page(page, 256, count_tokens)
        merged = chunk_page(page, 256, count_tokens, merge_small=True)
        for one in plain:
            evidence = {"source_url": one.source_url, "heading": one.heading}
            found = relevant(merged, evidence).grades
            assert any(c.chunk_id in found and normalise(one.text) in normalise(c.text) for c in merged), one.source


def longest_common_stretch(a: str, b: str) -> int:
    pieces = {a[i:j] for i in range(len(a)) for j in range(i + 1, len(a) + 1)}
    return max((len(piece) for piece in pieces if piece in b), default=0)


@given(st.text("ab c", min_size=1, max_size=12), st.text("ab c", max_size=20))
def test_the_share_held_is_that_of_the_longest_common_stretch(quote: str, text: str) -> None:
    assert share_held(quote, text) == longest_common_stretch(quote, text) / len(quote)


@given(st.text())
def test_normalising_twice_is_normalising_once(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text) == " ".join(text.split())


@pytest.fixture(scope="module")
def evidence(handbook: Path) -> list[Evidence]:
    golden = load_golden(DatasetConfig(path=handbook / "golden.jsonl"))
    return [item for one in golden.cases for item in one.evidence]


def pages(handbook: Path, max_tokens: int) -> dict[str, list[Chunk]]:
    corpus = read_corpus(handbook / "docs").pages
    return {page.source_url: list(chunk_page(page, max_tokens, count_tokens)) for page in corpus}


@pytest.mark.slow
@pytest.mark.parametrize("max_tokens", [256, 32])
def test_the_handbooks_evidence_resolves_however_it_is_cut(
    handbook: Path, evidence: list[Evidence], max_tokens: int
) -> None:
    cut = pages(handbook, max_tokens)
    for item in evidence:
        assert item.source_url is not None and item.quote is not None
        quote = normalise(item.quote)
        found = relevant(cut[item.source_url], item.model_dump()).grades
        under = [c for c in cut[item.source_url] if item.heading in (c.section_path or "").split(" > ")]
        whole = {c.chunk_id for c in under if quote in normalise(c.text)}
        assert whole <= set(found), item
        assert found, item


@pytest.mark.slow
def test_quotes_of_other_pages_resolve_to_nothing(handbook: Path, evidence: list[Evidence]) -> None:
    cut = pages(handbook, 256)
    chooser = random.Random(0)
    for item in chooser.sample(evidence, 60):
        other = chooser.choice(sorted(set(cut) - {item.source_url}))
        with pytest.raises(DatasetError):
            relevant(cut[other], {**item.model_dump(), "source_url": other})


def test_the_id_of_a_document_stands_for_all_of_its_chunks() -> None:
    chunks = [replace(chunk(name, "text"), source_document_id=name[0]) for name in ("a1", "a2", "b1")]
    cases = [case("q", relevant_ids={"a": 2, "b1": 1})]
    assert resolve(cases, chunks, {})["q"] == Relevance(
        grades={"a1": 2, "a2": 2, "b1": 1}, items=(frozenset({"a1", "a2"}), frozenset({"b1"}))
    )


def test_a_page_alone_makes_all_its_chunks_relevant_and_is_one_piece_of_evidence() -> None:
    chunks = [replace(chunk(name, "text"), source_url=f"/docs/{name[0]}") for name in ("a1", "a2", "b1")]
    found = relevant(chunks, {"source_url": "/docs/a", "grade": 2})
    assert found == Relevance(grades={"a1": 2, "a2": 2}, items=(frozenset({"a1", "a2"}),))


@given(st.text("ab ", min_size=1, max_size=24), st.text("ab ", max_size=60), st.floats(0, 30))
def test_the_share_of_a_quote_is_that_of_a_search_without_shortcuts_or_too_small_to_count(
    quote: str, text: str, least: float
) -> None:
    stretches = (quote[i:j] for i in range(len(quote)) for j in range(i + 1, len(quote) + 1))
    longest = max((len(stretch) for stretch in stretches if stretch in text), default=0)
    share = share_held(quote, text, least)
    assert share == longest / len(quote) or (share == 0 and longest < least)


def test_quotes_without_a_page_are_found_among_many_chunks_in_a_moment() -> None:
    rng = random.Random(1)
    vocabulary = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(2_000)]
    chunks = [chunk(str(number), " ".join(rng.choices(vocabulary, k=200))) for number in range(2_000)]
    quotes = [" ".join(chunks[number].text.split()[20:60]) for number in (7, 1_007)]
    cases = [case(f"q{number}", {"quote": quote}) for number, quote in enumerate(quotes)]
    start = time.perf_counter()
    found = resolve(cases, chunks, {})
    assert [set(found[one.id].grades) for one in cases] == [{"7"}, {"1007"}]
    assert time.perf_counter() - start < 5, "comparing each chunk whole takes 15 s"

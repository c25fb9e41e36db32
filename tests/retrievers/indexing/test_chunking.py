"""Sections to chunks: nothing lost, nothing said twice, ids that stay, budgets that hold."""

import hashlib
import random
import re
import time
import uuid
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from retrievers.embedding.tokens import count_tokens
from retrievers.indexing.chunking import DEFAULT_MAX_TOKENS, chunk_page, join_blocks, placement, point_id
from retrievers.indexing.markdown import Block, PageError, parse_page
from retrievers.records import Chunk
from tests.support.markdown_pages import GeneratedPage, Shape, pages, shapes, write_page

budgets = st.sampled_from([16, 17, 24, 40, 64, DEFAULT_MAX_TOKENS])
MARKDOWN_SIGNS = "ab.1 \n\n\t#-=`~>*_[]()!:|<>{}/\\'\"&;é\r\u2028\x0c\u00a0🤖"
NO_HEADING_NO_MDX = "ab.1 \n\n\t`~>*_[]()!:|\\'\"&;é\x0c\u00a0🤖"


def chunks_of(source: str, max_tokens: int = DEFAULT_MAX_TOKENS, file_path: str = "guide/page.md") -> tuple[Chunk, ...]:
    return chunk_page(parse_page(source, file_path), max_tokens, count_tokens)


def words_as_tokens(text: str) -> int:
    """A token count that can be checked by eye: one for every word."""
    return len(text.split())


def cut(source: str, max_words: int) -> list[str]:
    return [chunk.text for chunk in chunk_page(parse_page(source, "guide/page.md"), max_words, words_as_tokens)]


def normalise(text: str) -> str:
    return " ".join(text.split())


def solid(text: str) -> str:
    """A text without its white space."""
    return "".join(text.split())


class TestOverlap:
    @staticmethod
    def cut(source: str, max_words: int, overlap: int) -> list[str]:
        page = parse_page(source, "guide/page.md")
        return [chunk.text for chunk in chunk_page(page, max_words, words_as_tokens, overlap=overlap)]

    def test_a_chunk_begins_with_the_last_sentences_that_fit(self) -> None:
        text = "One two. Three. Four five. Six seven eight."
        assert self.cut(text, 5, 0) == ["One two. Three. Four five.", "Six seven eight."]
        assert self.cut(text, 5, 2) == ["One two. Three. Four five.", "Four five. Six seven eight."]
        assert self.cut(text, 6, 3) == ["One two. Three. Four five.", "Three. Four five. Six seven eight."]

    def test_it_gives_way_to_new_text(self) -> None:
        assert self.cut("One. Two. Three four five.", 3, 2) == ["One. Two.", "Three four five."]
        assert self.cut("One. Two. Three four.", 3, 2) == ["One. Two.", "Two. Three four."]

    def test_of_a_sentence_that_does_not_fit_the_last_words_are_repeated(self) -> None:
        assert self.cut("a b c d. E f.", 4, 2) == ["a b c d.", "c d. E f."]

    def test_it_stays_within_a_section(self) -> None:
        assert self.cut("# A\n\na\n\n## B\n\nb\n", 4, 3) == ["# A\n\na", "## B\n\nb"]

    @given(page=pages(), budget=st.sampled_from([16, 24, 40]), overlap=st.sampled_from([1, 4, 15]))
    def test_chunks_are_verbatim_within_the_budget_and_lose_nothing(
        self, page: GeneratedPage, budget: int, overlap: int
    ) -> None:
        source = page.source
        parsed = parse_page(source, "guide/page.md")
        plain = chunk_page(parsed, budget, count_tokens)
        repeating = chunk_page(parsed, budget, count_tokens, overlap=overlap)
        whole = solid(source)
        assert all(solid(chunk.text) in whole for chunk in repeating)
        assert all(count_tokens(chunk.text) <= budget or len(chunk.text) == 1 for chunk in repeating)
        assert len(repeating) >= len(plain)
        for chunk in repeating:
            lines = "\n".join(parsed.text.split("\n")[(chunk.start_line or 1) - 1 : chunk.end_line])
            assert solid(chunk.text) in solid(lines)
        held = [
            {line for chunk in chunks for line in range(chunk.start_line or 0, (chunk.end_line or 0) + 1)}
            for chunks in (plain, repeating)
        ]
        assert all(not parsed.text.split("\n")[line - 1].strip() for line in held[0] - held[1])


class TestCutting:
    def test_blocks_are_packed_up_to_the_budget(self) -> None:
        assert cut("a b\n\nc d\n\ne f\n\ng\n", 4) == ["a b\n\nc d", "e f\n\ng"]

    def test_a_budget_that_fits_exactly_is_used(self) -> None:
        assert cut("a b c d\n", 4) == ["a b c d"]
        assert cut("a b c d e\n", 4) == ["a b", "c d e"]

    def test_sections_are_never_mixed(self) -> None:
        assert cut("# A\n\na\n\n## B\n\nb\n", 100) == ["# A\n\na", "## B\n\nb"]

    def test_a_block_over_the_budget_is_cut_between_lines(self) -> None:
        assert cut("```\na b\nc d\ne f\n```\n", 5) == ["```\na b\nc d", "e f\n```"]

    def test_a_line_over_the_budget_is_cut_between_sentences(self) -> None:
        assert cut("One two. Three four! Five six? Seven.\n", 4) == ["One two. Three four!", "Five six? Seven."]

    def test_a_sentence_over_the_budget_is_cut_between_words(self) -> None:
        assert cut("a b c d e f g h\n", 3) == ["a b", "c d", "e f", "g h"]

    def test_a_word_over_the_budget_is_cut_inside(self) -> None:
        chunks = chunk_page(parse_page("abcdefgh\n", "page.md"), 4, len)
        assert [chunk.text for chunk in chunks] == ["abcd", "efgh"]

    def test_a_character_is_not_cut(self) -> None:
        chunks = chunk_page(parse_page("🤖🤖\n", "page.md"), 2, lambda text: 5 * len(text))
        assert [chunk.text for chunk in chunks] == ["🤖", "🤖"]

    def test_pieces_of_a_word_are_joined_without_a_space(self) -> None:
        chunks = chunk_page(parse_page("ab cdefghij kl\n", "page.md"), 9, len)
        assert "".join(chunk.text for chunk in chunks).replace(" ", "") == "abcdefghijkl"
        assert all(chunk.text in "ab cdefghij kl" for chunk in chunks)

    @pytest.mark.parametrize(
        "line",
        [
            "Ends in a stop and spaces.   ",
            "Tabs\tbetween\twords\there.\t",
            "    indented code that is long",
            "wide      gaps      between      words",
            "A stop.  Two spaces.  Then more.  ",
            "non\u00a0breaking\u00a0spaces\u00a0too here",
        ],
    )
    @pytest.mark.parametrize("budget", [1, 2, 3])
    def test_no_piece_is_blank(self, line: str, budget: int) -> None:
        pieces = cut(f"start\n\n{line}\n\nend\n", budget)
        assert all(piece.strip() for piece in pieces)
        assert " ".join(pieces).split() == f"start {line} end".split()

    def test_joining_keeps_breaks_and_at_most_one_blank_line(self) -> None:
        def block(text: str, start: int, end: int, inside: bool = False) -> Block:
            return Block(text=text, start_line=start, end_line=end, continues_word=inside)

        assert join_blocks([block("a", 1, 1), block("b", 1, 1)]) == "a b"
        assert join_blocks([block("a", 1, 1), block("b", 1, 1, True)]) == "ab"
        assert join_blocks([block("a", 1, 1), block("b", 2, 2)]) == "a\nb"
        assert join_blocks([block("a", 1, 1), block("b", 3, 3)]) == "a\n\nb"
        assert join_blocks([block("a", 1, 2), block("b", 7, 7)]) == "a\n\nb"


class TestMetadata:
    SOURCE = (
        "---\ntitle: Topics\ntags: [ros2, dds]\nsidebar_position: 2\n---\n\nIntro.\n\n# Top\n\n## Sub *one*\n\nBody.\n"
    )

    def test_every_field_is_set(self) -> None:
        intro, body = chunks_of(self.SOURCE, file_path="01-ros/basics/02-topics.md")
        assert intro == Chunk(
            chunk_id=intro.chunk_id,
            point_id=intro.point_id,
            text="Intro.",
            source_url="/docs/ros/basics/topics",
            title="Topics",
            section_path="Topics",
            heading="Topics",
            chunk_index=0,
            total_chunks=2,
            source_document_id="01-ros/basics/02-topics",
            content_hash=hashlib.sha256(b"Intro.").hexdigest(),
            module="01-ros",
            chapter="basics",
            tags=("ros2", "dds"),
            sidebar_position=2,
            chunk_token_count=count_tokens("Intro."),
            file_path="01-ros/basics/02-topics.md",
            start_line=7,
            end_line=7,
        )
        assert (body.section_path, body.heading) == ("Top > Sub one", "Sub one")
        assert (body.text, body.start_line, body.end_line) == ("## Sub *one*\n\nBody.", 11, 13)
        assert (body.chunk_index, body.total_chunks) == (1, 2)

    def test_ids_are_by_the_stated_rule(self) -> None:
        (chunk,) = chunks_of("# A\n\nx\n")
        identity = "\x1f".join(("/docs/guide/page", "A", "# A\n\nx", "0"))
        assert chunk.chunk_id == hashlib.sha256(identity.encode()).hexdigest()[:32]
        assert chunk.point_id == point_id(chunk.chunk_id) == str(uuid.uuid5(uuid.NAMESPACE_URL, chunk.chunk_id))

    @pytest.mark.parametrize(
        ("file_path", "expected"),
        [
            ("a.md", ("a", "a", "a")),
            ("mod/a.mdx", ("mod/a", "mod", "a")),
            ("mod/ch/a.md", ("mod/ch/a", "mod", "ch")),
            ("mod/ch/deep/v1.2.md", ("mod/ch/deep/v1.2", "mod", "ch")),
        ],
    )
    def test_placement_is_document_module_and_chapter(self, file_path: str, expected: tuple[str, str, str]) -> None:
        assert placement(file_path) == expected


def ids(source: str, max_tokens: int = DEFAULT_MAX_TOKENS, file_path: str = "guide/page.md") -> dict[str, str]:
    """Chunk ids by text, of chunks whose texts differ."""
    found = chunks_of(source, max_tokens, file_path)
    by_text = {chunk.text: chunk.chunk_id for chunk in found}
    assert len(by_text) == len(found)
    return by_text


class TestIdentity:
    def test_the_same_text_twice_in_a_section_has_two_ids(self) -> None:
        found = chunks_of("# A\n\nsame words\n\n# A\n\nsame words\n\n# A\n\nsame words\n")
        assert len({chunk.chunk_id for chunk in found}) == 3
        assert len({chunk.content_hash for chunk in found}) == 1

    def test_removing_the_last_repetition_keeps_the_ids_of_the_others(self) -> None:
        section = "# A\n\nsame words\n\n"
        assert [c.chunk_id for c in chunks_of(section * 3)[:2]] == [c.chunk_id for c in chunks_of(section * 2)]

    def test_the_same_text_under_another_heading_or_page_has_another_id(self) -> None:
        same = "<Tabs>\n\nsame words\n"
        under_a, under_b = (chunks_of(f"# {name}\n\nintro\n\n{same}")[-1] for name in "AB")
        elsewhere = chunks_of(f"# A\n\nintro\n\n{same}", file_path="guide/other.md")[-1]
        assert under_a.text == under_b.text == elsewhere.text == "same words"
        assert len({under_a.chunk_id, under_b.chunk_id, elsewhere.chunk_id}) == 3

    def test_front_matter_and_place_do_not_enter_the_id(self) -> None:
        plain = "# A\n\na\n\n# B\n\nb\n"
        swapped = "---\ntitle: T\ntags: [x]\nsidebar_position: 9\n---\n\n\n# B\n\nb\n\n\n\n# A\n\na\n"
        assert ids(plain) == ids(swapped)

    def test_line_ends_do_not_enter_the_id(self) -> None:
        source = "# A\n\none\ntwo\n"
        assert ids(source) == ids(source.replace("\n", "\r\n"))

    @given(first=shapes(max_size=12), second=shapes(max_size=12), other=shapes(max_size=12), budget=budgets)
    def test_changing_another_section_changes_no_id(
        self, first: list[Shape], second: list[Shape], other: list[Shape], budget: int
    ) -> None:
        unchanged = write_page(second, first_number=10_000).source

        def page(beginning: list[Shape]) -> str:
            return f"# First\n\n{write_page(beginning).source}\n\n# Second\n\n{unchanged}\n"

        def ids_under_second(source: str) -> list[str]:
            found = chunks_of(source, budget)
            line = source.split("\n").index("# Second") + 1
            return [chunk.chunk_id for chunk in found if chunk.start_line is not None and chunk.start_line >= line]

        before, after = ids_under_second(page(first)), ids_under_second(page(other))
        assert before
        assert before == after


def tight_lines(chunk: Chunk, source: str) -> bool:
    """Return True if the chunk stands in the lines it claims, and in no fewer."""
    assert chunk.start_line is not None and chunk.end_line is not None
    lines, text = source.split("\n"), solid(chunk.text)
    inside = solid("\n".join(lines[chunk.start_line - 1 : chunk.end_line]))
    without_first = solid("\n".join(lines[chunk.start_line : chunk.end_line]))
    without_last = solid("\n".join(lines[chunk.start_line - 1 : chunk.end_line - 1]))
    return text in inside and text not in without_first and text not in without_last


class TestProperties:
    @given(page=pages(), budget=budgets)
    def test_no_text_is_lost_doubled_or_reordered(self, page: GeneratedPage, budget: int) -> None:
        found = chunks_of(page.source, budget)
        assert solid("".join(chunk.text for chunk in found)) == solid("".join(part.source for part in page.kept))

    @given(page=pages(), budget=budgets)
    def test_words_are_those_of_the_text_outside_headings_and_mdx(self, page: GeneratedPage, budget: int) -> None:
        texts = [part.source for part in page.parts if part.kind == "text"]
        assume(all(count_tokens(word) <= budget for text in texts for word in text.split()))
        heads = {word for part in page.parts if part.kind == "heading" for word in part.source.split()}
        expected = sorted(word for text in texts for word in text.split())
        found = sorted(word for chunk in chunks_of(page.source, budget) for word in chunk.text.split())
        assert [word for word in found if word not in heads] == [word for word in expected if word not in heads]

    @given(page=pages(), budget=budgets)
    def test_every_chunk_is_verbatim_in_the_page(self, page: GeneratedPage, budget: int) -> None:
        for chunk in chunks_of(page.source, budget):
            assert normalise(chunk.text) in normalise(page.source)

    @given(page=pages(), budget=budgets)
    def test_lines_hold_the_chunk_and_not_one_too_many(self, page: GeneratedPage, budget: int) -> None:
        for chunk in chunks_of(page.source, budget):
            assert tight_lines(chunk, page.source) or not re.search(r"\d", chunk.text)

    @given(page=pages(), budget=budgets)
    def test_lines_are_in_order_and_shared_only_where_a_line_was_cut(self, page: GeneratedPage, budget: int) -> None:
        found = chunks_of(page.source, budget)
        for chunk in found:
            assert 1 <= (chunk.start_line or 0) <= (chunk.end_line or 0)
        for before, after in pairwise(found):
            assert (before.end_line or 0) <= (after.start_line or 0)
            if before.end_line == after.start_line:
                line = page.source.split("\n")[(after.start_line or 0) - 1]
                assert count_tokens(line) > budget

    @given(page=pages(), budget=budgets)
    def test_headings_are_those_above_the_chunk(self, page: GeneratedPage, budget: int) -> None:
        for chunk in chunks_of(page.source, budget):
            part = next(p for p in page.parts if p.start_line <= (chunk.start_line or 0) <= p.end_line)
            title = parse_page(page.source, "guide/page.md").title
            assert chunk.section_path == (" > ".join(part.path) or title)
            assert chunk.heading == (part.path[-1] if part.path else title)

    @given(page=pages(), budget=budgets)
    def test_only_a_single_character_may_exceed_the_budget(self, page: GeneratedPage, budget: int) -> None:
        for chunk in chunks_of(page.source, budget):
            assert chunk.chunk_token_count == count_tokens(chunk.text)
            assert chunk.chunk_token_count <= budget or len(chunk.text) == 1

    @given(page=pages(), budget=budgets)
    def test_chunks_are_numbered_and_their_ids_unique(self, page: GeneratedPage, budget: int) -> None:
        found = chunks_of(page.source, budget)
        assert [chunk.chunk_index for chunk in found] == list(range(len(found)))
        assert {chunk.total_chunks for chunk in found} == {len(found)}
        assert len({chunk.chunk_id for chunk in found}) == len({chunk.point_id for chunk in found}) == len(found)

    @given(page=pages(), budget=budgets, lines=st.integers(1, 5))
    def test_moving_a_page_down_changes_lines_and_nothing_else(
        self, page: GeneratedPage, budget: int, lines: int
    ) -> None:
        assume(not page.source.startswith("---"))
        moved = chunks_of("\n" * lines + page.source, budget)
        expected = [
            replace(c, start_line=(c.start_line or 0) + lines, end_line=(c.end_line or 0) + lines)
            for c in chunks_of(page.source, budget)
        ]
        assert list(moved) == expected

    @given(page=pages(), budget=budgets)
    def test_windows_line_ends_change_nothing(self, page: GeneratedPage, budget: int) -> None:
        assert chunks_of(page.source.replace("\n", "\r\n"), budget) == chunks_of(page.source, budget)


class TestAnyText:
    """Texts of signs that mean something in Markdown, in no sensible order."""

    @given(source=st.text(MARKDOWN_SIGNS, max_size=80), budget=st.sampled_from([16, 32]))
    def test_is_chunked_verbatim_and_in_order_or_refused(self, source: str, budget: int) -> None:
        try:
            found = chunks_of(source, budget)
        except PageError:
            return
        position = 0
        for chunk in found:
            assert chunk.text.strip()
            position = normalise(source).index(normalise(chunk.text), position) + len(normalise(chunk.text))
            assert count_tokens(chunk.text) <= budget or len(chunk.text) == 1
        assert len({chunk.chunk_id for chunk in found}) == len(found)

    @given(source=st.text(NO_HEADING_NO_MDX, max_size=80), budget=st.sampled_from([16, 32]))
    def test_without_headings_tags_and_braces_loses_nothing(self, source: str, budget: int) -> None:
        assume(source.strip())
        assert solid("".join(chunk.text for chunk in chunks_of(source, budget))) == solid(source)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("piece", "pages_of"),
    [
        ("word and more. ", 300_000), ("word and more ", 300_000), ("a", 300_000), ("[", 300_000),
        ("*a **b ", 300_000), ("{/* a\n\n", 60_000),
        ("a\n\n", 60_000), ("a b\n", 100_000), ("- a\n", 60_000), ("export const a = (\n\n", 60_000),
        ("# a\n\nb\n\n", 60_000), ("|a|b|\n|-|-|\n", 60_000), ("[a]: /x\n", 60_000), ("# [a](", 60_000),
    ],
)  # fmt: skip
def test_any_page_takes_time_in_proportion_to_its_length(piece: str, pages_of: int) -> None:
    """Twice the page takes about twice as long; what is quadratic here takes minutes."""
    page = "begin\n\n" + piece * (pages_of // len(piece))
    start = time.process_time()
    chunks_of(page)
    assert time.process_time() - start < 8


def test_pieces_are_grouped_as_adding_them_one_by_one_would() -> None:
    words = random.Random(0)
    source = "\n\n".join(" ".join("w" * words.randint(1, 9)) for _ in range(300))
    groups: list[list[str]] = []
    for paragraph in source.split("\n\n"):
        if groups and len(" ".join([*groups[-1], paragraph]).split()) <= 16:
            groups[-1].append(paragraph)
        else:
            groups.append([paragraph])
    assert cut(source, 16) == ["\n\n".join(group) for group in groups]

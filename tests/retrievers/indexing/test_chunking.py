"""Docusaurus pages to sections, and sections to chunks: verbatim, nothing lost or said twice, within budgets."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from retrievers.embedding.tokens import count_tokens
from retrievers.indexing.chunking import chunk_page, join_blocks, point_id
from retrievers.indexing.markdown import Page, PageError, parse_page
from retrievers.indexing.pages import html_file
from retrievers.records import Chunk
from tests.support.command import refusal

PAGES = Path(__file__).parent / "pages"


def parse(source: str, file_path: str = "guide/page.md") -> Page:
    return parse_page(source, file_path)


def texts(page: Page) -> list[str]:
    """The text of every run of the page, in order; its blocks are, character for character, the lines they claim."""
    lines = page.text.split("\n")
    for block in (block for section in page.sections for run in section.runs for block in run):
        assert "\n".join(lines[block.start_line - 1 : block.end_line]) == block.text
    return [join_blocks(run) for section in page.sections for run in section.runs]


def headings(page: Page) -> list[tuple[str, ...]]:
    return [section.path for section in page.sections]


def test_an_address_is_the_one_of_docusaurus() -> None:
    for file_path, matter, address in (
        ("doc.mdx", "", "/doc"),
        ("001-dir1/002-dir2/doc.md", "", "/dir1/dir2/doc"),
        ("dir with spâce/hey $hello/my dôc.md", "", "/dir with spâce/hey $hello/my dôc"),
        ("README.md", "", ""),
        ("dir/subdir/inDEx.mdx", "", "/dir/subdir"),
        ("dir/subdir/suBDir.mdx", "", "/dir/subdir"),
        ("guides/01-index.md", "", "/guides/index"),
        ("2021-01-31 - Doc.md", "", "/2021-01-31 - Doc"),
        ("14.2.16.md", "", "/14.2.16"),
        ("any/any/doc.md", "slug: /abc/def", "/abc/def"),
        ("dir/subdir/doc.md", "slug: ../../../../../abc/../def", "/def"),
        ("01-intro/index.md", "slug: start", "/intro/start"),
        ("guide/page.md", "id: other", "/guide/other"),
        ("guide/index.md", "id: other", "/guide"),
        ("guide/page.md", "id: other\nslug: mine", "/guide/mine"),
    ):
        for base_url, expected in (("/docs/", f"/docs{address}"), ("", address or "/")):
            assert parse_page(f"---\n{matter}\n---\ntext\n", file_path, base_url).source_url == expected


def test_front_matter_is_taken_as_written() -> None:
    for matter, title, tags, position in (
        ("title: Topics\nsidebar_position: 3\ntags: [ros2, 'b c', 42]\nunknown: {a: 1}", "Topics", "ros2|b c|42", 3),
        ("title: 'Quoted: yes'\nsidebar_position: 2.5", "Quoted: yes", "", 2.5),
        ("title: 3.10\ntags:\n  - a\n  - label: Long name\n    permalink: /long", "3.10", "a|Long name", None),
        ("title: 2024-01-02\nsidebar_position: 1e2\ntags: [on, no]", "2024-01-02", "on|no", 100.0),
        ("title: ~\ntags: null\nsidebar_position: ''\nlast_update: {date: 2024-13-45}", "The top", "", None),
        ("# only a comment", "The top", "", None),
        ("title: |\n  two\n  lines\nsidebar_position: -1", "two\nlines\n", "", -1),
    ):
        for end in ("\n", "\r\n", "\r"):
            page = parse(f"---\n{matter}\n--- \n\n## Under\n\na\n\n# The `top`\n\nb\n".replace("\n", end))
            assert (page.title, "|".join(page.tags), page.sidebar_position) == (title, tags, position)
            assert type(page.sidebar_position) is type(position)
            assert texts(page) == ["## Under\n\na", "# The `top`\n\nb"]


def test_document_module_and_chapter_are_of_the_path_as_is_a_title_that_is_not_given() -> None:
    assert parse("> # Quoted\n\n- # Listed\n", "guide/02-force-torque.md").title == "force torque"
    for file_path, document, module, chapter in (
        ("a.md", "a", "a", "a"),
        ("mod/ch/deep/v1.2.md", "mod/ch/deep/v1.2", "mod", "ch"),
        ("mod/a.pdf", "mod/a.pdf", "mod", "a"),
    ):
        facts = parse("x", file_path).facts
        assert (facts["source_document_id"], facts["module"], facts["chapter"]) == (document, module, chapter)


FAULTS = {
    "empty": "",
    "front matter alone": "---\ntitle: T\n---",
    "headings alone": "# Only\n\n## Headings\n",
    "statements alone": "import A from 'a';\n\n<A />\n",
    "not closed": "---  \ntitle: T\n\n# H\n\ntext\n",
    "not YAML": "---\ntitle: T\ntags: [a\nb: c\n---\nx",
    "deep": "---\na: " + "[" * 20_000 + "\n---\nx",
    "no mapping": "---\njust words\n---\nx",
    "a list for a title": "---\ntitle: [a]\n---\nx",
    "an empty tag": "---\ntags: [a, '']\n---\nx",
    "a tag without a label": "---\ntags: [{permalink: /x}]\n---\nx",
    "a word for a number": "---\nsidebar_position: first\n---\nx",
    "no number": "---\nsidebar_position: .nan\n---\nx",
}


@pytest.mark.parametrize("source", FAULTS.values(), ids=FAULTS)
def test_a_page_that_cannot_be_read_says_why(source: str, snapshot: SnapshotAssertion) -> None:
    said = refusal(PageError, parse, source)
    assert re.sub("(recursion depth) .*", r"\1", said) == snapshot and len(said) < 400


def test_headings_are_plain_text_and_stand_above_what_follows(snapshot: SnapshotAssertion) -> None:
    page = parse((PAGES / "headings.mdx").read_text(encoding="utf-8"))
    placed = [f"{run[0].start_line}: {' > '.join(section.path)}" for section in page.sections for run in section.runs]
    assert "\n\n".join(f"{place}\n{text}" for place, text in zip(placed, texts(page), strict=True)) == snapshot
    assert headings(parse("# " + "[" * 2_000 + "\n\nbody\n")) == [("[" * 500,)], "a heading has an end"


def blocks(name: str) -> list[str]:
    """Return the blocks of a file of them, between lines of percent signs."""
    return (PAGES / name).read_text(encoding="utf-8").rstrip("\n").split("\n%%%\n")


ODD = ["<!-- x -->" * 200 + " words", "{/* x */}" * 200 + " words", "one\u2028two\x85three\x0cfour"]


@pytest.mark.parametrize("block", [*blocks("verbatim.mdx"), *ODD])
def test_text_stays_verbatim(block: str) -> None:
    page = parse(f"# T\n\nbefore\n\n{block}\n\nend\n")
    assert headings(page) == [("T",)]
    assert texts(page) == [f"# T\n\nbefore\n\n{block}\n\nend"]


@pytest.mark.parametrize("statement", blocks("no_text.mdx"))
def test_statements_and_tags_are_no_text_and_part_the_runs(statement: str) -> None:
    page = parse(f"# T\n\nbefore\n\n{statement}\n\nafter\n", "guide/page.mdx")
    assert headings(page) == [("T",)]
    assert texts(page) == ["# T\n\nbefore", "after"]
    assert texts(parse(f"text\n\n{statement}")) == ["text"]


# Generated pages that know what must come out of them: every word is numbered, so each place is unique

WORDS = ("motor", "naïve", "日本", "x_y", "C++", "don't", "(aside)", "half-open", "3.5", "🤖", "a,b")
HEADING_LEVELS = (1, 2, 2, 3, 3, 4)


class Part(NamedTuple):
    """A stretch of a page with its lines (1-based), and the headings it stands under (its own included)."""

    source: str
    start_line: int
    end_line: int
    path: tuple[str, ...]


class GeneratedPage(NamedTuple):
    """A page with its parts; of them all text must be found again, and the headings with text behind them."""

    source: str
    parts: list[Part]
    kept: list[Part]


def write_page(shapes: Sequence[tuple[str, int, str, int]], front_matter: bool) -> GeneratedPage:
    """Write parts, each by its form, the number of its words, a word, and the blank lines after it."""
    number = count()
    lines = ["---", "title: Title", "---", ""] if front_matter else []
    parts, kept, path = list[Part](), list[Part](), list[tuple[int, str]]()
    heading: Part | None = None
    for form, size, word, blank_lines in shapes:
        words = [f"{word}{next(number)}" for _ in range(size)]
        is_heading = form in ("heading", "setext")
        if is_heading:
            level = HEADING_LEVELS[size % len(HEADING_LEVELS)] if form == "heading" else 1 + size % 2
            text = " ".join(words[:3])
            path = [(n, t) for n, t in path if n < level] + [(level, text)]
            source = f"{'#' * level} {text}" if form == "heading" else f"{text}\n{'=-'[level - 1] * 3}"
        else:
            source = (TEXT_FORMS | DROPPED_FORMS)[form](words)
        start = len(lines) + 1
        parts.append(Part(source, start, start + source.count("\n"), tuple(text for _, text in path)))
        lines += [*source.split("\n"), *[""] * blank_lines]
        if is_heading:
            heading = parts[-1]
        else:  # a heading alone before a tag is no chunk
            kept += [part for part in (heading, parts[-1]) if part and form in TEXT_FORMS]
            heading = None
    return GeneratedPage("\n".join(lines), parts, kept)


def pages() -> st.SearchStrategy[GeneratedPage]:
    forms = st.sampled_from([*TEXT_FORMS, *DROPPED_FORMS, "heading", "heading", "setext"])
    shape = st.tuples(forms, st.integers(1, 40), st.sampled_from(WORDS), st.integers(1, 3))
    shapes = st.lists(shape, min_size=1, max_size=12).filter(lambda found: {*TEXT_FORMS} & {one[0] for one in found})
    return st.builds(write_page, shapes, st.booleans())


def _rows(words: Sequence[str], width: int = 8) -> Iterator[str]:
    for start in range(0, len(words), width):
        yield " ".join(words[start : start + width])


def _lines(words: Sequence[str]) -> str:
    return "\n".join(_rows(words))


TEXT_FORMS: dict[str, Callable[[Sequence[str]], str]] = {
    "paragraph": _lines,
    "long line": " ".join,
    "sentences": lambda words: ". ".join(_rows(words, 5)) + ".",
    "wide": " \t ".join,
    "unbroken": "".join,
    "hard breaks": lambda words: "  \n".join(_rows(words)) + "  ",
    "list": lambda words: "\n".join(f"- {row}" for row in _rows(words, 5)),
    "nested list": lambda words: "\n\n".join(
        ["1. " + words[0], *(f"   - {row}\n\n     ```\n     # {row}\n     ```" for row in _rows(words[1:]))]
    ),
    "quote": lambda words: "\n".join(f"> {row}" for row in _rows(words)),
    "table": lambda words: "\n".join(["|head|other|", "|---|:-:|", *(f"| {row} | `#` |" for row in _rows(words, 4))]),
    "fence": lambda words: "\n".join(["```python", *(f"# {row}\n" for row in _rows(words)), "```"]),
    "tildes": lambda words: "\n".join(["~~~", *(f"    ```\n## {row}" for row in _rows(words)), "~~~"]),
    "nested fence": lambda words: "\n".join(["````md", "```sh", *(f"# {row}" for row in _rows(words)), "```", "````"]),
    "indented": lambda words: "\n".join(f"    # {row}" for row in _rows(words)),
    "admonition": lambda words: "\n\n".join([f":::note[{words[0]}]", *_rows(words[1:]), ":::"]),
    "details": lambda words: f"<details>\n<summary>{words[0]}</summary>\n{_lines(words[1:]) or '.'}\n</details>",
    "definition": lambda words: "\n".join(f"[{word}]: https://example.com/{word} 'About {word}'" for word in words),
}
DROPPED_FORMS: dict[str, Callable[[Sequence[str]], str]] = {
    "import": lambda words: f"import {{\n  {words[0]},\n}} from '{words[-1]}';".replace("+", "").replace("'t", "t"),
    "export": lambda words: "\n".join(["export const a = [", *(f'  "# {row}",' for row in _rows(words)), "];"]),
    "tags": lambda words: f'<Tabs>\n<TabItem value="{words[0]}">',
    "closing tags": lambda words: "</TabItem>\n</Tabs>",
    "comment": lambda words: "{/* " + "\n".join(_rows(words)) + " */}",
    "html comment": lambda words: "<!-- " + "\n\n# ".join(_rows(words)) + " -->",
}


# Chunks: at the lines named, under ids that stay

BUDGETS = st.sampled_from([16, 17, 24, 40, 64, 256])
TREE = (
    "# Arms\n\nArms move.\n\n## Hands\n\nHands hold.\n\n## Grippers\n\nGrippers grip.\n\n"
    "### Fingers\n\nFingers bend.\n\n## Welding\n\nWelding takes more words than the others do.\n"
)


def chunks_of(source: str, max_tokens: int = 256, **options: Any) -> tuple[Chunk, ...]:
    return chunk_page(parse_page(source, "guide/page.md"), max_tokens, count_tokens, **options)


def by_words(source: str, max_words: int, **options: Any) -> tuple[Chunk, ...]:
    """Chunks by a count that can be checked by eye: a token for every word."""
    return chunk_page(parse_page(source, "guide/page.md"), max_words, lambda text: len(text.split()), **options)


def solid(text: str) -> str:
    """A text without its white space."""
    return "".join(text.split())


def test_blocks_are_packed_and_cut() -> None:
    for source, budget, expected in (
        ("a b\n\nc d\n\ne f\n\ng\n", 4, ["a b\n\nc d", "e f\n\ng"]),
        ("a b c d e\n", 4, ["a b", "c d e"]),
        ("# A\n\na\n\n## B\n\nb\n", 100, ["# A\n\na", "## B\n\nb"]),
        ("```\na b\nc d\ne f\n```\n", 5, ["```\na b\nc d", "e f\n```"]),
        ("One two. Three four! Five six? Seven.\n", 4, ["One two. Three four!", "Five six? Seven."]),
        ("a b c d e f g h\n", 3, ["a b", "c d", "e f", "g h"]),
        ("a.\n\nwide      gap  \n\n    b c d", 2, ["a.", "wide gap", "b", "c d"]),
    ):
        found = [chunk.text for chunk in by_words(source, budget)]
        assert [" ".join(text.split()) if "gap" in text else text for text in found] == expected


def test_a_word_over_the_budget_is_cut_inside_and_a_character_is_not() -> None:
    def cut(source: str, budget: int, weight: int = 1) -> list[str]:
        return [c.text for c in chunk_page(parse_page(source, "p.md"), budget, lambda text: weight * len(text))]

    assert cut("abcdefgh\n", 4) == ["abcd", "efgh"]
    assert cut("🤖🤖\n", 2, 5) == ["🤖", "🤖"]
    assert "".join(cut("ab cdefghij kl\n", 9)).replace(" ", "") == "abcdefghijkl"


def test_ids_tell_equal_texts_apart_and_depend_on_nothing_else() -> None:
    def ids(source: str, file_path: str = "guide/page.md") -> set[str]:
        found = chunk_page(parse_page(source, file_path), 256, count_tokens)
        assert len({chunk.chunk_id for chunk in found}) == len(found)
        return {chunk.chunk_id for chunk in found}

    section = "# A\n\nsame words\n\n"
    assert ids(section * 2) < ids(section * 3)
    plain = "# A\n\na\n\n# B\n\nb\n"
    moved = "---\ntitle: T\ntags: [x]\n---\n\n\n# B\n\nb\n\n\n\n# A\n\na\n"
    assert ids(plain) == ids(moved) == ids(plain.replace("\n", "\r\n"))
    assert ids(plain).isdisjoint(ids(plain, "guide/other.md"))
    assert ids("# A\n\nintro\n\n<Tabs>\n\nsame\n").isdisjoint(ids("# B\n\nintro\n\n<Tabs>\n\nsame\n"))


@given(page=pages(), budget=BUDGETS, lines=st.integers(1, 5))
def test_chunks_are_the_text_of_the_page_in_order_at_their_lines(page: GeneratedPage, budget: int, lines: int) -> None:
    found, source = chunks_of(page.source, budget), page.source.split("\n")
    read, kept = (solid("".join(texts)) for texts in ([c.text for c in found], [part.source for part in page.kept]))
    assert not any(re.fullmatch(r"[`~:]{3,}", chunk.text) for chunk in found)
    assert re.sub("[`~:]{3,}", "", read) == re.sub("[`~:]{3,}", "", kept)  # the end of a fence alone is no chunk
    assert [chunk.chunk_index for chunk in found] == list(range(len(found)))
    assert {chunk.total_chunks for chunk in found} == {len(found)}
    assert len({chunk.chunk_id for chunk in found}) == len({chunk.point_id for chunk in found}) == len(found)
    title = parse_page(page.source, "guide/page.md").title
    for chunk in found:
        start, end, text = chunk.start_line or 0, chunk.end_line or 0, solid(chunk.text)
        assert " ".join(chunk.text.split()) in " ".join(page.source.split())
        assert text in solid("\n".join(source[start - 1 : end]))
        if re.search(r"\d", text):
            shorter = source[start:end], source[start - 1 : end - 1]
            assert not any(text in solid("\n".join(held)) for held in shorter)
        path = next(part.path for part in page.parts if part.start_line <= start <= part.end_line) or (title,)
        assert (chunk.section_path, chunk.heading) == (" > ".join(path), path[-1])
        assert chunk.chunk_token_count == count_tokens(chunk.text) <= budget or len(chunk.text) == 1
    for before, after in pairwise(found):
        shared = before.end_line == after.start_line
        assert (before.end_line or 0) <= (after.start_line or 0)
        assert not shared or count_tokens(source[(after.start_line or 0) - 1]) > budget
    assert chunks_of(page.source.replace("\n", "\r\n"), budget) == found
    assume(not page.source.startswith("---"))
    moved = (replace(c, start_line=(c.start_line or 0) + lines, end_line=(c.end_line or 0) + lines) for c in found)
    assert chunks_of("\n" * lines + page.source, budget) == tuple(moved)


# Context, merging, whole pages


def test_context_is_title_or_headings_and_counts_towards_the_budget() -> None:
    plain, titled, headed = (by_words(TREE, 100, context=context) for context in ("none", "title", "path"))
    assert {chunk.chunk_context for chunk in plain} == {None} and {chunk.chunk_context for chunk in titled} == {"Arms"}
    under_arms = ["", " > Hands", " > Grippers", " > Grippers > Fingers", " > Welding"]
    assert [chunk.chunk_context for chunk in headed] == [f"Arms{path}" for path in under_arms]
    assert tuple(replace(chunk, chunk_context=None) for chunk in headed) == plain
    source = "---\ntitle: one two three\n---\n\n" + "w. " * 40
    chunks = by_words(source, 8, context="title")
    assert {len(chunk.indexed_text.split()) for chunk in chunks[:-1]} == {8}
    [chunk] = by_words("---\ntitle: " + "long " * 50 + "\n---\n\nshort text", 8, context="title")
    assert chunk.indexed_text == "long long long long\n\nshort text", "at most half of the budget"


def test_small_neighbours_of_one_parent_share_a_chunk_which_stands_at_the_first() -> None:
    for source, budget, held in (
        (TREE, 8, ["Arms+Hands", "Grippers+Fingers", "Welding", "Welding"]),
        (TREE, 12, ["Arms+Hands+Grippers", "Fingers", "Welding"]),
        ("---\ntitle: T\n---\n\na\n\n# B\n\nb\n", 8, ["T+B"]),
        ("# A\n\n## B\n\nb\n\n# C\n\n## D\n\nd\n", 100, ["B", "D"]),
        ("# A\n\n## B\n\nb\n\n## C\n\nc\n\n# D\n\nd\n", 100, ["B+C", "D"]),
        ("# A\n\na\n\nimport Tabs from '@theme/Tabs';\n\n# B\n\nb\n", 100, ["A", "B"]),
        ("(label-a)=\n# A\n\na\n\n(label-b)=\n# B\n\nb\n\n(end)=\n", 100, ["A", "B"]),
    ):
        chunks = by_words(source, budget, merge_small=True)
        assert ["+".join(chunk.chunk_headings or (chunk.heading or "",)) for chunk in chunks] == held
    first, *_ = by_words(TREE, 12, merge_small=True)
    assert (first.text, first.start_line, first.end_line) == (TREE[: TREE.index("\n\n### Fingers")], 1, 11)
    [chunk] = by_words("# Arms\n\n## Hands\n\nh\n\n## Feet\n\nf\n", 20, merge_small=True, context="path")
    assert (chunk.chunk_context, chunk.section_path) == ("Arms", "Arms > Hands")


def test_a_whole_page_is_one_chunk_with_its_address_for_an_id() -> None:
    text = f"# Robots\n\n{TREE.strip()}\n\n<A/>\n\n## Safety\n\n### Stops\n\nThey stop."
    page = parse_page(f"---\n# a comment\ntitle: T\n---\n\n{text}\n", "arms.md")
    [whole] = chunk_page(page, 16, count_tokens, splitter="whole")
    assert (whole.chunk_id, whole.text, whole.start_line) == (page.source_url, text, 6)
    assert whole.chunk_headings == ("Arms", "Hands", "Grippers", "Fingers", "Welding", "Stops", "Safety")
    assert whole.point_id == point_id(whole.chunk_id)
    shown = html_file("<nav>Menu</nav><h1>Robots</h1><h2>Arms</h2><p>They lift.</p>", "a.html", "/a")
    assert [chunk.text for chunk in chunk_page(shown, 16, count_tokens, splitter="whole")] == [
        "Robots\nArms\nThey lift."
    ]


PROSE = ["word and more. ", "word and more ", "a", "a\n\n", "a b\n", "- a\n", "# a\n\nb\n\n", "[", "*a **b "]
MDX = ["|a|b|\n|-|-|\n", "{/* a\n\n", "export const a = (\n\n", "# [a](", "<A b={() => 1}>"]


@pytest.mark.slow
@pytest.mark.parametrize("piece", [*PROSE, *MDX])
def test_any_page_takes_time_in_proportion_to_its_length(piece: str) -> None:
    start = time.process_time()
    chunks_of("begin\n\n" + piece * (100_000 // len(piece)))
    assert time.process_time() - start < 8

"""Docusaurus pages to sections, by whole pages. Expected addresses are those of Docusaurus' own tests."""

import re
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from retrievers.indexing.chunking import join_blocks
from retrievers.indexing.markdown import Page, PageError, parse_page

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


@pytest.mark.parametrize(
    ("matter", "title", "tags", "position"),
    [
        ("title: Topics\nsidebar_position: 3\ntags: [ros2, 'b c', 42]\nunknown: {a: 1}", "Topics", "ros2|b c|42", 3),
        ("title: 'Quoted: yes'\nsidebar_position: 2.5", "Quoted: yes", "", 2.5),
        ("title: 3.10\ntags:\n  - a\n  - label: Long name\n    permalink: /long", "3.10", "a|Long name", None),
        ("title: 2024-01-02\nsidebar_position: 1e2\ntags: [on, no]", "2024-01-02", "on|no", 100.0),
        ("title: ~\ntags: null\nsidebar_position: ''\nlast_update: {date: 2024-13-45}", "The top", "", None),
        ("# only a comment", "The top", "", None),
        ("title: |\n  two\n  lines\nsidebar_position: -1", "two\nlines\n", "", -1),
    ],
)
def test_front_matter_is_taken_as_written(matter: str, title: str, tags: str, position: float | None) -> None:
    for end in ("\n", "\r\n", "\r"):
        page = parse(f"---\n{matter}\n--- \n\n## Under\n\na\n\n# The `top`\n\nb\n".replace("\n", end))
        assert (page.title, "|".join(page.tags), page.sidebar_position) == (title, tags, position)
        assert type(page.sidebar_position) is type(position)
        assert texts(page) == ["## Under\n\na", "# The `top`\n\nb"]


def test_without_title_and_heading_the_file_name_is_the_title() -> None:
    assert parse("> # Quoted\n\n- # Listed\n", "guide/02-force-torque.md").title == "force torque"


def test_document_module_and_chapter_are_of_the_path() -> None:
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
    with pytest.raises(PageError) as caught:
        parse(source)
    assert re.sub("(recursion depth) .*", r"\1", str(caught.value)) == snapshot
    assert len(str(caught.value)) < 400


def test_headings_are_plain_text_and_stand_above_what_follows(snapshot: SnapshotAssertion) -> None:
    """Text between tags keeps its heading and its lines."""
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

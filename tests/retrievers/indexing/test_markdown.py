"""Docusaurus pages to sections, by whole pages. Expected addresses are those of Docusaurus' own tests."""

import pytest

from retrievers.indexing.chunking import join_blocks
from retrievers.indexing.markdown import Page, PageError, page_address, parse_page


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


@pytest.mark.parametrize(
    ("file_path", "slug", "address"),
    [
        ("doc.mdx", None, "/docs/doc"),
        ("001-dir1/002-dir2/doc.md", None, "/docs/dir1/dir2/doc"),
        ("0-Root/1 - Sub/2.  Deep/3 _Doc.md", None, "/docs/Root/Sub/Deep/Doc"),
        ("dir with spâce/hey $hello/my dôc.md", None, "/docs/dir with spâce/hey $hello/my dôc"),
        ("notes.v2.md", None, "/docs/notes.v2"),
        ("README.md", None, "/docs"),
        ("dir/subdir/inDEx.mdx", None, "/docs/dir/subdir"),
        ("dir/subdir/suBDir.mdx", None, "/docs/dir/subdir"),
        ("01-guides/guides.md", None, "/docs/guides/guides"),
        ("guides/01-index.md", None, "/docs/guides/index"),
        ("1___My Doc.md", None, "/docs/My Doc"),
        ("My Doc - 02.md", None, "/docs/My Doc - 02"),
        ("00abc01-My Doc.md", None, "/docs/00abc01-My Doc"),
        ("2021-01-31 - Doc.md", None, "/docs/2021-01-31 - Doc"),
        ("14.2.16.md", None, "/docs/14.2.16"),
        ("any/any/doc.md", "/abc/def", "/docs/abc/def"),
        ("dir/subdir/doc.md", "abc/def", "/docs/dir/subdir/abc/def"),
        ("dir/subdir/doc.md", "../../../../../abc/../def", "/docs/def"),
        ("dir/doc.md", "/", "/docs"),
        ("01-intro/index.md", "start", "/docs/intro/start"),
    ],
)
def test_an_address_is_the_one_of_docusaurus(file_path: str, slug: str | None, address: str) -> None:
    assert page_address(file_path, slug, "/docs/") == address
    assert page_address(file_path, slug, "") == (address.removeprefix("/docs") or "/")


@pytest.mark.parametrize(
    ("file_path", "matter", "address"),
    [
        ("guide/page.md", "id: other", "/docs/guide/other"),
        ("guide/index.md", "id: other", "/docs/guide"),
        ("guide/page.md", "id: other\nslug: mine", "/docs/guide/mine"),
        ("guide/page.md", "slug: 2021", "/docs/guide/2021"),
    ],
)
def test_slug_and_id_stand_in_the_front_matter(file_path: str, matter: str, address: str) -> None:
    assert parse(f"---\n{matter}\n---\ntext\n", file_path).source_url == address


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


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("", "the page has no content"),
        ("---\ntitle: T\n---", "the page has no content"),
        ("# Only\n\n## Headings\n", "the page has no content"),
        ("import A from 'a';\n\n<A />\n", "the page has no content"),
        ("---  \ntitle: T\n\n# H\n\ntext\n", "line 1: the front matter is not closed"),
        ("---\ntitle: T\ntags: [a\nb: c\n---\nx", r"line 4: the front matter is not valid YAML: \w+"),
        ("---\na: " + "[" * 20_000 + "\n---\nx", "the front matter is not valid YAML: maximum recursion depth"),
        ("---\njust words\n---\nx", "line 2: the front matter must be a mapping, got str"),
        ("---\ntitle: [a]\n---\nx", r"front matter: title: .*string, got \['a'\]"),
        ("---\ntags: [a, '']\n---\nx", "front matter: tags.1: String should match pattern .*, got ''"),
        ("---\ntags: [{permalink: /x}]\n---\nx", r"front matter: tags.0: Input should be a valid string, got \{"),
        (
            "---\nsidebar_position: first\n---\nx",
            r"front matter: sidebar_position\.int: .* integer, .*, got 'first'",
        ),
        ("---\nsidebar_position: .nan\n---\nx", r"front matter: sidebar_position\.\w+: "),
    ],
)
def test_a_page_that_cannot_be_read_says_why(source: str, fault: str) -> None:
    with pytest.raises(PageError, match=f"^{fault}") as caught:
        parse(source)
    assert len(str(caught.value)) < 400


def test_a_path_holds_the_headings_above() -> None:
    page = parse(
        "intro\n\n# A\n\na\n\n## B\n\nb\n\n#### C\n\nc\n\n## D\n\n### E\n\n# F\n\ne\n##\n\nb\n\nOne\n===\n\nx\n"
    )
    assert headings(page) == [(), ("A",), ("A", "B"), ("A", "B", "C"), ("F",), ("F",), ("One",)]
    assert texts(page)[-3:] == ["# F\n\ne", "##\n\nb", "One\n===\n\nx"]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("##   Wide ##  ", "Wide"),
        ("## The `ros2 topic` command {#own-id}", "The ros2 topic command"),
        ("## A [link](/x) and **bold** *word*", "A link and bold word"),
        ("## A [reference][r]\n\n[r]: /x", "A reference"),
        ("## R&amp;D \\# \\{#kept", "R&D # {#kept"),
        ("## An ![image alt](x.png) here", "An here"),
        ("## Tag <kbd>Enter</kbd> inside", "Tag Enter inside"),
        ("Over two\nlines\n---", "Over two lines"),
        ("# " + "[" * 2_000, "[" * 500),
    ],
)
def test_a_heading_is_plain_text(line: str, text: str) -> None:
    assert headings(parse(f"{line}\n\nbody\n")) == [(text,)]


VERBATIM = [
    "```python\n# not a heading\n\n## nor this\nx = 1\n```",
    "~~~\n# not a heading\n```\n# still inside\n~~~",
    "````md\n```py\n# inner comment\n```\n# outer comment\n````",
    "1. step\n\n   ```bash\n   # comment\n   make\n   ```\n\n2. next",
    "> ```\n> # comment\n> ```",
    "```mdx\nimport A from 'a';\n\n<Tabs>\n\n# Heading\n\n</Tabs>\n```",
    "    # comment\n\n    code",
    ":::warning[A title {here}]\n\n- item\n\n:::",
    "| a | b |\n|---|:-:|\n| 1 | `x|y` |\n| 2 | # |",
    "Text with a [link][r].\n\n[r]: https://example.com 'The title'",
    "A note.[^1]\n\n[^1]: The footnote's words.",
    "***",
    "#hashtag\n\n####### seven",
    "<details>\n<summary>Sum</summary>\n\nInside.",
    "<https://example.com/path>",
    "<me@example.com>",
    "a < b and c > d, {x}",
    # Prose that begins as MDX does.
    "import duties rose\nexport duties fell",
    "export your model to ONNX first.",
    "{/* remark */} with words",
    "{/* open\n\nwords",
    "words <Tabs>",
    '<TabItem value="a">\nwords inside\n</TabItem>',
    "<!-- x -->" * 200 + " words",
    "{/* x */}" * 200 + " words",
    "one\u2028two\x85three\x0cfour",
]


@pytest.mark.parametrize("block", VERBATIM)
def test_text_stays_verbatim(block: str) -> None:
    page = parse(f"# T\n\nbefore\n\n{block}\n\nend\n")
    assert headings(page) == [("T",)]
    assert texts(page) == [f"# T\n\nbefore\n\n{block}\n\nend"]


NO_TEXT = [
    "import Tabs from '@theme/Tabs';\nimport TabItem from '@theme/TabItem'",
    "import './style.css';",
    "import {\n  A,\n  B as C,\n} from 'x';",
    "import A from 'a';\nexport const b = 1;",
    "export const meta = {\n  a: '(',\n\n  b: 2,\n};",
    "export function Box({x}) {\n  const y = x;\n\n    return <b>{y}</b>;\n\n}",
    "export const Box = ({children}) => (\n  <div>\n    # no heading\n\n    {children}\n  </div>\n);",
    "export const a = {\n  b: 1,",
    "{/* a remark\n\n# no heading\n\nof several paragraphs */}",
    "<!-- a > remark\n\n# no heading -->",
    '<Tabs groupId="os">\n<TabItem value="a" label="A">',
    "</TabItem>\n</Tabs>",
    '<Card\n  title="x"\n  href="https://example.com"\n/>',
    "<Tabs\n  values={[\n    {label: 'A', value: 'a'},\n  ]}>",
    "<Button onClick={() => go(1)} />",
    "<Foo.Bar />",
]


@pytest.mark.parametrize("statement", NO_TEXT)
def test_statements_and_tags_are_no_text_and_part_the_runs(statement: str) -> None:
    page = parse(f"# T\n\nbefore\n\n{statement}\n\nafter\n", "guide/page.mdx")
    assert headings(page) == [("T",)]
    assert texts(page) == ["# T\n\nbefore", "after"]
    assert texts(parse(f"text\n\n{statement}")) == ["text"]


def test_text_between_tags_keeps_its_heading_and_lines() -> None:
    page = parse(
        "import Tabs from '@theme/Tabs';\n\n## Install\n\nChoose.\n\n<Tabs>\n<TabItem value=\"apt\">\n\nUse apt.\n\n"
        "### Notes\n\nSlow.\n\n</TabItem>\n</Tabs>\n\nDone.\n"
    )
    runs = [
        (section.path[-1], run[0].start_line, join_blocks(run)) for section in page.sections for run in section.runs
    ]
    assert runs == [
        ("Install", 3, "## Install\n\nChoose."),
        ("Install", 10, "Use apt."),
        ("Notes", 12, "### Notes\n\nSlow."),
        ("Notes", 19, "Done."),
    ]

"""Docusaurus pages to sections. Expected addresses are those of Docusaurus' own tests for the same inputs."""

from itertools import pairwise
from textwrap import dedent

import pytest

from retrievers.indexing.chunking import join_blocks
from retrievers.indexing.markdown import Page, PageError, PageSection, page_address, parse_page


def parse(source: str, file_path: str = "guide/page.md") -> Page:
    return parse_page(source, file_path)


def texts(page: Page) -> list[str]:
    """The text of every run of the page, in order."""
    return [join_blocks(run) for section in page.sections for run in section.runs]


def headings(page: Page) -> list[tuple[str, ...]]:
    return [section.path for section in page.sections]


def only(page: Page) -> PageSection:
    (section,) = page.sections
    return section


def assert_lines_hold_the_blocks(page: Page) -> None:
    """Every block is, character for character, the lines of the source that it claims, and no line is claimed twice."""
    lines = page.text.split("\n")
    blocks = [block for section in page.sections for run in section.runs for block in run]
    for block in blocks:
        assert "\n".join(lines[block.start_line - 1 : block.end_line]) == block.text
    for before, after in pairwise(blocks):
        assert before.end_line < after.start_line


class TestAddress:
    @pytest.mark.parametrize(
        ("file_path", "address"),
        [
            ("doc.md", "/docs/doc"),
            ("doc.mdx", "/docs/doc"),
            ("dir/subdir/doc.md", "/docs/dir/subdir/doc"),
            ("001-dir1/002-dir2/doc.md", "/docs/dir1/dir2/doc"),
            ("0-Root/1 - Sub/2.  Deep/3 _Doc.md", "/docs/Root/Sub/Deep/Doc"),
            ("dir with spâce/hey $hello/my dôc.md", "/docs/dir with spâce/hey $hello/my dôc"),
            ("notes.v2.md", "/docs/notes.v2"),
        ],
    )
    def test_is_the_path_without_suffix_and_number_prefixes(self, file_path: str, address: str) -> None:
        assert page_address(file_path, None, "/docs") == address

    @pytest.mark.parametrize(
        "file_path",
        [
            "dir/subdir/index.md",
            "dir/subdir/inDEx.mdx",
            "dir/subdir/readme.md",
            "dir/subdir/reADMe.mdx",
            "dir/subdir/subdir.md",
            "dir/subdir/suBDir.mdx",
        ],
    )
    def test_of_an_index_page_is_its_folder(self, file_path: str) -> None:
        assert page_address(file_path, None, "/docs") == "/docs/dir/subdir"

    @pytest.mark.parametrize(
        ("file_path", "address"),
        [
            ("01-guides/guides.md", "/docs/guides/guides"),
            ("guides/01-guides.md", "/docs/guides/guides"),
            ("guides/01-index.md", "/docs/guides/index"),
            ("guides/indexes.md", "/docs/guides/indexes"),
        ],
    )
    def test_index_pages_are_told_by_the_names_on_disk(self, file_path: str, address: str) -> None:
        assert page_address(file_path, None, "/docs") == address

    @pytest.mark.parametrize(
        "name",
        [
            "1-My Doc",
            "001 - My Doc",
            "999      -        My Doc",
            "01---My Doc",
            "1___My Doc",
            "001 . My Doc",
            "01.My Doc",
        ],
    )
    def test_drops_a_number_prefix(self, name: str) -> None:
        assert page_address(f"{name}.md", None, "/docs") == "/docs/My Doc"

    @pytest.mark.parametrize(
        "name",
        [
            "MyDoc",
            "a1-My Doc",
            "My Doc - 02",
            "Hey - 03 - My Doc",
            "00abc01-My Doc",
            "My 001- Doc",
            "2021-01-31 - Doc",
            "31.01.2021 - Doc",
            "2021_01 - Doc",
            "2021-01-31",
            "21-01",
            "01",
            "8.0",
            "14.2.16",
            "8.0.0 - Doc",
            "8_0",
        ],
    )
    def test_keeps_dates_versions_and_what_is_no_prefix(self, name: str) -> None:
        assert page_address(f"{name}.md", None, "/docs") == f"/docs/{name}"

    @pytest.mark.parametrize(
        ("file_path", "slug", "address"),
        [
            ("doc.md", "/abc/def", "/docs/abc/def"),
            ("any/any/doc.md", "/abc/def", "/docs/abc/def"),
            ("dir/subdir/index.md", "/my/slug", "/docs/my/slug"),
            ("doc.md", "abc/def", "/docs/abc/def"),
            ("dir/subdir/doc.md", "abc/def", "/docs/dir/subdir/abc/def"),
            ("dir/doc.md", "./abc/def", "/docs/dir/abc/def"),
            ("dir/doc.md", "./abc/../def", "/docs/dir/def"),
            ("dir/subdir/doc.md", "../abc/def", "/docs/dir/abc/def"),
            ("dir/subdir/doc.md", "../../../../../abc/../def", "/docs/def"),
            ("dir/doc.md", "/", "/docs"),
            ("dir/doc.md", "/slug/", "/docs/slug"),
            ("01-intro/index.md", "start", "/docs/intro/start"),
        ],
    )
    def test_follows_the_slug(self, file_path: str, slug: str, address: str) -> None:
        assert page_address(file_path, slug, "/docs") == address

    @pytest.mark.parametrize(
        ("base_url", "address"), [("/", "/a/b"), ("", "/a/b"), ("/docs/", "/docs/a/b"), ("/en/x", "/en/x/a/b")]
    )
    def test_begins_with_the_base(self, base_url: str, address: str) -> None:
        assert page_address("a/b.md", None, base_url) == address

    def test_of_the_root_index_is_the_base(self) -> None:
        assert page_address("README.md", None, "/docs") == "/docs"
        assert page_address("index.md", None, "/") == "/"

    @pytest.mark.parametrize(
        ("file_path", "matter", "address"),
        [
            ("guide/page.md", "id: other", "/docs/guide/other"),
            ("guide/index.md", "id: other", "/docs/guide"),
            ("guide/page.md", "id: other\nslug: mine", "/docs/guide/mine"),
            ("guide/page.md", "slug: 2021", "/docs/guide/2021"),
            ("guide/page.md", "slug: ''", "/docs/guide/page"),
        ],
    )
    def test_comes_from_the_front_matter(self, file_path: str, matter: str, address: str) -> None:
        assert parse(f"---\n{matter}\n---\ntext\n", file_path).source_url == address


class TestFrontMatter:
    def test_gives_title_tags_and_position(self) -> None:
        page = parse("---\ntitle: Topics\nsidebar_position: 3\ntags: [ros2, dds]\nunknown: {a: 1}\n---\n\ntext\n")
        assert (page.title, page.sidebar_position, page.tags) == ("Topics", 3, ("ros2", "dds"))
        assert texts(page) == ["text"]
        assert only(page).runs[0][0].start_line == 8

    @pytest.mark.parametrize(
        ("value", "title"),
        [
            ("'Quoted: yes'", "Quoted: yes"),
            ("3.10", "3.10"),
            ("2024-01-02", "2024-01-02"),
            ("yes", "yes"),
            ("010", "010"),
            ("Ünïcode 日本", "Ünïcode 日本"),
            ("|\n  two\n  lines", "two\nlines"),
        ],
    )
    def test_title_is_taken_as_written(self, value: str, title: str) -> None:
        assert parse(f"---\ntitle: {value}\n---\ntext\n").title == title

    @pytest.mark.parametrize("value", ["", "''", "~", "null"])
    def test_without_a_title_the_first_top_heading_is_it(self, value: str) -> None:
        assert parse(f"---\ntitle: {value}\n---\n## Under\n\na\n\n# The `top`\n\nb\n").title == "The top"

    def test_a_quoted_heading_is_no_title(self) -> None:
        assert parse("> # Quoted\n\n- # Listed\n", "guide/01-my-page.md").title == "my page"

    def test_without_title_and_heading_the_file_name_is_the_title(self) -> None:
        assert parse("text\n", "guide/02-force-torque.md").title == "force torque"

    @pytest.mark.parametrize(
        ("value", "position"), [("2", 2), ("2.5", 2.5), ("-1", -1), ("0", 0), ("'1.5'", 1.5), ("1e2", 100), ("~", None)]
    )
    def test_position_is_a_number(self, value: str, position: float | None) -> None:
        page = parse(f"---\nsidebar_position: {value}\n---\ntext\n")
        assert page.sidebar_position == position
        assert page.sidebar_position is None or isinstance(page.sidebar_position, int | float)

    @pytest.mark.parametrize("value", ["first", ".nan", ".inf", "true", "[1]", "1e999", "2024-01-02"])
    def test_a_position_that_is_no_number_is_refused(self, value: str) -> None:
        with pytest.raises(PageError, match="sidebar_position must be a number, got"):
            parse(f"---\nsidebar_position: {value}\n---\ntext\n")

    @pytest.mark.parametrize(
        ("value", "tags"),
        [
            ("[a, 'b c', 42]", ("a", "b c", "42")),
            ("\n  - a\n  - label: Long name\n    permalink: /long", ("a", "Long name")),
            ("[{label: x}]", ("x",)),
            ("[on, no]", ("on", "no")),
            ("[]", ()),
            ("", ()),
            ("null", ()),
        ],
    )
    def test_tags_are_names_or_objects_with_a_label(self, value: str, tags: tuple[str, ...]) -> None:
        assert parse(f"---\ntags: {value}\n---\ntext\n").tags == tags

    @pytest.mark.parametrize("value", ["ros2", "42", "{a: b}", "[{}]", "[a, '']", "[[a]]", "[{permalink: /x}]"])
    def test_other_tags_are_refused(self, value: str) -> None:
        with pytest.raises(PageError, match=r"front matter: tags(\.\d)? must"):
            parse(f"---\ntags: {value}\n---\ntext\n")

    @pytest.mark.parametrize("key", ["title", "slug", "id"])
    def test_a_list_where_text_belongs_is_refused(self, key: str) -> None:
        with pytest.raises(PageError, match=rf"front matter: {key} must be text, got \['a'\]"):
            parse(f"---\n{key}: [a]\n---\ntext\n")

    @pytest.mark.parametrize("source", ["text\n", "---\n---\ntext\n", "---\n# only a comment\n---\ntext\n"])
    def test_may_be_missing_or_empty(self, source: str) -> None:
        page = parse(source)
        assert (page.title, page.tags, page.sidebar_position) == ("page", (), None)
        assert texts(page) == ["text"]

    @pytest.mark.parametrize(
        "source",
        [
            "---\r\ntitle: T\r\ntags: [a]\r\n---\r\n\r\ntext\r\n",
            "---\rtitle: T\rtags: [a]\r---\r\rtext\r",
            "---  \ntitle: T\ntags: [a]\n--- \n\ntext\n",
            "---\ntitle: T\ntags: [a]\n---\n\ntext",
        ],
    )
    def test_line_ends_and_trailing_spaces_do_not_matter(self, source: str) -> None:
        page = parse(source)
        assert (page.title, page.tags, texts(page)) == ("T", ("a",), ["text"])
        assert only(page).runs[0][0].start_line == 6

    def test_dates_that_do_not_exist_break_nothing(self) -> None:
        assert texts(parse("---\nlast_update: {date: 2024-13-45}\n---\ntext\n")) == ["text"]

    @pytest.mark.parametrize("opening", ["---", "---  "])
    def test_unclosed_is_an_error_of_line_1(self, opening: str) -> None:
        with pytest.raises(PageError, match="line 1: the front matter is not closed"):
            parse(f"{opening}\ntitle: T\n\n# Heading\n\ntext\n")

    @pytest.mark.parametrize(
        ("matter", "line"),
        [
            ("title: 'open", 2),
            ("title: T\ntags: [a\nb: c", 4),
            ("title: T\nx: 1\n\ttab: 2", 4),
            ("title: a: b", 2),
            ("a: 1\nb: *nothing", 3),
            ("{x: 1}: 2", 2),
        ],
    )
    def test_broken_yaml_is_named_with_the_line_of_the_page(self, matter: str, line: int) -> None:
        with pytest.raises(PageError, match=rf"^line {line}: the front matter is not valid YAML: \w+"):
            parse(f"---\n{matter}\n---\ntext\n")

    @pytest.mark.parametrize("matter", ["just words", "- a\n- b"])
    def test_must_be_a_mapping(self, matter: str) -> None:
        with pytest.raises(PageError, match=r"line 2: the front matter must be a mapping, got (str|list)"):
            parse(f"---\n{matter}\n---\ntext\n")

    def test_a_rule_later_on_is_no_front_matter(self) -> None:
        assert texts(parse("text\n\n---\n\nmore\n")) == ["text\n\n---\n\nmore"]


class TestEmptyPages:
    @pytest.mark.parametrize(
        "source",
        [
            "",
            "\n \n\t\n",
            "\u00a0\n",
            "---\ntitle: T\n---\n",
            "---\ntitle: T\n---",
            "# Only\n\n## Headings\n",
            "import A from 'a';\n\n<A />\n",
            "<!-- nothing -->\n",
        ],
    )
    def test_a_page_without_content_is_an_error(self, source: str) -> None:
        with pytest.raises(PageError, match="the page has no content"):
            parse(source)


class TestHeadings:
    def test_path_holds_the_headings_above(self) -> None:
        page = parse("intro\n\n# A\n\na\n\n## B\n\nb\n\n#### C\n\nc\n\n## D\n\nd\n\n# E\n\ne\n")
        assert headings(page) == [(), ("A",), ("A", "B"), ("A", "B", "C"), ("A", "D"), ("E",)]

    def test_a_section_without_text_of_its_own_lends_its_heading_only(self) -> None:
        page = parse("# A\n\n## B\n\n### C\n\nc\n\n## D\n")
        assert headings(page) == [("A", "B", "C")]
        assert texts(page) == ["### C\n\nc"]

    @pytest.mark.parametrize(
        ("line", "text"),
        [
            ("## Plain", "Plain"),
            ("## Closed ##", "Closed"),
            ("##   Wide  ", "Wide"),
            ("   ## Indented", "Indented"),
            ("## The `ros2 topic` command", "The ros2 topic command"),
            ("## A [link](/x) and **bold** *word*", "A link and bold word"),
            ("## A [reference][r]\n\n[r]: /x", "A reference"),
            ("## Own id {#own-id}", "Own id"),
            ("## `code` last {#own-id} ##", "code last"),
            ("## R&amp;D \\# \\{#kept", "R&D # {#kept"),
            ("## An ![image alt](x.png) here", "An here"),
            ("## Tag <kbd>Enter</kbd> inside", "Tag Enter inside"),
            ("Setext one\n===", "Setext one"),
            ("Setext two\n---", "Setext two"),
            ("Over two\nlines\n---", "Over two lines"),
            ("Hard  \nbreak\n---", "Hard break"),
        ],
    )
    def test_text_is_plain(self, line: str, text: str) -> None:
        page = parse(f"{line}\n\nbody\n")
        assert headings(page) == [(text,)]
        assert_lines_hold_the_blocks(page)

    def test_setext_levels_are_one_and_two(self) -> None:
        assert headings(parse("One\n===\n\na\n\nTwo\n---\n\nb\n\n### Three\n\nc\n")) == [
            ("One",),
            ("One", "Two"),
            ("One", "Two", "Three"),
        ]

    @pytest.mark.parametrize("line", ["#hashtag", "####### seven", "\\# escaped", "    # indented code"])
    def test_what_looks_like_a_heading_is_text(self, line: str) -> None:
        page = parse(f"text\n\n{line}\n")
        assert headings(page) == [()]
        assert texts(page) == [f"text\n\n{line}"]

    def test_an_empty_heading_gives_way_to_the_one_above(self) -> None:
        page = parse("# A\n\na\n\n##\n\nb\n")
        assert headings(page) == [("A",), ("A",)]
        assert texts(page) == ["# A\n\na", "##\n\nb"]

    def test_a_heading_needs_no_blank_lines_about_it(self) -> None:
        page = parse("before\n## H\nafter\n")
        assert headings(page) == [(), ("H",)]
        assert texts(page) == ["before", "## H\nafter"]
        assert_lines_hold_the_blocks(page)


FENCES = {
    "backticks": "```python\n# not a heading\n\n## nor this\nx = 1\n```",
    "tildes": "~~~\n# not a heading\n```\n# still inside\n~~~",
    "nested": "````md\n```py\n# inner comment\n```\n# outer comment\n````",
    "indented": "   ```sh\n   # comment\n   ```",
    "in a list": "1. step\n\n   ```bash\n   # comment\n   make\n   ```\n\n2. next",
    "in a quote": "> ```\n> # comment\n> ```",
    "titled": '```yaml title="a.yaml" {2}\n# comment\na: 1\n```',
    "unclosed": "```\n# comment\n\n# to the end",
    "front matter inside": "```md\n---\ntitle: x\n---\n# Page\n```",
    "mdx inside": "```mdx\nimport A from 'a';\n\n<Tabs>\n\n# Heading\n\n</Tabs>\n```",
    "setext inside": "```text\nTitle\n=====\n\nOther\n---\n```",
    "indented code": "    # comment\n\n    code",
}


class TestBlocks:
    @pytest.mark.parametrize("fence", FENCES.values(), ids=FENCES.keys())
    def test_lines_in_code_are_no_headings_and_stay_verbatim(self, fence: str) -> None:
        page = parse(f"# T\n\nbefore\n\n{fence}\n")
        assert headings(page) == [("T",)]
        assert texts(page) == [f"# T\n\nbefore\n\n{fence}"]
        assert_lines_hold_the_blocks(page)

    @pytest.mark.parametrize(
        "block",
        [
            ":::note\n\nInside *it*.\n\n:::",
            ":::warning[A title {here}]\n\n- item\n\n:::",
            ":::tip\ntight\n:::",
            "::::info\n\n:::danger\n\nnested\n\n:::\n\n::::",
            "| a | b |\n|---|:-:|\n| 1 | `x|y` |\n| 2 | # |",
            "- a\n  - b\n\n    para\n- c",
            "1) x\n2) y",
            "> quote\nlazy line",
            "Text with a [link][r].\n\n[r]: https://example.com 'The title'",
            "[only]: https://example.com",
            "A note.[^1]\n\n[^1]: The footnote's words.",
            "***",
            "Line one  \nline two\\\nline three",
            "<details>\n<summary>Sum</summary>\n\nInside.",
            "<div>\n# no heading inside\n</div>",
            "a < b and c > d, {x}",
            "<https://example.com/path>",
            "<me@example.com>",
            "$$\nx = y\n$$",
        ],
    )
    def test_text_stays_verbatim(self, block: str) -> None:
        page = parse(f"# T\n\n{block}\n\nend\n")
        assert headings(page) == [("T",)]
        assert texts(page) == [f"# T\n\n{block}\n\nend"]
        assert_lines_hold_the_blocks(page)

    @pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"])
    def test_marks_that_only_python_takes_for_line_ends_do_not_shift_lines(self, mark: str) -> None:
        page = parse(f"one{mark}two\n\n## H\n\nlast words\n")
        assert texts(page) == [f"one{mark}two", "## H\n\nlast words"]
        assert page.sections[1].runs[0][1].start_line == 5

    @pytest.mark.parametrize("end", ["\r\n", "\r", "\n"])
    def test_line_ends_of_any_system_give_the_same_page(self, end: str) -> None:
        source = "---\ntitle: T\n---\n\n# A\n\none\ntwo\n\n```\n# c\n```\n"
        assert parse(source.replace("\n", end)) == parse(source)

    def test_trailing_blank_lines_belong_to_no_block(self) -> None:
        page = parse("- a\n- b\n\n\n\n# H\n\ntext\n\n\n")
        assert [(b.start_line, b.end_line) for s in page.sections for b in s.runs[0]] == [(1, 2), (6, 6), (8, 8)]


STATEMENTS = {
    "import": "import Tabs from '@theme/Tabs';",
    "two imports": "import Tabs from '@theme/Tabs';\nimport TabItem from '@theme/TabItem'",
    "bare import": "import './style.css';",
    "named imports over lines": "import {\n  A,\n  B as C,\n} from 'x';",
    "import of all": 'import * as X from "x"',
    "imports and export": "import A from 'a';\nexport const b = 1;",
    "export": "export const year = 2024;",
    "export over lines": "export const meta = {\n  a: [1, 2],\n};",
    "export with blank lines": "export const meta = {\n  a: '(',\n\n  b: 2,\n};",
    "function": "export function Box({x}) {\n  const y = x;\n\n    return <b>{y}</b>;\n\n}",
    "component": "export const Box = ({children}) => (\n  <div>\n    # no heading\n\n    {children}\n  </div>\n);",
    "default": "export default function Layout(props) {\n  return props.children;\n}",
    "list": "export {a, b};",
    "comment": "{/* a remark */}",
    "comment over lines": "{/* a remark\n\n# no heading\n\nof several paragraphs */}",
    "html comment": "<!-- a > remark\n\n# no heading\n\nof several paragraphs -->",
}
TAGS = {
    "opening": "<Tabs>",
    "tags on several lines": '<Tabs groupId="os">\n<TabItem value="a" label="A">',
    "closing": "</TabItem>\n</Tabs>",
    "self-closing over lines": '<Card\n  title="x"\n  href="https://example.com"\n/>',
    "objects": "<Tabs\n  values={[\n    {label: 'A', value: 'a'},\n  ]}>",
    "arrow function": "<Button onClick={() => go(1)} />",
    "dotted": "<Foo.Bar />",
    "html": "<br/>",
    "image": '<img src="/x.png" alt="x" />',
}
NO_TEXT = STATEMENTS | TAGS


class TestMdx:
    @pytest.mark.parametrize("statement", NO_TEXT.values(), ids=NO_TEXT.keys())
    def test_statements_and_tags_are_no_text_and_part_the_runs(self, statement: str) -> None:
        page = parse(f"# T\n\nbefore\n\n{statement}\n\nafter\n", "guide/page.mdx")
        assert headings(page) == [("T",)]
        assert texts(page) == ["# T\n\nbefore", "after"]
        assert_lines_hold_the_blocks(page)

    @pytest.mark.parametrize("statement", NO_TEXT.values(), ids=NO_TEXT.keys())
    def test_they_may_end_the_page(self, statement: str) -> None:
        assert texts(parse(f"text\n\n{statement}")) == ["text"]

    @pytest.mark.parametrize(
        "prose",
        [
            "import duties rose\nexport duties fell",
            "import the map, then calibrate.",
            "export your model to ONNX first.",
            "exports are listed below",
            "importing 'x' is slow",
            "{/* remark */} with words",
            "<b>bold</b> words",
            "words <Tabs>",
            "{frontMatter.title}",
        ],
    )
    def test_prose_is_text(self, prose: str) -> None:
        assert texts(parse(f"before\n\n{prose}\n\nafter\n")) == [f"before\n\n{prose}\n\nafter"]

    def test_a_statement_that_never_closes_takes_only_its_own_lines(self) -> None:
        assert texts(parse("export const a = {\n  b: 1,\n\nwords after\n\nmore words\n")) == [
            "words after\n\nmore words"
        ]

    def test_a_comment_that_never_closes_is_text(self) -> None:
        assert texts(parse("{/* open\n\nwords\n")) == ["{/* open\n\nwords"]

    def test_text_between_tags_is_kept_with_its_heading_and_lines(self) -> None:
        page = parse(
            dedent("""\
            import Tabs from '@theme/Tabs';

            ## Install

            Choose.

            <Tabs>
            <TabItem value="apt">

            Use apt.

            ### Notes

            Slow.

            </TabItem>
            </Tabs>

            Done.
            """)
        )
        runs = [(s.path, run[0].start_line, join_blocks(run)) for s in page.sections for run in s.runs]
        assert runs == [
            (("Install",), 3, "## Install\n\nChoose."),
            (("Install",), 10, "Use apt."),
            (("Install", "Notes"), 12, "### Notes\n\nSlow."),
            (("Install", "Notes"), 19, "Done."),
        ]

    def test_tags_and_text_in_one_block_stay_together(self) -> None:
        source = '<TabItem value="a">\nwords inside\n</TabItem>'
        assert texts(parse(source)) == [source]

    @pytest.mark.parametrize("comment", ["<!-- x -->", "{/* x */}", "<A b={() => 1}>"])
    def test_a_long_line_of_comments_does_not_take_exponential_time(self, comment: str) -> None:
        assert texts(parse(comment * 200 + " words\n")) == [comment * 200 + " words"]


def test_a_page_with_half_a_character_is_refused_with_its_line() -> None:
    with pytest.raises(PageError, match=r"^line 3: holds half a character \(a lone surrogate\)$"):
        parse("a\n\nb \ud800\n", "a.md")


def test_two_thousand_brackets_are_text() -> None:
    brackets = "[" * 2_000 + "a" + "]" * 2_000
    page = parse(f"# {brackets}\n\n{brackets}\n", "a.md")
    assert page.sections[0].path == ("[" * 500,)
    assert page.sections[0].runs[0][-1].text == brackets

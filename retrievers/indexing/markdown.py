"""A Docusaurus page (Markdown or MDX) as sections with line numbers. Pure; parsed by markdown-it, not by pattern."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Any

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.front_matter import front_matter_plugin

from retrievers.text.quoting import quoted

IMPORT = r"""import\s+(?:[\w$*{][^'";]*?\bfrom\s*)?["'][^"'\n]+["'];?\s*"""
EXPORT = r"export\s+(?:default|const|let|var|function|async|class|\{|\*).*"
STATEMENTS = re.compile(f"(?:{IMPORT})+(?:{EXPORT})?|{EXPORT}", re.DOTALL)
STRING = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`""")
COMMENT = r"\{/\*(?:(?!\*/\}).)*\*/\}"
COMMENT_END = "*/}"
# A tag, not an <https://...> or <me@...> link.
TAG = r"</?[A-Za-z](?![^\s<>]*[:@])(?:=>|[^<>])*>"
TAGS_ONLY = re.compile(rf"({TAG}|<!--(?:(?!-->).)*-->|{COMMENT}|\s)+", re.DOTALL)
NUMBER_PREFIX = re.compile(
    r"^(?!\d+[-_.]\d)\d+\s*[-_.]+\s*(?=[^-_.\s])"
)  # Docusaurus drops `01-` from addresses, not a date or version
TEXT = frozenset({"text", "text_special", "code_inline", "softbreak", "hardbreak"})
# Characters of a heading that are read; every chunk under it repeats them.
LONGEST_HEADING = 500
HEADING_ID = re.compile(r"\s*\{#[^}]*\}\s*$")
# Characters of a front matter.
MOST_CHARACTERS = 32_768
# Characters of a title, slug, id or tag, which every chunk of the page repeats.
LONGEST = 1_000
LARGEST = 2**53
OPENING = re.compile(r"---[ \t]*\n")
NOTHING = ("", "~", "null", "Null", "NULL")
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,2})?", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """A top-level block of a page, or a piece of one, verbatim. Lines are 1-based and inclusive."""

    text: str
    start_line: int
    end_line: int
    continues_word: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class PageSection:
    """Heading with the text under it, up to the next heading.

    Attributes:
        path: The headings from the page's top down to this one; empty for what precedes the first heading.
        runs: The blocks, in runs that are contiguous in the source (MDX statements and tags part them).
    """

    path: tuple[str, ...]
    runs: tuple[tuple[Block, ...], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """A parsed page.

    Attributes:
        file_path: Path of the file, relative to the docs folder, with forward slashes.
        source_url: Its address on the site, e.g. `/docs/module-1-ros2/topics`.
        text: The whole source, with line feeds as its only line ends.
        ids: Ids of the elements of an HTML page; empty for Markdown.
        origins: For each line of `text` the first and the last line of the file that it comes from (HTML), or the
            page (PDF); empty where `text` has the lines of the file.
        paged: True where `origins` are pages.
        blank_pages: Pages of a PDF that have no text.
    """

    file_path: str
    source_url: str
    title: str
    tags: tuple[str, ...]
    sidebar_position: float | None
    text: str
    sections: tuple[PageSection, ...]
    ids: frozenset[str] = frozenset()
    origins: tuple[tuple[int, int], ...] = ()
    paged: bool = False
    blank_pages: tuple[int, ...] = ()

    def location(self, start: int, end: int) -> dict[str, Any]:
        """Return the place in the file, as fields of a chunk, of the lines `start` to `end` of the text."""
        first, last = (self.origins[start - 1][0], self.origins[end - 1][1]) if self.origins else (start, end)
        return {"page_number": first} if self.paged else {"start_line": first, "end_line": last}

    def line_at(self, origin: int) -> int:
        """Return the first line of the text that comes from a line or page of the file, or from behind it."""
        return 1 + bisect_left(self.origins, (origin,)) if self.origins else origin


def parse_page(text: str, file_path: str, base_url: str = "/docs") -> Page:
    """Parse one page.

    Args:
        text: The source of the page.
        file_path: Its path relative to the docs folder; it gives the address where the front matter has no `slug`.
        base_url: Start of the address.

    Raises:
        PageError: The front matter is broken, or the page has no content.
    """
    # One kind of line end, so that line numbers and the text of chunks do not depend on the system.
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    _check_characters(text)
    tokens = page_tokens(text)
    content = next((token.content for token in tokens if token.type == "front_matter"), None)
    matter = read_front_matter(content, text)
    # splitlines() splits at more characters than Markdown does.
    sections = tuple(_sections(tokens, text.split("\n")))
    if not sections:
        raise PageError("the page has no content")
    return Page(
        file_path=file_path,
        source_url=page_address(file_path, matter.slug, base_url, matter.page_id),
        title=matter.title or _first_heading(tokens) or _file_title(file_path),
        tags=matter.tags,
        sidebar_position=matter.sidebar_position,
        text=text,
        sections=sections,
    )


def page_address(file_path: str, slug: str | None, base_url: str, page_id: str | None = None) -> str:
    """Return the address that Docusaurus gives a page, without a slash at its end.

    Number prefixes are dropped; `index`, `README` and the folder's own name mean the folder. A slug that begins
    with `/` replaces the whole path; another one starts at the folder, as does the front matter's id without a slug.
    """
    *folders, name = PurePosixPath(file_path).with_suffix("").parts
    is_index = name.lower() in ("index", "readme", *(folder.lower() for folder in folders[-1:]))
    last = slug or ("" if is_index else page_id or NUMBER_PREFIX.sub("", name))
    path = last if last.startswith("/") else "/".join([*(NUMBER_PREFIX.sub("", part) for part in folders), last])
    return (base_url.rstrip("/") + normpath("/" + path.strip("/"))).rstrip("/") or "/"


def heading_text(inline: Token) -> str:
    """Convert a heading to plain text: no code ticks, links or Docusaurus `{#id}`."""
    children = inline.children or []
    text = "".join(c.content or " " for c in children if c.type in TEXT)
    return " ".join(HEADING_ID.sub("", text).split())


def _check_characters(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise PageError(f"line {line}: holds half a character (a lone surrogate)") from None


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    # Link definitions are text of the page: without it they have no token.
    options = {"inline_definitions": True}
    parser = MarkdownIt("commonmark", options).enable("table").use(front_matter_plugin)
    # Only headings are parsed inside.
    return parser.disable(["inline", "text_join"])


def page_tokens(text: str) -> list[Token]:
    """Return the blocks of a page, with the inside of headings."""
    parser, references = _parser(), dict[str, Any]()
    tokens = parser.parse(text, references)
    for heading, inline in pairwise(tokens):
        if heading.type == "heading_open":
            inline.children = []
            # Parsing the inside of all text would take most of the time, and chunks keep it verbatim.
            parser.inline.parse(inline.content[:LONGEST_HEADING], parser, references, inline.children)
    return tokens


def _first_heading(tokens: Sequence[Token]) -> str:
    return next((heading_text(following) for token, following in _top_level(tokens) if token.tag == "h1"), "")


def _file_title(file_path: str) -> str:
    return NUMBER_PREFIX.sub("", PurePosixPath(file_path).stem).replace("-", " ")


def _sections(tokens: Sequence[Token], lines: Sequence[str]) -> Iterator[PageSection]:
    path: list[tuple[int, str]] = []
    runs: list[list[Block]] = [[]]
    mdx, statement_end = MdxLines(lines), 0
    for token, following in _top_level(tokens):
        block = _block(token, lines)
        if token.type == "paragraph_open" and block.start_line > statement_end:
            statement_end = mdx.statement_end(block.start_line, block.end_line)
        no_text = block.start_line <= statement_end or token.type == "front_matter" or _is_tags(token, block.text)
        if token.type == "heading_open" and not no_text:
            yield from _section(path, runs)
            level = int(token.tag[1])
            # A heading closes all headings of its level and below.
            path = [(n, text) for n, text in path if n < level]
            path.append((level, heading_text(following)))
            runs = [[]]
        if no_text:
            runs.append([])
        else:
            runs[-1] += [block] if block.text.strip() else []
    yield from _section(path, runs)


def _section(path: Sequence[tuple[int, str]], runs: Sequence[Sequence[Block]]) -> Iterator[PageSection]:
    filled = tuple(tuple(run) for run in runs if run)
    only_heading = bool(path) and len(filled) == 1 and len(filled[0]) == 1
    if filled and not only_heading:
        yield PageSection(path=tuple(text for _, text in path if text), runs=filled)


def _top_level(tokens: Sequence[Token]) -> Iterator[tuple[Token, Token]]:
    for index, token in enumerate(tokens):
        if token.level == 0 and token.map and token.nesting >= 0:
            yield token, tokens[min(index + 1, len(tokens) - 1)]


def _block(token: Token, lines: Sequence[str]) -> Block:
    start, end = token.map or [0, 0]
    # markdown-it counts blank lines after some blocks to the block.
    while end > start + 1 and not lines[end - 1].strip():
        end -= 1
    return Block(text="\n".join(lines[start:end]), start_line=start + 1, end_line=end)


def _is_tags(token: Token, text: str) -> bool:
    return token.type in ("paragraph_open", "html_block") and is_tags(text)


def is_tags(text: str) -> bool:
    """Return True if a block consists of tags and comments alone."""
    return TAGS_ONLY.fullmatch(text) is not None


class MdxLines:
    """Lines of a page, to find the end of a statement that continues over blank lines."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines

    def statement_end(self, start: int, end: int) -> int:
        """Return the last line of the import, export or comment that starts a block, over blank lines too; else 0.

        Args:
            start: First line of the block, 1-based.
            end: Its last line.
        """
        first = self._lines[start - 1]
        if first.startswith("{/*"):
            return self._comment_end(start)
        if not first.startswith(("import", "export")):
            return 0
        return self._closed(start, end) if STATEMENTS.fullmatch("\n".join(self._lines[start - 1 : end])) else 0

    def _comment_end(self, start: int) -> int:
        """Return the line on which a comment ends, if no text follows it there; else 0."""
        following = bisect_left(self._comment_ends, start)
        for number in self._comment_ends[following : following + 2]:
            line = self._lines[number - 1]
            end = line.find(COMMENT_END, 3 if number == start else 0)
            if end >= 0:
                return 0 if line[end + 3 :].strip(" \t") else number
        return 0

    def _closed(self, start: int, end: int) -> int:
        """Return the first line from `end` on where all brackets since `start` are closed; `end` if there is none."""
        number = end
        while number < len(self._depths):
            if self._depths[number] <= self._depths[start - 1]:
                return number
            number = self._next_lower[number]
        return end

    @cached_property
    def _comment_ends(self) -> list[int]:
        return [number for number, line in enumerate(self._lines, 1) if COMMENT_END in line]

    @cached_property
    def _depths(self) -> list[int]:
        """Return the number of open brackets after each line; 0 before the first."""
        codes = (STRING.sub("", line) for line in self._lines)
        opened = (sum(code.count(c) for c in "([{") - sum(code.count(c) for c in ")]}") for code in codes)
        return [0, *accumulate(opened)]

    @cached_property
    def _next_lower(self) -> list[int]:
        """For each line the next one with fewer open brackets; the number of lines + 1 where there is none."""
        depths = self._depths
        following = [len(depths)] * len(depths)
        waiting: list[int] = []
        for number, depth in enumerate(depths):
            while waiting and depths[waiting[-1]] > depth:
                following[waiting.pop()] = number
            waiting.append(number)
        return following


# Front matter


class PageError(ValueError):
    """A page cannot be read as Docusaurus Markdown; the text says where and why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FrontMatter:
    """Front matter of a page."""

    title: str | None
    slug: str | None
    page_id: str | None
    tags: tuple[str, ...]
    sidebar_position: float | None


def read_front_matter(content: str | None, text: str) -> FrontMatter:
    """Read a front matter.

    Args:
        content: Text between its lines of dashes; None without any.
        text: The whole page.

    Raises:
        PageError: It is not closed, too long, no YAML, or holds a value of another kind than expected.
    """
    if content is None and OPENING.match(text):
        raise PageError("line 1: the front matter is not closed by a line of three dashes")
    matter = _mapping(content or "")
    return FrontMatter(
        title=_string(matter, "title"),
        slug=_string(matter, "slug"),
        page_id=_string(matter, "id"),
        tags=_tags(matter),
        sidebar_position=_position(matter),
    )


def _mapping(content: str) -> Mapping[str, Any]:
    if len(content) > MOST_CHARACTERS:
        raise PageError(f"the front matter has {len(content):,} characters; expected at most {MOST_CHARACTERS:,}")
    try:
        # As written: 3.10, yes and 2024-01-02 stay text.
        matter = yaml.load(content, Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 2}: " if mark else ""
        raise PageError(f"{line}the front matter is not valid YAML: {getattr(error, 'problem', error)}") from error
    except RecursionError as error:
        raise PageError("line 2: the front matter is nested too deeply") from error
    if matter is not None and not isinstance(matter, dict):
        raise PageError(f"line 2: the front matter must be a mapping, got {type(matter).__name__}")
    return {key: value for key, value in (matter or {}).items() if value not in NOTHING}


def _string(matter: Mapping[str, Any], key: str) -> str | None:
    value = matter.get(key)
    return None if value is None else _text(key, value)


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise PageError(f"front matter: {key} must be text, got {quoted(value)}")
    if len(value) > LONGEST:
        raise PageError(f"front matter: {key} has {len(value):,} characters; expected at most {LONGEST:,}")
    if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
        raise PageError(f"front matter: {key} holds half a character (a lone surrogate): {quoted(value)}")
    return value


def _tags(matter: Mapping[str, Any]) -> tuple[str, ...]:
    value = matter.get("tags", [])
    if not isinstance(value, list):
        raise PageError(f"front matter: tags must be a list, got {quoted(value)}")
    return tuple(_tag(number, tag) for number, tag in enumerate(value))


def _tag(number: int, tag: Any) -> str:
    label = tag.get("label") if isinstance(tag, dict) else tag
    if not isinstance(label, str) or not label.strip():
        raise PageError(f"front matter: tags.{number} must be text or have a label, got {quoted(tag)}")
    return _text(f"tags.{number}", label)


def _position(matter: Mapping[str, Any]) -> float | None:
    value = matter.get("sidebar_position")
    if value is None:
        return None
    short = isinstance(value, str) and len(value) <= 40
    if not short or not NUMBER.fullmatch(value) or abs(float(value)) > LARGEST:
        raise PageError(f"front matter: sidebar_position must be a number, got {quoted(value)}")
    return float(value) if "." in value or "e" in value.lower() else int(value)

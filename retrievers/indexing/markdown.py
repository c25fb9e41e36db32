"""A Docusaurus page (Markdown or MDX) as sections with line numbers. Pure; parsed by markdown-it, not by pattern."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Annotated, Any

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.front_matter import front_matter_plugin
from pydantic import BaseModel, BeforeValidator, ConfigDict, StringConstraints, ValidationError

from retrievers.text.shown import quoted

IMPORT = r"""import\s+(?:[\w$*{][^'";]*?\bfrom\s*)?["'][^"'\n]+["'];?\s*"""
EXPORT = r"export\s+(?:default|const|let|var|function|async|class|\{|\*).*"
COMMENT = r"\{/\*(?:(?!\*/\}).)*\*/\}"
# A tag, not an <https://...> or <me@...> link.
TAG = r"</?[A-Za-z](?![^\s<>]*[:@])(?:=>|[^<>])*>"
# Paragraphs of MDX that are no text: tags and comments, statements.
NO_TEXT = re.compile(rf"(?:{TAG}|<!--(?:(?!-->).)*-->|{COMMENT}|\s)+|(?:{IMPORT})+(?:{EXPORT})?|{EXPORT}", re.DOTALL)
# Docusaurus drops `01-` from addresses, not a date or version.
NUMBER_PREFIX = re.compile(r"^(?!\d+[-_.]\d)\d+\s*[-_.]+\s*(?=[^-_.\s])")
TEXT = frozenset({"text", "text_special", "code_inline", "softbreak", "hardbreak"})
# Characters of a heading that are read; every chunk under it repeats them.
LONGEST_HEADING = 500
HEADING_ID = re.compile(r"\s*\{#[^}]*\}\s*$")
NOTHING = ("", "~", "null", "Null", "NULL")


class PageError(ValueError):
    """A page cannot be read; the text says where and why."""


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
        origins: For each line of `text` the page that it comes from (PDF); empty where it has no place in the file
            (HTML); None where `text` has the lines of the file.
        row: Of a row of a dataset what its chunks have in common, in place of what file and address tell.
    """

    file_path: str
    source_url: str
    title: str
    text: str
    sections: tuple[PageSection, ...]
    tags: tuple[str, ...] = ()
    sidebar_position: float | None = None
    origins: tuple[int, ...] | None = None
    row: Mapping[str, Any] | None = None

    @property
    def facts(self) -> Mapping[str, Any]:
        """What all chunks of the page have in common, as fields of a chunk.

        The id of a document is its path, of Markdown without suffix: guide.md and guide.pdf are two documents. Its
        module is the first folder, its chapter the second, each its name where there is none.
        """
        if self.row:
            return self.row
        file = PurePosixPath(self.file_path)
        bare, folders = file.with_suffix(""), file.parts[:-1]
        return {
            "source_url": self.source_url,
            "title": self.title,
            "tags": self.tags,
            "sidebar_position": self.sidebar_position,
            "file_path": self.file_path,
            "source_document_id": str(bare) if file.suffix.lower() in ("", ".md", ".mdx") else self.file_path,
            "module": folders[0] if folders else bare.name,
            "chapter": folders[1] if len(folders) > 1 else bare.name,
        }

    def location(self, start: int, end: int) -> dict[str, Any]:
        """Return the place in the file, as fields of a chunk, of the lines `start` to `end` of the text."""
        if self.origins is None:
            return {"start_line": start, "end_line": end}
        return {"page_number": self.origins[start - 1]} if self.origins else {}


Tag = Annotated[
    str,
    BeforeValidator(lambda tag: tag.get("label", tag) if isinstance(tag, dict) else tag),
    StringConstraints(pattern=r"\S"),
]
"""The name of a tag: itself, or its label."""


class FrontMatter(BaseModel):
    """Front matter of a page; unknown keys are left alone."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    title: str | None = None
    slug: str | None = None
    id: str | None = None
    tags: list[Tag] = []
    sidebar_position: int | float | None = None


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
    tokens = page_tokens(text)
    content = next((token.content for token in tokens[:1] if token.type == "front_matter"), None)
    if content is None and re.match(r"---[ \t]*\n", text):
        raise PageError("line 1: the front matter is not closed by a line of three dashes")
    matter = read_front_matter(content or "")
    # splitlines() splits at more characters than Markdown does.
    sections = tuple(_sections(tokens, text.split("\n")))
    if not sections:
        raise PageError("the page has no content")
    top = next((heading_text(following) for token, following in _top_level(tokens) if token.tag == "h1"), "")
    return Page(
        file_path=file_path,
        source_url=page_address(file_path, matter.slug, base_url, matter.id),
        title=matter.title or top or NUMBER_PREFIX.sub("", PurePosixPath(file_path).stem).replace("-", " "),
        tags=tuple(matter.tags),
        sidebar_position=matter.sidebar_position,
        text=text,
        sections=sections,
    )


def read_front_matter(content: str) -> FrontMatter:
    """Read the text between the lines of dashes.

    Raises:
        PageError: It is no YAML, or holds a value of another kind than expected.
    """
    try:
        # As written: 3.10, yes and 2024-01-02 stay text.
        matter = yaml.load(content, Loader=yaml.BaseLoader) or {}
        is_mapping = isinstance(matter, dict)
        return FrontMatter.model_validate(
            {k: v for k, v in matter.items() if v not in NOTHING} if is_mapping else matter
        )
    except ValidationError as error:
        fault = error.errors()[0]
        name = ".".join(["front matter", *map(str, fault["loc"])])
        raise PageError(f"{name}: {fault['msg']}, got {quoted(fault['input'])}") from None
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 2}: " if mark else ""
        raise PageError(f"{line}the front matter is not valid YAML: {getattr(error, 'problem', error)}") from None


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
    text = "".join(c.content or " " for c in inline.children or [] if c.type in TEXT)
    return " ".join(HEADING_ID.sub("", text).split())


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


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    # Link definitions are text of the page: without the option they have no token.
    parser = MarkdownIt("commonmark", {"inline_definitions": True}).enable("table").use(front_matter_plugin)
    return parser.disable(["inline", "text_join"])


def _top_level(tokens: Sequence[Token]) -> Iterator[tuple[Token, Token]]:
    """Yield the tokens that open a block of the page, each with the one behind it."""
    for token, following in pairwise([*tokens, *tokens[-1:]]):
        if token.level == 0 and token.map and token.nesting >= 0:
            yield token, following


def _sections(tokens: Sequence[Token], lines: Sequence[str]) -> Iterator[PageSection]:
    path: list[tuple[int, str]] = []
    runs: list[list[Block]] = [[]]
    for token, following in _top_level(tokens):
        block = _block(token, lines)
        is_code = token.type in ("paragraph_open", "html_block") and NO_TEXT.fullmatch(block.text)
        if is_code or token.type == "front_matter":
            runs.append([])
            continue
        if token.type == "heading_open":
            yield from _section(path, runs)
            level = int(token.tag[1])
            # A heading closes all headings of its level and below.
            path = [*((n, text) for n, text in path if n < level), (level, heading_text(following))]
            runs = [[]]
        runs[-1] += [block] if block.text.strip() else []
    yield from _section(path, runs)


def _section(path: Sequence[tuple[int, str]], runs: Sequence[Sequence[Block]]) -> Iterator[PageSection]:
    filled = tuple(tuple(run) for run in runs if run)
    only_heading = bool(path) and len(filled) == 1 and len(filled[0]) == 1
    if filled and not only_heading:
        yield PageSection(path=tuple(text for _, text in path if text), runs=filled)


def _block(token: Token, lines: Sequence[str]) -> Block:
    start, end = token.map or [0, 0]
    # markdown-it counts blank lines after some blocks to the block.
    while end > start + 1 and not lines[end - 1].strip():
        end -= 1
    return Block(text="\n".join(lines[start:end]), start_line=start + 1, end_line=end)

"""Parse a Docusaurus page (Markdown or MDX) into sections with line numbers. Pure. The parser is markdown-it."""

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
# Of MDX, and the label that MyST puts before what it names.
MDX_COMMENT = re.compile(r"\{/\*(?:(?!\*/\}).)*\*/\}", re.DOTALL)
COMMENT = rf"{MDX_COMMENT.pattern}|\([^()\n]+\)="
# A tag. Links such as <https://...> and <me@...> are none.
TAG = r"</?[A-Za-z](?![^\s<>]*[:@])(?:=>|[^<>])*>"
# Paragraphs that are no text: tags and comments, or statements.
NO_TEXT = re.compile(rf"(?:{TAG}|<!--(?:(?!-->).)*-->|{COMMENT}|\s)+|(?:{IMPORT})+(?:{EXPORT})?|{EXPORT}", re.DOTALL)
# Docusaurus drops `01-` from addresses, but not a date or version.
NUMBER_PREFIX = re.compile(r"^(?!\d+[-_.]\d)\d+\s*[-_.]+\s*(?=[^-_.\s])")
TEXT = frozenset({"text", "text_special", "code_inline", "softbreak", "hardbreak"})
# Most characters of a heading that are read. Every chunk under it repeats them.
LONGEST_HEADING = 500
HEADING_ID = re.compile(r"\s*\{#[^}]*\}\s*$")
NOTHING = ("", "~", "null", "Null", "NULL")


class PageError(ValueError):
    """A page cannot be read. The message says where and why."""


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
        path: The headings from the page's top down to this one; empty for the text before the first heading.
        runs: The blocks, in runs that are contiguous in the source. MDX statements and tags separate runs.
    """

    path: tuple[str, ...]
    runs: tuple[tuple[Block, ...], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """A parsed page.

    Attributes:
        file_path: Path of the file, relative to the docs folder, with forward slashes.
        source_url: Its address on the site, e.g. `/docs/module-1-ros2/topics`.
        text: The whole source. Its only line ends are line feeds.
        origins: For a PDF, the number of the page on which each line of `text` stands. Empty if lines of `text` have no
            place in the file (HTML). None if `text` has the lines of the file.
        start_line: Line of `text` on which the first heading or text stands. Front matter and imports are above it.
        row: For a row of a dataset, the fields that its chunks have in common. They replace what the file and the
            address tell.
    """

    file_path: str
    source_url: str
    title: str
    text: str
    sections: tuple[PageSection, ...]
    tags: tuple[str, ...] = ()
    sidebar_position: float | None = None
    origins: tuple[int, ...] | None = None
    start_line: int = 1
    row: Mapping[str, Any] | None = None

    @property
    def facts(self) -> Mapping[str, Any]:
        """The fields that all chunks of the page have in common.

        The id of a document is its path, without the suffix of Markdown: guide.md and guide.pdf are two documents. The
        module is the first folder, and the chapter is the second. If there is no such folder, each is the page's name.
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
        """Return the fields of a chunk that say where the lines `start` to `end` of the text stand in the file."""
        if self.origins is None:
            return {"start_line": start, "end_line": end}
        return {"page_number": self.origins[start - 1]} if self.origins else {}


Tag = Annotated[
    str,
    BeforeValidator(lambda tag: tag.get("label", tag) if isinstance(tag, dict) else tag),
    StringConstraints(pattern=r"\S"),
]
"""The name of a tag: the tag itself, or its label."""


class FrontMatter(BaseModel):
    """Front matter of a page. Unknown keys are ignored."""

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
        file_path: Its path relative to the docs folder. It gives the address if the front matter has no `slug`.
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
    begins = [token.map[0] + 1 for token, _ in _top_level(tokens) if token.type == "heading_open" and token.map][:1]
    begins.append(sections[0].runs[0][0].start_line)
    top = next((heading_text(following) for token, following in _top_level(tokens) if token.tag == "h1"), "")
    return Page(
        file_path=file_path,
        source_url=page_address(file_path, matter.slug, base_url, matter.id),
        title=matter.title or top or NUMBER_PREFIX.sub("", PurePosixPath(file_path).stem).replace("-", " "),
        tags=tuple(matter.tags),
        sidebar_position=matter.sidebar_position,
        text=text,
        sections=sections,
        start_line=min(begins),
    )


def read_front_matter(content: str) -> FrontMatter:
    """Read the front matter, which is the text between the two lines of dashes.

    Raises:
        PageError: The text is no YAML, or holds a value of another kind than expected.
    """
    try:
        # As written: 3.10, yes and 2024-01-02 stay text.
        matter = yaml.load(content, Loader=yaml.BaseLoader) or {}
        if not isinstance(matter, dict):
            raise PageError(f"line 1: expected front matter (name: value), got {quoted(matter)}; write a rule as ***")
        return FrontMatter.model_validate({key: value for key, value in matter.items() if value not in NOTHING})
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

    Number prefixes are dropped. A file named `index`, `README` or like its folder has the address of the folder. A slug
    that begins with `/` replaces the whole path. Any other slug starts at the folder. Without a slug, the id in the
    front matter does.
    """
    *folders, name = PurePosixPath(file_path).with_suffix("").parts
    is_index = name.lower() in ("index", "readme", *(folder.lower() for folder in folders[-1:]))
    last = slug or ("" if is_index else page_id or NUMBER_PREFIX.sub("", name))
    path = last if last.startswith("/") else "/".join([*(NUMBER_PREFIX.sub("", part) for part in folders), last])
    return (base_url.rstrip("/") + normpath("/" + path.strip("/"))).rstrip("/") or "/"


def heading_text(inline: Token) -> str:
    """Convert a heading to plain text, without code ticks, links and the `{#id}` of Docusaurus."""
    text = "".join(c.content or " " for c in inline.children or [] if c.type in TEXT)
    return " ".join(HEADING_ID.sub("", MDX_COMMENT.sub("", text)).split())


def page_tokens(text: str) -> list[Token]:
    """Return the tokens of a page's blocks. Only headings have the tokens of their text."""
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
    # Link definitions are part of the page's text. They have a token only with this option.
    parser = MarkdownIt("commonmark", {"inline_definitions": True}).enable("table").use(front_matter_plugin)
    return parser.disable(["inline", "text_join"])


def _top_level(tokens: Sequence[Token]) -> Iterator[tuple[Token, Token]]:
    """Yield the tokens that open a block of the page, each with the token behind it."""
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
            # A heading ends all sections of its level and below.
            path = [*((n, text) for n, text in path if n < level), (level, heading_text(following))]
            runs = [[]]
        runs[-1] += [block] if block.text.strip() else []
    yield from _section(path, runs)


def _section(path: Sequence[tuple[int, str]], runs: Sequence[Sequence[Block]]) -> Iterator[PageSection]:
    filled = tuple(tuple(run) for run in runs if run)
    # A heading alone, on a page or before a tag, is no text; it stands in the path.
    filled = filled[1:] if path and filled and len(filled[0]) == 1 else filled
    if filled:
        yield PageSection(path=tuple(text for _, text in path if text), runs=filled)


def _block(token: Token, lines: Sequence[str]) -> Block:
    start, end = token.map or [0, 0]
    # To some blocks markdown-it adds the blank lines after them.
    while end > start + 1 and not lines[end - 1].strip():
        end -= 1
    return Block(text="\n".join(lines[start:end]), start_line=start + 1, end_line=end)

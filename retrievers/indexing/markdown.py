"""A Docusaurus page (Markdown or MDX) as sections with line numbers. Pure; parsed by markdown-it, not by pattern."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Any

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.front_matter import front_matter_plugin

NUMBER_PREFIX = re.compile(
    r"^(?!\d+[-_.]\d)\d+\s*[-_.]+\s*(?=[^-_.\s])"
)  # Docusaurus drops `01-` from addresses, not a date or version
MDX_IMPORT = r"""import\s+(?:[\w$*{][^'";]*?\bfrom\s*)?["'][^"'\n]+["'];?\s*"""
MDX_EXPORT = r"export\s+(?:default|const|let|var|function|async|class|\{|\*).*"
MDX_STATEMENTS = re.compile(f"(?:{MDX_IMPORT})+(?:{MDX_EXPORT})?|{MDX_EXPORT}", re.DOTALL)
MDX_STRING = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`""")
MDX_COMMENT = r"\{/\*(?:(?!\*/\}).)*\*/\}"
MDX_COMMENT_LINES = re.compile(MDX_COMMENT + r"[ \t]*(?=\n|$)", re.DOTALL)
MDX_TAG = r"</?[A-Za-z](?![^\s<>]*[:@])(?:=>|[^<>])*>"  # a tag, not an <https://...> or <me@...> link
MDX_TAGS_ONLY = re.compile(rf"({MDX_TAG}|<!--(?:(?!-->).)*-->|{MDX_COMMENT}|\s)+", re.DOTALL)
FRONT_MATTER_OPENING = re.compile(r"---[ \t]*\n")
YAML_NULL = ("", "~", "null", "Null", "NULL")
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,2})?", re.ASCII)
HEADING_ID = re.compile(r"\s*\{#[^}]*\}\s*$")


class PageError(ValueError):
    """A page cannot be read as Docusaurus Markdown; the text says where and why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """A top-level block of a page, or a piece of one, verbatim. Lines are 1-based and inclusive."""

    text: str
    start_line: int
    end_line: int
    continues_word: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A heading with what stands under it up to the next heading.

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
        file_path: Where the file is, relative to the docs folder, with forward slashes.
        source_url: Its address on the site, e.g. `/docs/module-1-ros2/topics`.
        text: The whole source, with line feeds as its only line ends.
    """

    file_path: str
    source_url: str
    title: str
    tags: tuple[str, ...]
    sidebar_position: float | None
    text: str
    sections: tuple[Section, ...]


def parse_page(text: str, file_path: str, base_url: str = "/docs") -> Page:
    """Parse one page.

    Args:
        text: The source of the page.
        file_path: Its path relative to the docs folder; it gives the address where the front matter has no `slug`.
        base_url: What the address begins with.

    Raises:
        PageError: The front matter is broken, or the page has no content.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    tokens = _parser().parse(text)
    matter = _front_matter(tokens, text)
    title = _title(matter, tokens, file_path)
    sections = tuple(_sections(tokens, text.split("\n")))  # splitlines() knows more line ends than Markdown does
    if not sections:
        raise PageError("the page has no content")
    return Page(
        file_path=file_path,
        source_url=page_address(file_path, _string(matter, "slug"), base_url, _string(matter, "id")),
        title=title,
        tags=_tags(matter),
        sidebar_position=_position(matter),
        text=text,
        sections=sections,
    )


def page_address(file_path: str, slug: str | None, base_url: str, page_id: str | None = None) -> str:
    """The address that Docusaurus gives a page, without a slash at its end.

    Number prefixes are dropped; `index`, `README` and the folder's own name stand for the folder. A slug that begins
    with `/` replaces the whole path; another one is taken from the folder, as is the front matter's id for want of one.
    """
    *folders, name = PurePosixPath(file_path).with_suffix("").parts
    is_index = name.lower() in ("index", "readme", *(folder.lower() for folder in folders[-1:]))
    last = slug or ("" if is_index else page_id or NUMBER_PREFIX.sub("", name))
    path = last if last.startswith("/") else "/".join([*(NUMBER_PREFIX.sub("", part) for part in folders), last])
    return (base_url.rstrip("/") + normpath("/" + path.strip("/"))).rstrip("/") or "/"


def heading_text(inline: Token) -> str:
    """A heading as plain text: no code ticks, links or Docusaurus `{#id}`."""
    children = inline.children or []
    text = "".join(c.content or " " for c in children if c.type in ("text", "code_inline", "softbreak", "hardbreak"))
    return " ".join(HEADING_ID.sub("", text).split())


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    options = {"inline_definitions": True}  # link definitions are text of the page: without it they have no token
    return MarkdownIt("commonmark", options).enable("table").use(front_matter_plugin)


def _front_matter(tokens: Sequence[Token], text: str) -> dict[str, Any]:
    token = next((t for t in tokens if t.type == "front_matter"), None)
    if token is None:
        if FRONT_MATTER_OPENING.match(text):
            raise PageError("line 1: the front matter is not closed by a line of three dashes")
        return {}
    try:
        matter = yaml.load(token.content, Loader=yaml.BaseLoader)  # as written: 3.10, yes and 2024-01-02 stay text
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 2}: " if mark else ""
        raise PageError(f"{line}the front matter is not valid YAML: {getattr(error, 'problem', error)}") from error
    if matter is not None and not isinstance(matter, dict):
        raise PageError(f"line 2: the front matter must be a mapping, got {type(matter).__name__}")
    return {key: value for key, value in (matter or {}).items() if value not in YAML_NULL}


def _string(matter: dict[str, Any], key: str) -> str | None:
    value = matter.get(key)
    if value is None or isinstance(value, str):
        return value
    raise PageError(f"front matter: {key} must be text, got {value!r}")


def _title(matter: dict[str, Any], tokens: Sequence[Token], file_path: str) -> str:
    given = _string(matter, "title")
    first = next((following for token, following in _top_level(tokens) if token.tag == "h1"), None)
    stem = NUMBER_PREFIX.sub("", PurePosixPath(file_path).stem)
    return given or (heading_text(first) if first else "") or stem.replace("-", " ")


def _tags(matter: dict[str, Any]) -> tuple[str, ...]:
    value = matter.get("tags", [])
    if not isinstance(value, list):
        raise PageError(f"front matter: tags must be a list, got {value!r}")
    labels = []
    for number, tag in enumerate(value):
        label = tag.get("label") if isinstance(tag, dict) else tag
        if not isinstance(label, str) or not label.strip():
            raise PageError(f"front matter: tags.{number} must be text or have a label, got {tag!r}")
        labels.append(label)
    return tuple(labels)


def _position(matter: dict[str, Any]) -> float | None:
    value = matter.get("sidebar_position")
    if value is None:
        return None
    if not isinstance(value, str) or not NUMBER.fullmatch(value):
        raise PageError(f"front matter: sidebar_position must be a number, got {value!r}")
    return float(value) if "." in value or "e" in value.lower() else int(value)


def _sections(tokens: Sequence[Token], lines: Sequence[str]) -> Iterator[Section]:
    path: list[tuple[int, str]] = []
    runs: list[list[Block]] = [[]]
    statement_end = 0
    for token, following in _top_level(tokens):
        block = _block(token, lines)
        if token.type == "paragraph_open" and block.start_line > statement_end:
            statement_end = _statement_end(block, lines)
        no_text = block.start_line <= statement_end or token.type == "front_matter" or _is_tags(token, block.text)
        if token.type == "heading_open" and not no_text:
            yield from _section(path, runs)
            level = int(token.tag[1])
            path = [(n, text) for n, text in path if n < level]
            path.append((level, heading_text(following)))
            runs = [[]]
        if no_text:
            runs.append([])
        else:
            runs[-1] += [block] if block.text.strip() else []
    yield from _section(path, runs)


def _section(path: Sequence[tuple[int, str]], runs: Sequence[Sequence[Block]]) -> Iterator[Section]:
    kept = tuple(tuple(run) for run in runs if run)
    only_heading = bool(path) and len(kept) == 1 and len(kept[0]) == 1
    if kept and not only_heading:
        yield Section(path=tuple(text for _, text in path if text), runs=kept)


def _top_level(tokens: Sequence[Token]) -> Iterator[tuple[Token, Token]]:
    for index, token in enumerate(tokens):
        if token.level == 0 and token.map and token.nesting >= 0:
            yield token, tokens[min(index + 1, len(tokens) - 1)]


def _block(token: Token, lines: Sequence[str]) -> Block:
    start, end = token.map or [0, 0]
    while end > start + 1 and not lines[end - 1].strip():
        end -= 1
    return Block(text="\n".join(lines[start:end]), start_line=start + 1, end_line=end)


def _is_tags(token: Token, text: str) -> bool:
    return token.type in ("paragraph_open", "html_block") and MDX_TAGS_ONLY.fullmatch(text) is not None


def _statement_end(block: Block, lines: Sequence[str]) -> int:
    """The last line of the MDX import, export or comment that begins with a block, over blank lines too; else 0."""
    rest = lines[block.start_line - 1 :]
    if block.text.startswith("{/*"):
        comment = MDX_COMMENT_LINES.match("\n".join(rest))
        return block.start_line + comment.group().count("\n") if comment else 0
    if not MDX_STATEMENTS.fullmatch(block.text):
        return 0
    depth = 0
    for number, line in enumerate(rest, block.start_line):
        code = MDX_STRING.sub("", line)
        depth += sum(code.count(c) for c in "([{") - sum(code.count(c) for c in ")]}")
        if number >= block.end_line and depth <= 0:
            return number
    return block.end_line

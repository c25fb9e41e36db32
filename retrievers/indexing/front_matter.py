"""The front matter of a page: title, slug, id, tags and position, as written and within bounds."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from retrievers.text.quoting import quoted

# Characters of a front matter.
MOST_CHARACTERS = 32_768
# Characters of a title, slug, id or tag, which every chunk of the page repeats.
LONGEST = 1_000
LARGEST = 2**53
OPENING = re.compile(r"---[ \t]*\n")
YAML_NULL = ("", "~", "null", "Null", "NULL")
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,2})?", re.ASCII)


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
    return {key: value for key, value in (matter or {}).items() if value not in YAML_NULL}


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

"""The source pages, to check against: where a text stands in its page, the page's metadata and its anchors."""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

from evals.errors import EvaluationError
from retrievers.indexing.chunking import SECTION_SEPARATOR, placement
from retrievers.indexing.markdown import Page, heading_text, page_address, page_tokens
from retrievers.indexing.pages import read_corpus
from retrievers.records import Chunk

WORD = re.compile(r"\S+")
HEADING_ID = re.compile(r"\{#([^}]+)\}\s*$")
ELEMENT_ID = re.compile(r"""\b(?:id|name)=["']([^"'\s]+)["']""")
NO_SLUG = re.compile(r"[^\w\- ]")
GAPS = re.compile(r"[-_]+")


@dataclass(frozen=True)
class SourcePage:
    """A page with its text normalised (every stretch of white space one space) and a way back to lines.

    Attributes:
        known: The facts that this kind of page can tell; all when left out.
    """

    page: Page
    known: Sequence[str] | None = None

    @cached_property
    def text(self) -> str:
        """The page's source, normalised."""
        return " ".join(word for _, words in self._lines for word in words)

    @cached_property
    def headings(self) -> frozenset[str]:
        """All headings of the page, and its title, which heads what precedes the first."""
        return frozenset([self.page.title, *(heading for section in self.page.sections for heading in section.path)])

    @cached_property
    def _anchors(self) -> frozenset[str]:
        return anchors_of(self.page)

    def has(self, fragment: str) -> bool:
        """Return True if a fragment of the page's address names a heading or another place in it."""
        return leads_to(fragment, self._anchors)

    def occurrences(self, text: str, from_line: int = 1) -> Iterator[range]:
        """Yield the lines (1-based) of every occurrence of a text from a line on, ignoring white space."""
        words = " ".join(text.split())
        start = self.text.find(words, self._offset_of(from_line)) if words else -1
        while start >= 0:
            yield range(self._line_at(start), self._line_at(start + len(words) - 1) + 1)
            start = self.text.find(words, start + 1)

    def facts(self, chunk: Chunk) -> dict[str, Any]:
        """Return the metadata that a chunk of the page should have, as far as the page shows it.

        Where the text stands more than once, the place that the chunk itself claims is preferred.
        """
        page = self.page
        document, module, chapter = placement(page.file_path)
        fragment = (chunk.source_url or "").partition("#")[2]
        facts: dict[str, Any] = {
            "source_url": f"{page.source_url}#{fragment}" if fragment and self.has(fragment) else page.source_url,
            "title": page.title,
            "tags": page.tags,
            "sidebar_position": page.sidebar_position,
            "file_path": page.file_path,
            "source_document_id": document,
            "module": module,
            "chapter": chapter,
        }
        claimed = chunk.page_number if page.paged else chunk.start_line
        lines = next(self.occurrences(chunk.text, page.line_at(claimed or 1)), None)
        # The text is not at the claimed place, so the first occurrence in the page counts.
        if lines is None or claimed not in page.location(lines[0], lines[-1]).values():
            lines = next(self.occurrences(chunk.text), None)
        if lines:
            section = self.section_at(lines[0])
            facts |= page.location(lines[0], lines[-1])
            facts["heading"] = section[-1] if section else page.title
            facts["section_path"] = SECTION_SEPARATOR.join(section) or page.title
        return facts if self.known is None else {name: facts[name] for name in self.known if name in facts}

    @cached_property
    def _lines(self) -> list[tuple[int, list[str]]]:
        split = ((number, WORD.findall(line)) for number, line in enumerate(self.page.text.split("\n"), 1))
        return [(number, words) for number, words in split if words]

    @cached_property
    def _offsets(self) -> list[int]:
        offsets, position = [], 0
        for _, words in self._lines:
            offsets.append(position)
            position += sum(map(len, words)) + len(words)
        return offsets

    def _offset_of(self, line: int) -> int:
        above = bisect_left(self._lines, line, key=lambda numbered: numbered[0])
        return self._offsets[above] if above < len(self._lines) else len(self.text)

    def _line_at(self, offset: int) -> int:
        return self._lines[bisect_right(self._offsets, offset) - 1][0]

    @cached_property
    def _starts(self) -> list[int]:
        return [section.runs[0][0].start_line for section in self.page.sections]

    def section_at(self, line: int) -> tuple[str, ...]:
        """Return the headings above a line, the outermost first."""
        # Sections are in the order of the page, so the last that starts above holds the line.
        above = bisect_right(self._starts, line)
        return self.page.sections[above - 1].path if above else ()


def without_fragment(url: str | None) -> str:
    """Return the address of the page that an address leads to; empty for none."""
    return (url or "").partition("#")[0]


class SourcePageError(EvaluationError):
    """A source page exists, but cannot be fetched or read."""


class Sources(Protocol):
    """Origin of source pages."""

    @property
    def faults(self) -> Sequence[str]:
        """Faults of the pages that cannot be read, as far as known, one line each."""
        ...

    def page_of(self, chunk: Chunk) -> SourcePage | None:
        """Return the page that a chunk names as its source, None when it does not exist.

        Raises:
            SourcePageError: It exists, but cannot be read.
        """


@dataclass(frozen=True)
class SourcePages:
    """The pages of a folder, by address and by file.

    Attributes:
        pages: Those that can be read.
        broken: Fault of each file that could not be read.
        base_url: Start of all addresses.
    """

    pages: Sequence[SourcePage]
    broken: Mapping[str, str] = field(default_factory=dict)
    base_url: str = "/docs"

    @classmethod
    def read(cls, folder: Path, base_url: str) -> "SourcePages":
        """Read the pages of a folder.

        Raises:
            IndexingError: The folder does not exist or holds no page.
        """
        corpus = read_corpus(folder, base_url)
        return cls([SourcePage(page) for page in corpus.pages], corpus.broken, base_url)

    @property
    def faults(self) -> Sequence[str]:
        """Faults of the pages that cannot be read."""
        return [f"{file}: {fault}" for file, fault in self.broken.items()]

    def page_of(self, chunk: Chunk) -> SourcePage | None:
        """Return the page that a chunk names as its source, by file if it names one, else by address.

        Raises:
            SourcePageError: It cannot be read.
        """
        page = self._by_file.get(chunk.file_path or "") or self._by_url.get(without_fragment(chunk.source_url))
        if page is None and (file := self._broken_file(chunk)):
            raise SourcePageError(f"{file}: {self.broken[file]}")
        return page

    def _broken_file(self, chunk: Chunk) -> str | None:
        if chunk.file_path in self.broken:
            return chunk.file_path
        return self._broken_by_url.get(without_fragment(chunk.source_url))

    @cached_property
    def _broken_by_url(self) -> Mapping[str, str]:
        """The addresses that pages have unless their front matter, which was not read, says otherwise."""
        return {page_address(file, None, self.base_url): file for file in self.broken}

    @cached_property
    def _by_url(self) -> Mapping[str, SourcePage]:
        return {page.page.source_url: page for page in self.pages}

    @cached_property
    def _by_file(self) -> Mapping[str, SourcePage]:
        return {page.page.file_path: page for page in self.pages}


def anchors_of(page: Page) -> frozenset[str]:
    """Return the anchors of a page: the ids of its elements, or of Markdown the slugs of its headings.

    A slug is formed as GitHub and Docusaurus form it; `{#id}` behind a heading takes its place, and a repeated one is
    numbered from 1.
    """
    if page.ids:
        return page.ids
    anchors = set(ELEMENT_ID.findall(page.text))
    counts: Counter[str] = Counter()
    for opening, inline in pairwise(page_tokens(page.text)):
        if opening.type == "heading_open":
            explicit = HEADING_ID.search(inline.content)
            slug = explicit[1] if explicit else NO_SLUG.sub("", heading_text(inline).lower()).replace(" ", "-")
            anchors.add(f"{slug}-{counts[slug]}" if counts[slug] else slug)
            counts[slug] += 1
    return frozenset(anchors)


def leads_to(fragment: str, anchors: frozenset[str]) -> bool:
    """Return True if a fragment names one of these anchors, or a passage by its text (`:~:text=`).

    Sites differ in the hyphens and underscores of a slug: a stretch of either counts as one hyphen.
    """
    if ":~:" in fragment:
        return True
    return _comparable(unquote(fragment)) in map(_comparable, anchors)


def _comparable(anchor: str) -> str:
    return GAPS.sub("-", anchor).strip("-")

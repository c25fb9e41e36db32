"""The source pages, of a folder or a site: where a text stands in its page, and the page's metadata."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeAlias

from evals.config.experiment import SourcesConfig
from evals.errors import EvaluationError
from retrievers.indexing.chunking import SECTION_SEPARATOR
from retrievers.indexing.markdown import Page, PageError, page_address, parse_page
from retrievers.indexing.pages import html_page, page_path, read_corpus
from retrievers.records import Chunk
from retrievers.text.charsets import charset

MOST_REDIRECTS = 4
# Metadata that a page of a site shows; tags, files and lines do not appear there.
OF_A_SITE = ("source_url", "title", "heading", "section_path")


@dataclass(frozen=True)
class SourcePage:
    """A page with its text normalised (every stretch of white space one space) and a way back to lines.

    Attributes:
        shows: Names of the facts that this kind of page can tell; all when left out.
    """

    page: Page
    shows: Sequence[str] | None = None

    @cached_property
    def text(self) -> str:
        """The page's source, normalised."""
        return " ".join(self.page.text.split())

    @cached_property
    def headings(self) -> frozenset[str]:
        """All headings of the page, and its title, which heads what precedes the first."""
        return frozenset([self.page.title, *(heading for section in self.page.sections for heading in section.path)])

    def occurrences(self, text: str) -> Iterator[range]:
        """Yield the lines (1-based) of every occurrence of a text, ignoring white space."""
        offsets, lines = self._words
        plain = " ".join(text.split())
        start = self.text.find(plain) if plain else -1
        while start >= 0:
            first, last = (bisect_right(offsets, at) - 1 for at in (start, start + len(plain) - 1))
            yield range(lines[first], lines[last] + 1)
            start = self.text.find(plain, start + 1)

    @cached_property
    def _words(self) -> tuple[list[int], list[int]]:
        """The offset in `text` at which each word begins, and the line on which it stands."""
        numbered = [(n, len(word)) for n, line in enumerate(self.page.text.split("\n"), 1) for word in line.split()]
        return [0, *accumulate(length + 1 for _, length in numbered)][:-1], [number for number, _ in numbered]

    def facts(self, chunk: Chunk) -> dict[str, Any]:
        """Return the metadata that a chunk of the page should have, as far as the page shows it.

        Where the text stands more than once, the place that the chunk itself claims is preferred. A fragment of its
        address is kept as it is.
        """
        page = self.page
        _, mark, fragment = (chunk.source_url or "").partition("#")
        facts: dict[str, Any] = {**page.facts, "source_url": f"{page.source_url}{mark}{fragment}"}
        claimed = chunk.page_number if page.origins else chunk.start_line
        places = [(lines[0], page.location(lines[0], lines[-1])) for lines in self.occurrences(chunk.text)]
        if places:
            line, location = next((place for place in places if claimed in place[1].values()), places[0])
            section = self.section_at(line) or (page.title,)
            facts |= location | {"heading": section[-1], "section_path": SECTION_SEPARATOR.join(section)}
        return facts if self.shows is None else {name: facts[name] for name in self.shows if name in facts}

    def section_at(self, line: int) -> tuple[str, ...]:
        """Return the headings above a line, the outermost first."""
        # Sections are in the order of the page, so the last that starts above holds the line.
        above = bisect_right(self.page.sections, line, key=lambda section: section.runs[0][0].start_line)
        return self.page.sections[above - 1].path if above else ()


def without_fragment(url: str | None) -> str:
    """Return the address of the page that an address leads to; empty for none."""
    return (url or "").partition("#")[0]


class SourcePageError(EvaluationError):
    """A source page exists, but cannot be fetched or read."""


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
        names = [name for name in (chunk.file_path, without_fragment(chunk.source_url)) if name]
        if page := next((self._readable[name] for name in names if name in self._readable), None):
            return page
        if fault := next((self._unreadable[name] for name in names if name in self._unreadable), None):
            raise SourcePageError(fault)
        return None

    @cached_property
    def _readable(self) -> Mapping[str, SourcePage]:
        by_url = {page.page.source_url: page for page in self.pages}
        return by_url | {page.page.file_path: page for page in self.pages}

    @cached_property
    def _unreadable(self) -> Mapping[str, str]:
        """Faults by file, and by the address that a page has unless its front matter, which was not read, differs."""
        faults = dict(zip(self.broken, self.faults, strict=True))
        return faults | {page_address(file, None, self.base_url): fault for file, fault in faults.items()}


@dataclass(frozen=True)
class WebPages:
    """Pages of some hosts, each fetched once, when it is first asked for.

    Attributes:
        hosts: The only hosts that are ever contacted, such as `docs.example.com` or `localhost:3000`.
        base_url: Address that completes relative ones.
        page_s: Seconds that the answer of a page may take.
        most_bytes: Largest size of a page.
    """

    hosts: Sequence[str]
    base_url: str
    page_s: float = 10.0
    most_bytes: int = 8 * 2**20
    _fetched: dict[str, SourcePage | SourcePageError | None] = field(default_factory=dict)

    @property
    def faults(self) -> Sequence[str]:
        """Faults of the pages that could not be read so far."""
        return [str(page) for page in self._fetched.values() if isinstance(page, SourcePageError)]

    def page_of(self, chunk: Chunk) -> SourcePage | None:
        """Return the page at a chunk's address; None when it has none, or it does not exist or is on another host.

        Raises:
            SourcePageError: It cannot be fetched or read.
        """
        url = without_fragment(chunk.source_url)
        if url and url not in self._fetched:
            self._fetched[url] = self._tried(url)
        page = self._fetched.get(url)
        if isinstance(page, SourcePageError):
            raise page
        return page

    def _tried(self, url: str) -> SourcePage | SourcePageError | None:
        import httpx

        from retrievers.net import TooLargeError, exchange

        try:
            address = httpx.URL(self.base_url).join(url)
            # Without the environment's proxies: the hosts that are contacted are those of the settings alone.
            with httpx.Client(trust_env=False) as client:
                for _ in range(MOST_REDIRECTS):
                    if address.scheme not in ("http", "https") or address.netloc.decode() not in self.hosts:
                        return None
                    request = client.build_request("GET", address)
                    answer = exchange(client, request, timeout_s=self.page_s, most_bytes=self.most_bytes)
                    if not answer.has_redirect_location:
                        break
                    address = address.join(answer.headers["location"])
            if answer.status_code in (404, 410):
                return None
            if not answer.is_success:
                raise PageError(f"answered {answer.status_code} {answer.reason_phrase}")
            text = answer.content.decode(charset(answer.charset_encoding), "replace")
            is_html = "html" in answer.headers.get("content-type", "")
            page = html_page(text, url) if is_html else parse_page(text, page_path(url), url)
            return SourcePage(page, OF_A_SITE)
        except httpx.InvalidURL:
            return None
        except (httpx.HTTPError, TooLargeError, PageError) as error:
            return SourcePageError(f"{url}: {str(error) or type(error).__name__}")


Sources: TypeAlias = SourcePages | WebPages
"""Origin of source pages."""


def open_sources(config: SourcesConfig) -> Sources | None:
    """Open the source pages that the settings name, None when they name none.

    Raises:
        IndexingError: The folder does not exist or holds no page.
    """
    if config.dir:
        return SourcePages.read(config.dir, config.base_url)
    return WebPages(config.http, config.base_url) if config.http else None

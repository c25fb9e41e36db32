"""Source pages of a folder or a site: the place of a text in its page, and the metadata of the page."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeAlias

from evals.config.experiment import SourcesConfig
from evals.errors import EvaluationError
from retrievers.indexing.markdown import Page, PageError, page_address, parse_page
from retrievers.indexing.pages import decoded_html, html_page, page_path, read_corpus
from retrievers.records import SECTION_SEPARATOR, Chunk

MOST_REDIRECTS = 4
# Seconds that a site may take for the answer of a page, and the largest size of the answer.
PAGE_S = 10.0
MOST_BYTES = 8 * 2**20
# Metadata that a page of a site shows. Tags, files and lines do not appear there.
OF_A_SITE = ("source_url", "title", "heading", "section_path")


@dataclass(frozen=True)
class SourcePage:
    """A page whose text can be searched: white space is normalised, and occurrences lead back to lines.

    Attributes:
        page: The page.
        shows: Names of the metadata that this kind of page shows; all when left out.
    """

    page: Page
    shows: Sequence[str] | None = None

    @cached_property
    def text(self) -> str:
        """The source of the page, with every stretch of white space as one space."""
        return " ".join(self.page.text.split())

    @cached_property
    def headings(self) -> frozenset[str]:
        """All headings of the page, and its title, which heads the text before the first heading."""
        return frozenset([self.page.title, *(heading for section in self.page.sections for heading in section.path)])

    def occurrences(self, text: str) -> Iterator[range]:
        """Yield the lines (from 1) of every occurrence of a text; white space may differ."""
        offsets, lines = self._words
        words = " ".join(text.split())
        start = self.text.find(words) if words else -1
        while start >= 0:
            first, last = (bisect_right(offsets, offset) - 1 for offset in (start, start + len(words) - 1))
            yield range(lines[first], lines[last] + 1)
            start = self.text.find(words, start + 1)

    @cached_property
    def _words(self) -> tuple[list[int], list[int]]:
        """The offset in `text` at which each word begins, and the line of each word."""
        numbered = [(n, len(word)) for n, line in enumerate(self.page.text.split("\n"), 1) for word in line.split()]
        return [0, *accumulate(length + 1 for _, length in numbered)][:-1], [number for number, _ in numbered]

    def facts(self, chunk: Chunk) -> dict[str, Any]:
        """Return the metadata that a chunk of the page should have, as far as the page shows it.

        If the text occurs more than once, the place is taken that agrees with most of what the chunk itself says:
        lines or page, heading, section path. A fragment of the chunk's address is kept.
        """
        page = self.page
        _, mark, fragment = (chunk.source_url or "").partition("#")
        facts: dict[str, Any] = {**page.facts, "source_url": f"{page.source_url}{mark}{fragment}"}
        places = [page.location(at[0], at[-1]) | self.section_at(at[0]) for at in self.occurrences(chunk.text)]
        if places:
            place = max(places, key=lambda place: sum(getattr(chunk, n) == fact for n, fact in place.items()))
            facts |= place
        return facts if self.shows is None else {name: facts[name] for name in self.shows if name in facts}

    def section_at(self, line: int) -> dict[str, Any]:
        """Return the heading above a line, and the section path, or the title if none is above it."""
        # Sections are in the order of the page, so the line is in the last section that starts above it.
        above = bisect_right(self.page.sections, line, key=lambda section: section.runs[0][0].start_line)
        path = (above and self.page.sections[above - 1].path) or (self.page.title,)
        return {"heading": path[-1], "section_path": SECTION_SEPARATOR.join(path)}


class SourcePageError(EvaluationError):
    """A source page exists, but cannot be fetched or read."""


Found: TypeAlias = "SourcePage | SourcePageError | None"
"""A page, or the reason why it cannot be read; None if there is no page."""


@dataclass(frozen=True)
class SourcePages:
    """Source pages of a folder or of a site.

    Attributes:
        pages: For a folder, all pages by address and by file. For a site, the pages that were asked for, by address.
        fetch: Fetches the page at an address of a site; None for a folder.
    """

    pages: dict[str, Found] = field(default_factory=dict)
    fetch: Callable[[str], Found] | None = None

    @classmethod
    def read(cls, folder: Path, base_url: str) -> "SourcePages":
        """Read the pages of a folder.

        Raises:
            IndexingError: The folder does not exist or holds no page.
        """
        corpus = read_corpus(folder, base_url)
        pages: dict[str, Found] = {}
        for file, fault in corpus.broken.items():
            # The front matter was not read. This is the address unless the front matter names another one.
            pages |= dict.fromkeys((page_address(file, None, base_url), file), SourcePageError(f"{file}: {fault}"))
        for page in corpus.pages:
            pages |= dict.fromkeys((page.source_url, page.file_path), SourcePage(page))
        return cls(pages)

    @property
    def faults(self) -> Sequence[str]:
        """Faults of the pages that could not be read so far."""
        return [*dict.fromkeys(str(page) for page in self.pages.values() if isinstance(page, SourcePageError))]

    def page_of(self, chunk: Chunk) -> SourcePage | None:
        """Return the page that a chunk names as its source, by file or else by address; None if there is no page.

        Raises:
            SourcePageError: The page cannot be fetched or read.
        """
        url = (chunk.source_url or "").partition("#")[0]  # a page has no fragment
        if self.fetch and url and url not in self.pages:
            self.pages[url] = self.fetch(url)
        page = self.pages.get(chunk.file_path or "") or self.pages.get(url)
        if isinstance(page, SourcePageError):
            raise page
        return page


def open_sources(config: SourcesConfig) -> SourcePages | None:
    """Open the source pages that the settings name; None if they name none.

    Raises:
        IndexingError: The folder does not exist or holds no page.
    """
    if config.dir:
        return SourcePages.read(config.dir, config.base_url)
    return SourcePages(fetch=partial(_fetch, config=config)) if config.http else None


def _fetch(url: str, config: SourcesConfig) -> Found:
    """Fetch a page of a site; None if it does not exist, or is on a host that the settings do not name."""
    import httpx

    from retrievers.net import TooLargeError, exchange

    def at_named_host(request: httpx.Request) -> None:
        if request.url.netloc.decode() not in config.http:
            raise httpx.UnsupportedProtocol("another host")

    # The environment's proxies are not used, so that only hosts of the settings are contacted.
    options: Any = {"trust_env": False, "follow_redirects": True, "event_hooks": {"request": [at_named_host]}}
    try:
        with httpx.Client(**options, max_redirects=MOST_REDIRECTS) as client:
            request = client.build_request("GET", httpx.URL(config.base_url).join(url))
            answer = exchange(client, request, timeout_s=PAGE_S, most_bytes=MOST_BYTES)
        if answer.status_code in (404, 410):
            return None
        if not answer.is_success:
            raise PageError(f"answered {answer.status_code} {answer.reason_phrase}")
        text = decoded_html(answer.content, answer.charset_encoding)
        is_html = "html" in answer.headers.get("content-type", "")
        page = html_page(text, url) if is_html else parse_page(text, page_path(url), url)
        return SourcePage(page, OF_A_SITE)
    except (httpx.InvalidURL, httpx.UnsupportedProtocol):
        return None
    except (httpx.HTTPError, TooLargeError, PageError) as error:
        return SourcePageError(f"{url}: {str(error) or type(error).__name__}")

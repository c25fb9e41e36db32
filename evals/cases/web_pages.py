"""Source pages over HTTP, from the named hosts only: HTML as its text and headings, Markdown as it is."""

import logging
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from evals.cases.pages import SourcePage, SourcePageError, SourcePages, Sources, without_fragment
from evals.config.experiment import SourcesConfig
from retrievers.indexing.markdown import Page, PageError, parse_page
from retrievers.indexing.pages import html_page, page_path
from retrievers.records import Chunk
from retrievers.text.charsets import charset
from retrievers.text.quoting import quoted
from retrievers.text.secrets import redacted

if TYPE_CHECKING:
    import httpx

# Seconds that a page may take, from connecting to its last byte, redirects included.
PAGE_S = 10.0
MOST_BYTES = 8 * 2**20
MAX_REDIRECTS = 3
# Pages in a row that a host does not send before it is not asked again.
GIVEN_UP_AFTER = 3
# Metadata that a fetched page shows; tags, files and lines do not appear on a site.
KNOWN = ("source_url", "title", "heading", "section_path")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WebPages:
    """Pages of some hosts, each fetched once, when it is first asked for.

    Attributes:
        hosts: The only hosts that are ever contacted, such as `docs.example.com` or `localhost:3000`.
        base_url: Address that completes relative ones.
        page_s: Seconds that a page may take.
        most_bytes: Largest size of a page.
    """

    hosts: Sequence[str]
    base_url: str
    page_s: float = PAGE_S
    most_bytes: int = MOST_BYTES
    _fetched: dict[str, SourcePage | SourcePageError | None] = field(default_factory=dict)
    _unanswered: Counter[str] = field(default_factory=Counter)

    @property
    def faults(self) -> Sequence[str]:
        """Faults of the pages that could not be read so far."""
        return [str(page) for page in self._fetched.values() if isinstance(page, SourcePageError)]

    def page_of(self, chunk: Chunk) -> SourcePage | None:
        """Return the page at a chunk's address; None when it does not exist or is on another host.

        Raises:
            SourcePageError: It cannot be fetched or read.
        """
        source_url = without_fragment(chunk.source_url)
        address = _joined(self.base_url, source_url)
        if address is None or urlsplit(address).netloc not in self.hosts:
            return None
        if address not in self._fetched:
            self._fetched[address] = self._tried(address, source_url)
        page = self._fetched[address]
        if isinstance(page, SourcePageError):
            raise page
        return page

    def _tried(self, address: str, source_url: str) -> SourcePage | SourcePageError | None:
        """Fetch the page, or return its fault; a host that failed repeatedly is not asked again."""
        from httpx import HTTPError, InvalidURL

        from retrievers.net import TooLargeError

        host = urlsplit(address).netloc
        try:
            if self._unanswered[host] >= GIVEN_UP_AFTER:
                raise PageError(f"not fetched, as {host} did not send the {GIVEN_UP_AFTER} pages before it")
            answer = self._fetch(address)
            # Only pages in a row count, so that a host with a few broken pages is still asked.
            self._unanswered[host] = 0
            return None if answer is None else SourcePage(_read(answer, source_url), KNOWN)
        except (HTTPError, TooLargeError) as error:
            self._unanswered[host] += 1
            fault = SourcePageError(f"{address}: cannot be fetched: {type(error).__name__}: {error}")
        except (PageError, InvalidURL) as error:
            fault = SourcePageError(f"{address}: {error}")
        log.warning("source page %s", fault)
        return fault

    def _fetch(self, address: str) -> "httpx.Response | None":
        """Return the answer of the last redirect; None where it is from another host, or there is no page.

        Raises:
            PageError: It is an error, or leads to no address.
            httpx.HTTPError: There is none.
            TooLargeError: It is too large.
        """
        import httpx

        from retrievers.net import exchange

        ends = time.monotonic() + self.page_s
        target = address
        # Without the environment's proxies: the hosts that are contacted are those of the settings alone.
        with httpx.Client(trust_env=False) as client:
            for _ in range(MAX_REDIRECTS + 1):
                request = client.build_request("GET", target)
                left = max(0.001, ends - time.monotonic())
                answer = exchange(client, request, timeout_s=left, most_bytes=self.most_bytes)
                if not answer.has_redirect_location:
                    break
                location = answer.headers["location"]
                target = _joined(target, location) or ""
                if not target:
                    raise PageError(f"redirects to {quoted(redacted(location))}, which is no address")
                if urlsplit(target).netloc not in self.hosts:
                    return None
        # A missing page is an answer, not a fault: its chunk has no source.
        if answer.status_code in (404, 410):
            return None
        if not answer.is_success:
            raise PageError(f"answered {answer.status_code} {answer.reason_phrase}")
        return answer


def open_sources(config: SourcesConfig) -> Sources | None:
    """Open the source pages that the settings name, None when they name none.

    Raises:
        IndexingError: The folder does not exist or holds no page.
    """
    if config.dir:
        return SourcePages.read(config.dir, config.base_url)
    return WebPages(config.http, config.base_url) if config.http else None


def _joined(base: str, url: str) -> str | None:
    """Resolve an address against another page's address; None where it is invalid."""
    try:
        address = urljoin(base, url)
        return address if urlsplit(address).scheme in ("http", "https") else None
    except ValueError:  # brackets that hold no IPv6 address, among others
        return None


def _read(answer: "httpx.Response", source_url: str) -> Page:
    text = _text(answer)
    if "html" in answer.headers.get("content-type", ""):
        return html_page(text, source_url)
    return parse_page(text, page_path(source_url), source_url)


def _text(answer: "httpx.Response") -> str:
    """Decode the page by the character set that the server names, if known; else as UTF-8."""
    return answer.content.decode(charset(answer.charset_encoding), "replace")

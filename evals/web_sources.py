"""Source pages over HTTP, from the named hosts only: HTML as its text and headings, Markdown as it is."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

from evals.config import SourcesConfig
from evals.errors import EvaluationError
from evals.sources import SourcePage, SourcePages, Sources
from retrievers.indexing.markdown import Block, Page, PageError, Section, parse_page
from retrievers.records import Chunk

TIMEOUT_S = 10.0
MAX_REDIRECTS = 3
HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
SKIPPED = {"script", "style", "noscript", "template", "nav", "header", "footer", "svg"}
BREAKING = {
    *HEADINGS,
    "p",
    "li",
    "ul",
    "ol",
    "pre",
    "div",
    "section",
    "article",
    "table",
    "tr",
    "td",
    "th",
    "br",
    "dt",
    "dd",
}
KNOWN = ("source_url", "title", "heading", "section_path")
"""The facts that a page fetched from a site can tell; tags, files and lines are not to be seen there."""


@dataclass(frozen=True)
class WebPages:
    """Pages of some hosts, each fetched once, when it is first asked for.

    Attributes:
        hosts: The only hosts that are ever contacted, such as `docs.example.com` or `localhost:3000`.
        base_url: What a relative address is joined to.
    """

    hosts: Sequence[str]
    base_url: str
    _fetched: dict[str, SourcePage | None] = field(default_factory=dict)

    def page_of(self, chunk: Chunk) -> SourcePage | None:
        """The page at a chunk's address; None when it does not exist or is on another host.

        Raises:
            EvaluationError: The host cannot be reached or answers with an error.
        """
        address = urljoin(self.base_url, chunk.source_url or "")
        if urlsplit(address).netloc not in self.hosts:
            return None
        if address not in self._fetched:
            self._fetched[address] = self._fetch(address, chunk.source_url or "")
        return self._fetched[address]

    def _fetch(self, address: str, source_url: str) -> SourcePage | None:
        import httpx

        target = address
        for _ in range(MAX_REDIRECTS + 1):
            try:
                answer = httpx.get(target, timeout=TIMEOUT_S, trust_env=False)
            except httpx.HTTPError as error:
                raise EvaluationError(
                    f"source page {target}: cannot be fetched: {type(error).__name__}: {error}"
                ) from error
            if not answer.is_redirect:
                break
            target = urljoin(target, answer.headers.get("location", ""))
            if urlsplit(target).netloc not in self.hosts:
                return None
        if answer.status_code in (404, 410):
            return None
        if not answer.is_success:
            raise EvaluationError(f"source page {target}: answered {answer.status_code} {answer.reason_phrase}")
        is_html = "html" in answer.headers.get("content-type", "")
        return SourcePage(
            html_page(answer.text, source_url) if is_html else markdown_page(answer.text, source_url), KNOWN
        )


def open_sources(config: SourcesConfig) -> Sources | None:
    """The source pages that the settings name, None when they name none.

    Raises:
        IndexingError: The folder does not exist or holds no page.
    """
    if config.dir:
        return SourcePages.read(config.dir, config.base_url)
    return WebPages(config.http, config.base_url) if config.http else None


def markdown_page(text: str, source_url: str) -> Page:
    """A Markdown page as it came.

    Raises:
        EvaluationError: It cannot be read as Markdown.
    """
    try:
        return parse_page(text, _path(source_url), source_url)
    except PageError as error:
        raise EvaluationError(f"source page {source_url}: {error}") from error


def html_page(html: str, source_url: str) -> Page:
    """The text of an HTML page, one line for each block, with the headings over it; navigation and scripts left out."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    path: list[tuple[int, str]] = []
    sections = []
    for number, (level, text) in enumerate(reader.lines, 1):
        if level:
            path = [*((n, t) for n, t in path if n < level), (level, text)]
        block = Block(text=text, start_line=number, end_line=number)
        sections.append(Section(path=tuple(t for _, t in path), runs=((block,),)))
    first = next((text for level, text in reader.lines if level == 1), "")
    return Page(
        file_path=_path(source_url),
        source_url=source_url,
        title=first or reader.title,
        tags=(),
        sidebar_position=None,
        text="\n".join(text for _, text in reader.lines),
        sections=tuple(sections),
    )


def _path(source_url: str) -> str:
    return urlsplit(source_url).path.strip("/") or "index"


class _Reader(HTMLParser):
    """Collects (heading level or 0, text) lines."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: list[tuple[int, str]] = []
        self.title = ""
        self._words: list[str] = []
        self._level = 0
        self._skipping = 0
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._skipping += tag in SKIPPED
        self._in_title = tag == "title"
        if tag in BREAKING:
            self._end_line()
        if tag in HEADINGS:
            self._level = int(tag[1])

    def handle_endtag(self, tag: str) -> None:
        self._skipping -= tag in SKIPPED and self._skipping > 0
        self._in_title = False
        if tag in BREAKING:
            self._end_line()
        if tag in HEADINGS:
            self._level = 0

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data.strip()
        elif not self._skipping:
            self._words.append(data)

    def close(self) -> None:
        super().close()
        self._end_line()

    def _end_line(self) -> None:
        text = " ".join("".join(self._words).replace("\u200b", "").split())  # Docusaurus ends headings with U+200B
        self._words = []
        if text:
            self.lines.append((self._level, text))

"""A page of a site as its text and headings. libxml2 reads HTML as browsers do, any input in linear time."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from urllib.parse import urlsplit

from retrievers.indexing.markdown import Block, Page, PageSection

HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
SKIPPED = frozenset({"script", "style", "noscript", "template", "nav", "header", "footer", "svg"})
BREAKING = frozenset(
    {*HEADINGS, "p", "li", "ul", "ol", "pre", "div", "section", "article", "table", "tr", "td", "th", "br", "dt", "dd"}
)


def html_page(html: str, source_url: str) -> Page:
    """Return the text of an HTML page, a line for each block, with its headings; without navigation and scripts."""
    from lxml import etree

    reader = _Reader()
    parser = etree.HTMLParser(target=reader, huge_tree=True, encoding="utf-8")
    if html.strip():
        etree.fromstring(html.encode("utf-8", "replace"), parser)
    first = next((text for level, text in reader.lines if level == 1), "")
    return Page(
        file_path=page_path(source_url),
        source_url=source_url,
        title=first or reader.title,
        tags=(),
        sidebar_position=None,
        text="\n".join(text for _, text in reader.lines),
        sections=tuple(_sections(reader.lines)),
        ids=frozenset(reader.ids),
    )


def page_path(source_url: str) -> str:
    """Return the path of an address, in place of the file that a web page lacks."""
    return urlsplit(source_url).path.strip("/") or "index"


def _sections(lines: Sequence[tuple[int, str]]) -> Iterator[PageSection]:
    """Return each heading with the lines below it, up to the next heading."""
    path: list[tuple[int, str]] = []
    headings = 0
    numbered = []
    for number, (level, text) in enumerate(lines, 1):
        headings += level > 0
        numbered.append((headings, number, level, text))
    for _, group in groupby(numbered, key=lambda line: line[0]):
        under = list(group)
        _, start, level, heading = under[0]
        if level:
            path = [*((n, t) for n, t in path if n < level), (level, heading)]
        block = Block(text="\n".join(text for *_, text in under), start_line=start, end_line=under[-1][1])
        yield PageSection(path=tuple(text for _, text in path), runs=((block,),))


class _Reader:
    """Collector of (heading level or 0, text) lines, and of ids, from the parser's events."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, str]] = []
        self.ids: set[str] = set()
        self.title = ""
        self._words: list[str] = []
        self._level = 0
        self._skipping = 0
        self._in_title = False

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Handle the start of an element."""
        self._skipping += tag in SKIPPED
        self._in_title = tag == "title"
        # A fragment of the page's address names an element's id, or the name of an old anchor.
        self.ids |= {attributes[key] for key in ("id", *(("name",) if tag == "a" else ())) if key in attributes}
        if tag in BREAKING:
            self._end_line()
        if tag in HEADINGS:
            self._level = int(tag[1])

    def end(self, tag: str) -> None:
        """Handle the end of an element, by its tag or because another element starts."""
        self._skipping -= tag in SKIPPED
        self._in_title = False
        if tag in BREAKING:
            self._end_line()
        if tag in HEADINGS:
            self._level = 0

    def data(self, text: str) -> None:
        """Handle text."""
        if self._in_title:
            self.title = " ".join(f"{self.title}{text}".split())
        elif not self._skipping:
            self._words.append(text)

    def comment(self, text: str) -> None:
        """Ignore content that a browser does not show."""

    def close(self) -> None:
        """Handle the end of the page."""
        self._end_line()

    def _end_line(self) -> None:
        # Docusaurus ends headings with U+200B.
        text = " ".join("".join(self._words).replace("\u200b", "").split())
        self._words = []
        if text:
            self.lines.append((self._level, text))

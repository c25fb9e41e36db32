"""A page of a site as its text and headings, read by libxml2 as browsers read HTML: whatever it is, in linear time."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from urllib.parse import urlsplit

from retrievers.indexing.markdown import Block, Page, Section

HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
SKIPPED = frozenset({"script", "style", "noscript", "template", "nav", "header", "footer", "svg"})
BREAKING = frozenset(
    {*HEADINGS, "p", "li", "ul", "ol", "pre", "div", "section", "article", "table", "tr", "td", "th", "br", "dt", "dd"}
)


def html_page(html: str, source_url: str) -> Page:
    """The text of an HTML page, one line for each block, with the headings over it; navigation and scripts left out."""
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
    )


def page_path(source_url: str) -> str:
    """What stands for the file of a page that has none: the path of its address."""
    return urlsplit(source_url).path.strip("/") or "index"


def _sections(lines: Sequence[tuple[int, str]]) -> Iterator[Section]:
    """Each heading with the lines under it up to the next one."""
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
        yield Section(path=tuple(text for _, text in path), runs=((block,),))


class _Reader:
    """Collects (heading level or 0, text) lines of what the parser tells it."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, str]] = []
        self.title = ""
        self._words: list[str] = []
        self._level = 0
        self._skipping = 0
        self._in_title = False

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""
        self._skipping += tag in SKIPPED
        self._in_title = tag == "title"
        if tag in BREAKING:
            self._end_line()
        if tag in HEADINGS:
            self._level = int(tag[1])

    def end(self, tag: str) -> None:
        """An element ends, by its tag or because another begins."""
        self._skipping -= tag in SKIPPED
        self._in_title = False
        if tag in BREAKING:
            self._end_line()
        if tag in HEADINGS:
            self._level = 0

    def data(self, text: str) -> None:
        """A piece of text."""
        if self._in_title:
            self.title = " ".join(f"{self.title}{text}".split())
        elif not self._skipping:
            self._words.append(text)

    def comment(self, text: str) -> None:
        """Nothing is shown of it."""

    def close(self) -> None:
        """The page ends."""
        self._end_line()

    def _end_line(self) -> None:
        text = " ".join("".join(self._words).replace("\u200b", "").split())  # Docusaurus ends headings with U+200B
        self._words = []
        if text:
            self.lines.append((self._level, text))

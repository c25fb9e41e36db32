"""A page of a site as its text and headings. libxml2 reads HTML as browsers do, any input in linear time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from retrievers.indexing.markdown import Block, Page, PageError, PageSection

HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
SKIPPED = frozenset({"script", "style", "noscript", "template", "nav", "svg", "button", "dialog", "select"})
FRAME = frozenset({"header", "footer"})
CONTENT = frozenset({"article", "main"})
ROLES = frozenset({"navigation", "banner", "contentinfo", "search", "dialog", "menu"})
BREAKING = frozenset(
    {*HEADINGS, "p", "li", "ul", "ol", "pre", "div", "section", "article", "table", "tr", "br", "dt", "dd"}
    | {"body", "main", "aside", "blockquote", "figure", "figcaption", "hr", "dl", "form", "header", "footer", "nav"}
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A line of text as a browser breaks it, without regard to the width of the window.

    Attributes:
        level: 1 to 6 for a heading, else 0.
        origin: The first and the last line of the file that it comes from.
    """

    level: int
    text: str
    origin: tuple[int, int]


def html_page(html: str, source_url: str) -> Page:
    """Return the text of an HTML page, a line for each block, with its headings; without navigation and scripts.

    Where the page has a `main` with text, nothing outside of it is read: there stand help, menus and notices.
    """
    reader = _Reader()
    reader.read(html.encode("utf-8", "replace"))
    first = next((line.text for line in reader.lines if line.level == 1), "")
    return Page(
        file_path=page_path(source_url),
        source_url=source_url,
        title=first or reader.title,
        tags=(),
        sidebar_position=None,
        text="\n".join(line.text for line in reader.lines),
        sections=tuple(_sections(reader.lines)),
        ids=frozenset(reader.ids),
        origins=tuple(line.origin for line in reader.lines),
    )


def html_file(html: str, file_path: str, source_url: str) -> Page:
    """Return the page of an HTML file; a heading under which nothing stands is left out.

    Raises:
        PageError: It shows no text.
    """
    if "\0" in html:
        raise PageError("holds NUL characters: a binary file, or UTF-16 without a byte order mark")
    page = html_page(html, source_url)
    sections = tuple(section for section in page.sections if not _only_heading(section))
    if not sections:
        raise PageError("the page shows no text (navigation, site header, footer and scripts are left out)")
    return replace(page, file_path=file_path, title=page.title or PurePosixPath(file_path).stem, sections=sections)


def page_path(source_url: str) -> str:
    """Return the path of an address, in place of the file that a web page lacks."""
    return urlsplit(source_url).path.strip("/") or "index"


def _sections(lines: Sequence[Line]) -> Iterator[PageSection]:
    """Return each heading with the lines below it, up to the next heading."""
    path: list[tuple[int, str]] = []
    headings = 0
    numbered = []
    for number, line in enumerate(lines, 1):
        headings += line.level > 0
        numbered.append((headings, number, line))
    for _, group in groupby(numbered, key=lambda entry: entry[0]):
        under = list(group)
        _, start, top = under[0]
        if top.level:
            path = [*((n, t) for n, t in path if n < top.level), (top.level, top.text)]
        block = Block(text="\n".join(line.text for *_, line in under), start_line=start, end_line=under[-1][1])
        yield PageSection(path=tuple(text for _, text in path), runs=((block,),))


def _only_heading(section: PageSection) -> bool:
    [[block]] = section.runs
    return bool(section.path) and block.start_line == block.end_line


def _has_main(root: Any) -> bool:
    """Return True if an element `main` has text."""
    from lxml import etree

    depth = 0
    for event, element in etree.iterwalk(root, events=("start", "end")):
        if event == "end":
            depth -= _is_main(element.tag, element.attrib)
            if depth and (element.tail or "").strip():
                return True
            continue
        depth += _is_main(element.tag, element.attrib)
        if depth and (element.text or "").strip():
            return True
    return False


def _is_main(tag: str, attributes: Mapping[str, str]) -> bool:
    return tag == "main" or attributes.get("role") == "main"


class _Reader:
    """Collector of lines, of ids and of the title, from the elements in their order."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.ids: set[str] = set()
        self.title = ""
        self._words: list[str] = []
        self._level = self._skipping = self._in_pre = self._in_content = self._outside = 0
        # The line of the file that is read, and the first and last one of the words.
        self._at, self._origin = 1, (0, 0)

    def read(self, data: bytes) -> None:
        """Read a page."""
        from lxml import etree

        if not data.strip():
            return
        root = etree.fromstring(data, etree.HTMLParser(huge_tree=True, encoding="utf-8"))
        if root is None:
            return
        self._outside = int(_has_main(root))
        for event, element in etree.iterwalk(root, events=("start", "end", "comment", "pi")):
            # libxml2 stops to count lines at 65,535; from there on the line ends in the text tell.
            self._at = max(self._at, element.sourceline or 0)
            if event == "start":
                self._start(element.tag, element.attrib)
                self._data(element.text or "", in_title=element.tag == "title")
                continue
            if event == "end":
                self._end(element.tag, element.attrib)
            self._data(element.tail or "")
        self._end_line()

    def _start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag in BREAKING:
            self._end_line()
        # The cells of a row are one line.
        self._words += [" "] if tag in ("td", "th") else []
        self._outside -= _is_main(tag, attributes)
        self._skipping += self._is_skipped(tag, attributes)
        self._in_content += tag in CONTENT
        self._in_pre += tag == "pre"
        # A fragment of the page's address names an element's id, or the name of an old anchor.
        self.ids |= {attributes[key] for key in ("id", *(("name",) if tag == "a" else ())) if key in attributes}
        if tag in HEADINGS:
            self._level = int(tag[1])

    def _end(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag in BREAKING:
            self._end_line()
        self._outside += _is_main(tag, attributes)
        self._in_content -= tag in CONTENT
        self._skipping -= self._is_skipped(tag, attributes)
        self._in_pre -= tag == "pre"
        if tag in HEADINGS:
            self._level = 0

    def _is_skipped(self, tag: str, attributes: Mapping[str, str]) -> bool:
        # The header of an article holds its title, that of a site its menu.
        return (
            tag in SKIPPED
            or "hidden" in attributes
            or attributes.get("role") in ROLES
            or (tag in FRAME and not self._in_content)
        )

    def _data(self, text: str, *, in_title: bool = False) -> None:
        if in_title and not self._skipping:
            self.title = self.title or " ".join(text.split())
        for number, part in enumerate(text.split("\n")):
            if number:
                self._at += 1
                self._words.append("\n")
                if self._in_pre:
                    self._end_line()
            left_out = self._skipping or self._outside > 0 or in_title
            if part.strip() and not left_out:
                self._origin = (self._origin[0] or self._at, self._at)
            self._words += [] if left_out else [part]

    def _end_line(self) -> None:
        # Docusaurus ends headings with U+200B, Sphinx with a pilcrow.
        text = "".join(self._words).replace("\u200b", "")
        text = text.rstrip() if self._in_pre else " ".join(text.split())
        text = text.rstrip("¶ ") if self._level else text
        if text:
            self.lines.append(Line(level=self._level, text=text, origin=self._origin))
        self._words, self._origin = [], (0, 0)

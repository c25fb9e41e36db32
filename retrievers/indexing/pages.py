"""Read the pages of a folder: Markdown, HTML, plain text and PDF. Each is read alone: a fault names its page."""

import codecs
import hashlib
import logging
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from itertools import groupby, pairwise
from pathlib import Path, PurePosixPath
from typing import Any, Self
from urllib.parse import urlsplit

from retrievers.config import IndexSettings
from retrievers.config.files import encoding_fault
from retrievers.embedding.tokens import count_tokens
from retrievers.errors import IndexingError
from retrievers.indexing.chunking import chunk_page
from retrievers.indexing.markdown import Block, Page, PageError, PageSection, parse_page
from retrievers.records import Chunk
from retrievers.text import well_formed
from retrievers.text.shown import printable, quoted

KINDS = (".md", ".mdx", ".html", ".htm", ".xhtml", ".txt", ".text", ".pdf")
LONGEST_TITLE = 500
MOST_BYTES = 256 * 2**20


# A folder


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Pages of a folder, or documents of a dataset.

    Attributes:
        folder: Folder of the pages, or the dataset.
        pages: The pages that could be parsed, in path order. Of two pages with one address it is the first.
        fingerprint: SHA-256 over the base of the addresses and the path and bytes of every file; for a dataset, over
            the id, title, text and address of every document.
        broken: The fault of each file that could not be read, by the file's path below the folder.
        note: A line on the files that are not read, or on the rows without text.
        unit: What messages call the pages: `pages` or `documents`.
    """

    folder: Path
    pages: tuple[Page, ...]
    fingerprint: str
    broken: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    unit: str = "pages"

    @property
    def faults(self) -> tuple[str, ...]:
        """One line per broken file, beginning with its path."""
        return tuple(f"{self.folder / file}: {fault}" for file, fault in self.broken.items())

    def readable(self, *, skip_broken: bool = False) -> Self:
        """Return the corpus if all of its pages could be read, or if broken pages may be left out.

        Raises:
            IndexingError: Pages are broken and `skip_broken` is off, or no page is left.
        """
        if self.broken and not (skip_broken and self.pages):
            refusal = "pages cannot be indexed, nothing was changed (--skip-broken indexes the others):"
            raise IndexingError(refusal, self.faults)
        return self

    def defaults(self, named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of which this corpus has other defaults: pages with headings are embedded with them.

        Documents are embedded with their titles, as in BEIR. They stay whole, unless `max_tokens` is named.
        """
        if self.unit == "documents":
            return {"context": "title"} | ({} if "max_tokens" in named else {"splitter": "whole"})
        return {"context": "path"} if any(section.path for page in self.pages for section in page.sections) else {}

    def cut(
        self, settings: IndexSettings, progress: Callable[[str, int, int], None] = lambda stage, done, total: None
    ) -> Iterator[Chunk]:
        """Cut all pages into chunks. `progress` is called with the stage, the pages done and the number of all."""
        for done, page in enumerate(self.pages, 1):
            yield from chunk_page(page, count_tokens=count_tokens, **settings.named)
            progress("cutting", done, len(self.pages))


def read_corpus(folder: Path, base_url: str = "/docs") -> Corpus:
    """Read and parse every page below a folder: Markdown, HTML, plain text and PDF.

    Files and folders that begin with `_` or `.` are not pages.

    Raises:
        IndexingError: The folder does not exist, or holds no page.
    """
    if not folder.is_dir():
        kind = "a file; rows are indexed from .jsonl and .parquet" if folder.is_file() else "a pipe or the like"
        raise IndexingError(f"{folder}: expected a folder of pages, found {kind if folder.exists() else 'nothing'}")
    named = [f for f in folder.rglob("*") if not any(part[0] in "_." for part in f.relative_to(folder).parts)]
    unread = Counter(f.suffix.lower() for f in named if f.suffix.lower() not in KINDS and f.is_file())
    kinds = ", ".join(f"{suffix or 'without suffix'} {count}" for suffix, count in sorted(unread.items()))
    note = kinds and f"files that are not read: {kinds}; documents can be converted to HTML, PDF or text"
    files = sorted(f for f in named if f.suffix.lower() in KINDS)
    if not files:
        raise IndexingError(f"{folder}: holds no page ({', '.join(KINDS)}); {note or 'nothing was changed'}")
    broken, digest, pages = dict[str, str](), hashlib.sha256(f"{base_url}\0".encode()), dict[str, Page]()
    for file in files:
        name = file.relative_to(folder).as_posix()
        try:
            data = _bytes(file, folder)
            digest.update(f"{name}\0{len(data)}\0".encode() + data)
            page = _page_of(data, name, base_url)
            if (first := pages.setdefault(page.source_url, page)) is not page:
                raise PageError(f"has the address {quoted(page.source_url)} of {first.file_path}")
        except (PageError, UnicodeError, OSError) as error:
            broken[printable(name)] = _fault(error)
    return Corpus(folder=folder, pages=tuple(pages.values()), fingerprint=digest.hexdigest(), broken=broken, note=note)


def _page_of(data: bytes, name: str, base_url: str) -> Page:
    """Parse the page in a file. A file that a site serves as it is has its own name in its address."""
    suffix, served = PurePosixPath(name).suffix.lower(), f"{base_url.rstrip('/')}/{name}"
    if suffix == ".pdf":
        return pdf_page(data, name, served)
    text = decoded_html(data) if "htm" in suffix else decoded(data)
    if "\0" in text:
        raise PageError("holds NUL characters: a binary file, or UTF-16 without a byte order mark")
    if suffix in (".md", ".mdx"):
        return parse_page(text, name, base_url)
    return html_file(text, name, served) if "htm" in suffix else text_page(text, name, served)


def _bytes(file: Path, folder: Path) -> bytes:
    """Read the bytes of a file.

    Raises:
        PageError: The file is outside of this folder, is no regular file, or is too large to be a page.
        OSError: The file cannot be read.
    """
    if not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(folder)):
        raise PageError("a link that leads out of the folder is not followed; copy the page, or index its own folder")
    status = file.stat()
    if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:  # a pipe without a writer would wait for one
        raise PageError(f"expected a file of at most {MOST_BYTES:,} bytes, found {status.st_size:,}, or no file")
    return file.read_bytes()


def _fault(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return encoding_fault(error)
    return f"cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)


# Character sets: marks and declarations are believed, other bytes are not guessed at.


MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
# The declaration of a character set in an HTML page. Browsers look for it among the first bytes.
DECLARATION = re.compile(rb"""<(?:meta|\?xml)[^>]{0,200}?(?:charset|encoding)\s*=\s*["']?\s*([\w:.-]{1,40})""", re.I)
DECLARED_WITHIN = 1_024
# Browsers read pages that declare Latin-1 or ASCII as Windows-1252.
SUPERSET = {"iso8859-1": "cp1252", "ascii": "cp1252"}


def decoded(data: bytes) -> str:
    """Decode the bytes of a file by its byte order mark, or as UTF-8 if it has none.

    Raises:
        UnicodeDecodeError: The bytes are not of that encoding.
    """
    return data.decode(next((encoding for mark, encoding in MARKS.items() if data.startswith(mark)), "utf-8"))


def decoded_html(data: bytes, declared: str | None = None) -> str:
    """Decode the bytes of a web page: as a file if that succeeds, else as declared, else as Windows-1252.

    The server's declaration counts before that of the page. Bytes that are not of the declared character set become
    U+FFFD, as in browsers.

    Args:
        data: The bytes of the page.
        declared: The character set that the server named, if any.
    """
    try:
        return decoded(data)
    except UnicodeDecodeError:
        inside = DECLARATION.search(data[:DECLARED_WITHIN])
        name = declared or (inside[1].decode("ascii") if inside else "cp1252")
    try:
        codec = codecs.lookup(name).name
        return data.decode(SUPERSET.get(codec, codec), "replace")
    except (LookupError, UnicodeError):  # unknown, or one of Python's codecs of bytes
        return data.decode("utf-8", "replace")


# Plain text and PDF


def text_page(text: str, file_path: str, source_url: str) -> Page:
    """Make a page of a plain text. Its blocks are the paragraphs, and its title is the name of the file.

    Raises:
        PageError: The text is empty.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    numbered = enumerate(text.split("\n"), 1)
    groups = (list(group) for filled, group in groupby(numbered, key=lambda line: bool(line[1].strip())) if filled)
    blocks = tuple(
        Block(text="\n".join(line for _, line in group), start_line=group[0][0], end_line=group[-1][0])
        for group in groups
    )
    if not blocks:
        raise PageError("the file has no text")
    title, sections = PurePosixPath(file_path).stem, (PageSection(path=(), runs=(blocks,)),)
    return Page(
        file_path=file_path,
        source_url=source_url,
        title=title,
        text=text,
        sections=sections,
        start_line=blocks[0].start_line,
    )


def pdf_page(data: bytes, file_path: str, source_url: str) -> Page:
    """Make a page of the text of a PDF.

    Raises:
        PageError: The reader is not installed, the file is no PDF, it needs a password, or none of its pages has text.
    """
    try:
        from pypdf import PdfReader
        from pypdf.errors import FileNotDecryptedError
    except ImportError:
        raise PageError("a PDF is read by pypdf, which is not installed: pip install 'retrieval-evals[pdf]'") from None
    # pypdf warns of each small fault of a file that it can read.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = PdfReader(BytesIO(data))
        title = " ".join(_clean(reader.metadata and reader.metadata.title).split())
        texts = [_clean(page.extract_text()) for page in reader.pages]
    except Exception as error:  # pypdf raises many kinds of errors for broken files
        locked = isinstance(error, FileNotDecryptedError) and "needs a password; save a copy that needs none"
        raise PageError(locked or f"cannot be read as a PDF: {type(error).__name__}: {error}") from error
    if not any(texts):
        raise PageError(f"no text in it (pages: {len(texts)}): a scan? Make it readable: ocrmypdf IN.pdf OUT.pdf")
    lines, sections = list[tuple[int, str]](), list[PageSection]()
    for number, text in enumerate(texts, 1):
        if text:
            start = len(lines) + 1
            lines += [(number, line) for line in text.split("\n")]
            sections.append(PageSection(path=(), runs=((Block(text=text, start_line=start, end_line=len(lines)),),)))
    return Page(
        file_path=file_path,
        source_url=source_url,
        title=title[:LONGEST_TITLE] or PurePosixPath(file_path).stem,
        text="\n".join(line for _, line in lines),
        sections=tuple(sections),
        origins=tuple(number for number, _ in lines),
    )


def _clean(text: Any) -> str:
    """Return a text without surrounding blank lines, NUL characters and halves of surrogate pairs."""
    lines = well_formed(str(text or "").replace("\0", "")).strip("\n").splitlines()
    return "\n".join(line.rstrip() for line in lines).strip("\n")


# HTML


HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
SKIPPED = frozenset({"script", "style", "noscript", "template", "nav", "svg", "button", "dialog", "select", "title"})
ROLES = frozenset({"navigation", "banner", "contentinfo", "search", "dialog", "menu"})
BREAKING = frozenset(
    {*HEADINGS, "p", "li", "ul", "ol", "pre", "div", "section", "article", "table", "tr", "br", "dt", "dd"}
    | {"body", "main", "aside", "blockquote", "figure", "figcaption", "hr", "dl", "form", "header", "footer", "nav"}
    | {"details", "summary", "fieldset", "legend", "address", "center", "option"}
)
ENDS = re.compile("</(?:head|body|html)", re.I)
# A line of text as a browser breaks it in a wide window, with its level: 1 to 6 for a heading, else 0.
Line = tuple[str, int]


def html_page(html: str, source_url: str) -> Page:
    """Read the text of an HTML page, a line for each block, with its headings. Navigation and scripts are left out.

    If the page has a `main` with text, nothing outside of such is read: help, menus and notices stand there.
    libxml2 reads HTML as browsers do, and any input in linear time.

    Raises:
        PageError: The page is nested too deeply.
    """
    from lxml import etree

    parser = etree.HTMLParser(huge_tree=True, encoding="utf-8", remove_comments=True, remove_pis=True)
    # A page that is a comment alone would have no root. For each further start, libxml2 passes over an end tag:
    # else it stops at `</html>`, behind which browsers read on.
    root = etree.fromstring(b"<html>" * (1 + len(ENDS.findall(html))) + html.encode("utf-8", "replace"), parser)
    if cut := parser.error_log.filter_types(etree.ErrorTypes.ERR_RESOURCE_LIMIT):
        remedy = "close those that are left open (an HTML tidier does), or convert the page to text"
        raise PageError(f"line {cut[0].line}: expected elements nested at most 2,048 deep, found more; {remedy}")
    titles = root.xpath("/descendant::title[not(ancestor::svg)]/text()")
    for element in [element for element in root.iter() if _is_skipped(element)]:
        element.clear(keep_tail=True)
    walk = etree.iterwalk(root, events=("start",))
    mains = [one for _, one in walk if "main" in (one.tag, one.get("role")) and not walk.skip_subtree()]
    lines = [line for main in mains for line in _shown_lines(main)] or [*_shown_lines(root)]
    titles = [text for text, level in lines if level == 1] or titles
    return Page(
        file_path=page_path(source_url),
        source_url=source_url,
        title=next((" ".join(title.split()) for title in titles if title.strip()), ""),
        text="\n".join(text for text, _ in lines),
        sections=tuple(_under_headings(lines)),
        origins=(),
    )


def html_file(html: str, file_path: str, source_url: str) -> Page:
    """Read an HTML file as a page. Headings without text below them are left out.

    Raises:
        PageError: The page shows no text.
    """
    page = html_page(html, source_url)
    sections = tuple(s for s in page.sections if not s.path or s.runs[0][0].start_line < s.runs[0][0].end_line)
    if not sections:
        shown = "the headings have no text below them" if page.sections else "the page shows no text"
        raise PageError(f"{shown} (navigation, site header, footer and scripts are left out)")
    return replace(page, file_path=file_path, title=page.title or PurePosixPath(file_path).stem, sections=sections)


def page_path(source_url: str) -> str:
    """Return the path of an address. It stands in for the path of a file, which a web page does not have."""
    return urlsplit(source_url).path.strip("/") or "index"


def _is_skipped(element: Any) -> bool:
    """Return True for an element that is no text of the page, such as a menu."""
    if element.tag in ("header", "footer"):  # an article's header holds its title, a site's header the menu
        return next(element.iterancestors("article", "main"), None) is None
    return element.tag in SKIPPED or element.get("role") in ROLES or "hidden" in element.attrib


def _shown_lines(root: Any) -> Iterator[Line]:
    """Yield the lines that an element shows."""
    from lxml import etree

    texts, blocks = list[str](), list[str]()
    for event, element in etree.iterwalk(root, events=("start", "end")):
        if element.tag in BREAKING:
            yield from _lines("".join(texts), blocks)
            texts.clear()
            if event == "start":
                blocks.append(element.tag)
            else:
                blocks.pop()
        texts += [" "] if element.tag in ("td", "th") else []  # the cells of a row are one line
        text = element.text if event == "start" else element.tail
        texts += [text] if text and (event == "start" or element is not root) else []
    yield from _lines("".join(texts), blocks)


def _lines(text: str, blocks: Sequence[str]) -> Iterator[Line]:
    """Yield the lines of a text that stands inside of `blocks`, given by their tags."""
    level = max((int(tag[1]) for tag in blocks if tag in HEADINGS), default=0)
    for line in text.split("\n") if "pre" in blocks else [" ".join(text.split())]:
        # Docusaurus ends headings with U+200B, Sphinx with a pilcrow.
        shown = line.replace("\u200b", "").rstrip("¶ " if level else None)
        if shown:
            yield shown, level


def _under_headings(lines: Sequence[Line]) -> Iterator[PageSection]:
    """Yield each heading with the lines below it, up to the next heading."""
    starts = [number for number, (_, level) in enumerate(lines) if level or not number]
    path: list[tuple[int, str]] = []
    for start, end in pairwise([*starts, len(lines)]):
        heading, level = lines[start]
        path = [*((n, text) for n, text in path if n < level), (level, heading)] if level else path
        block = Block(text="\n".join(text for text, _ in lines[start:end]), start_line=start + 1, end_line=end)
        yield PageSection(path=tuple(text for _, text in path), runs=((block,),))

"""The pages of a folder: Markdown, HTML, plain text and PDF, each read alone, so that a fault names its page."""

import hashlib
import logging
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from itertools import groupby, pairwise
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar
from urllib.parse import urlsplit

from retrievers.config import IndexSettings
from retrievers.embedding.tokens import count_tokens
from retrievers.errors import IndexingError
from retrievers.indexing.chunking import chunk_page
from retrievers.indexing.markdown import Block, Page, PageError, PageSection, parse_page
from retrievers.records import Chunk
from retrievers.text.charsets import decoded, decoded_html
from retrievers.text.printable import printable
from retrievers.text.quoting import quoted

# Documents that nothing here reads, which are counted so that nobody thinks that they were indexed.
OTHER_DOCUMENTS = frozenset(
    {".adoc", ".doc", ".docx", ".epub", ".ipynb", ".markdown", ".odt", ".org", ".ppt", ".pptx", ".rst", ".rtf", ".tex"}
)
LONGEST_TITLE = 500
# Pages without text that a note names.
SHOWN = 10
MEBIBYTE = 2**20


# A folder


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Pages read from a folder.

    Attributes:
        folder: Folder of the pages.
        pages: The pages that could be parsed, in path order; of two with one address the first.
        broken: Path below the folder and fault of each file that could not be read.
        fingerprint: SHA-256 over the base of the addresses and every file's path and bytes.
        unread: Number of documents that nothing here reads, by suffix.
    """

    folder: Path
    pages: tuple[Page, ...]
    fingerprint: str
    broken: Mapping[str, str] = field(default_factory=dict)
    unread: Mapping[str, int] = field(default_factory=dict)
    unit: ClassVar[str] = "pages"

    @property
    def count(self) -> int:
        """Number of pages."""
        return len(self.pages)

    @property
    def faults(self) -> tuple[str, ...]:
        """One line per broken file, beginning with its path."""
        return tuple(f"{self.folder / file}: {fault}" for file, fault in self.broken.items())

    @property
    def notes(self) -> tuple[str, ...]:
        """One line on what was left out of each page, and one on the files that were not read."""
        kinds = ", ".join(f"{suffix} {count}" for suffix, count in sorted(self.unread.items()))
        unread = (f"documents that are not read: {kinds}; convert them to HTML, PDF or text",) if kinds else ()
        return (*(_blank_pages(page) for page in self.pages if page.blank_pages), *unread)

    def defaults(self, _: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings for which pages have defaults of their own: headings are embedded where there are any."""
        headed = any(section.path for page in self.pages for section in page.sections)
        return {"context": "path"} if headed else {}

    def cut(self, settings: IndexSettings) -> Iterator[Chunk]:
        """Cut all pages into chunks."""
        return (chunk for page in self.pages for chunk in chunk_page(page, count_tokens=count_tokens, **settings.named))


def read_corpus(folder: Path, base_url: str = "/docs") -> Corpus:
    """Read and parse every page below a folder: Markdown, HTML, plain text and PDF.

    Files and folders that begin with `_` or `.` are not pages.

    Raises:
        IndexingError: The folder does not exist, or holds no page.
    """
    if not folder.is_dir():
        raise IndexingError(f"{folder}: expected a folder of pages, found {'a file' if folder.exists() else 'nothing'}")
    named = [f for f in folder.rglob("*") if not any(part[0] in "_." for part in f.relative_to(folder).parts)]
    files = sorted(f for f in named if f.suffix.lower() in KINDS)
    if not files:
        raise IndexingError(f"{folder}: holds no page ({', '.join(KINDS)}); nothing was changed")
    broken, digest = dict[str, str](), hashlib.sha256(f"{base_url}\0".encode())
    by_address: dict[str, Page] = {}
    for file in files:
        name = file.relative_to(folder).as_posix()
        try:
            read, most_bytes = KINDS[file.suffix.lower()]
            data = _bytes(file, folder, most_bytes)
            digest.update(f"{name}\0{len(data)}\0".encode() + data)
            page = read(data, name, base_url)
        except (PageError, UnicodeError, OSError) as error:
            broken[printable(name)] = _said(error)
            continue
        first = by_address.setdefault(page.source_url, page)
        if first is not page:
            broken[name] = f"has the address {quoted(page.source_url)} of {first.file_path}"
    return Corpus(
        folder=folder,
        pages=tuple(by_address.values()),
        fingerprint=digest.hexdigest(),
        broken=broken,
        unread=Counter(f.suffix.lower() for f in named if f.suffix.lower() in OTHER_DOCUMENTS and f.is_file()),
    )


def _bytes(file: Path, folder: Path, most_bytes: int) -> bytes:
    """Return the bytes of a page.

    Raises:
        PageError: It is no file of this folder, or too large to be a page.
        OSError: It cannot be read.
    """
    if not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(folder)):
        raise PageError("a link that leads out of the folder is not followed; copy the page, or index its own folder")
    # A pipe without a writer would wait for one.
    status = file.stat()
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        raise PageError("not a file, but a pipe or a device")
    if status.st_size > most_bytes:
        raise PageError(f"holds {status.st_size:,} bytes; expected at most {most_bytes:,} in a page")
    return file.read_bytes()


def _said(error: Exception) -> str:
    match error:
        case UnicodeDecodeError():
            said = f"not {error.encoding.upper()} (byte {error.start}: {error.reason})"
            return f"{said}; convert it, for example: iconv -f LATIN1 -t UTF-8"
        case UnicodeEncodeError():
            return "its name is not UTF-8; rename it"
        case OSError():
            return f"cannot be read: {error.strerror}"
    return str(error)


def _blank_pages(page: Page) -> str:
    blank = page.blank_pages
    numbers = ", ".join(map(str, blank[:SHOWN])) + (", …" if len(blank) > SHOWN else "")
    count = len(blank) + len(set(page.origins))
    return f"{page.file_path}: {len(blank)} of its {count} pages without text (pictures? a scan?): {numbers}"


# Plain text and PDF


def text_page(text: str, file_path: str, source_url: str) -> Page:
    """Return the page of a text; its title is the name of its file.

    Raises:
        PageError: It is empty, or no text.
    """
    _check_text(text)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    blocks = paragraphs(text)
    if not blocks:
        raise PageError("the file has no text")
    return _page(file_path, source_url, text=text, sections=(PageSection(path=(), runs=(blocks,)),))


def paragraphs(text: str) -> tuple[Block, ...]:
    """Return the paragraphs of a text, verbatim."""
    numbered = enumerate(text.split("\n"), 1)
    groups = (list(group) for filled, group in groupby(numbered, key=lambda line: bool(line[1].strip())) if filled)
    return tuple(
        Block(text="\n".join(line for _, line in group), start_line=group[0][0], end_line=group[-1][0])
        for group in groups
    )


def pdf_page(data: bytes, file_path: str, source_url: str) -> Page:
    """Return the text of a PDF; pages without text are named in `blank_pages`.

    Raises:
        PageError: The reader is not installed, the file is no PDF or protected, or no page has text.
    """
    title, texts = _pdf_texts(data)
    lines, origins, sections = list[str](), list[tuple[int, int]](), list[PageSection]()
    for number, text in enumerate(texts, 1):
        if text:
            block = Block(text=text, start_line=len(lines) + 1, end_line=len(lines) + 1 + text.count("\n"))
            lines += text.split("\n")
            origins += [(number, number)] * (len(lines) - len(origins))
            sections.append(PageSection(path=(), runs=((block,),)))
    if not sections:
        pages = f"none of its {len(texts)} pages has" if len(texts) != 1 else "its page has no"
        raise PageError(f"{pages} text: a scan? Make its text readable first, for example: ocrmypdf IN.pdf OUT.pdf")
    return _page(
        file_path,
        source_url,
        title=title,
        text="\n".join(lines),
        sections=tuple(sections),
        origins=tuple(origins),
        paged=True,
        blank_pages=tuple(number for number, text in enumerate(texts, 1) if not text),
    )


def _pdf_texts(data: bytes) -> tuple[str, list[str]]:
    """Return the title and the text of each page."""
    try:
        from pypdf import PdfReader
        from pypdf.errors import DependencyError, FileNotDecryptedError
    except ImportError:
        raise PageError("a PDF is read by pypdf, which is not installed: pip install 'retrieval-evals[pdf]'") from None
    # It warns of each small fault of a file that it can read.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = PdfReader(BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise FileNotDecryptedError
        title = _clean(reader.metadata.title if reader.metadata else None)
        return " ".join(title.split())[:LONGEST_TITLE], [_clean(page.extract_text()) for page in reader.pages]
    except (FileNotDecryptedError, DependencyError):
        raise PageError("is protected by a password; save a copy without one") from None
    except Exception as error:  # of a broken file it raises many kinds
        raise PageError(f"cannot be read as a PDF: {type(error).__name__}: {error}") from error


def _clean(text: Any) -> str:
    """Return a text without surrounding blank lines, NUL characters and halves of characters."""
    whole = str(text or "").replace("\0", "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return "\n".join(line.rstrip() for line in whole.strip("\n").splitlines()).strip("\n")


def _check_text(text: str) -> None:
    if "\0" in text:
        raise PageError("holds NUL characters: a binary file, or UTF-16 without a byte order mark")


def _page(file_path: str, source_url: str, *, title: str = "", **parts: Any) -> Page:
    named = title or PurePosixPath(file_path).stem
    return Page(file_path=file_path, source_url=source_url, title=named, tags=(), sidebar_position=None, **parts)


# HTML


HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
SKIPPED = frozenset({"script", "style", "noscript", "template", "nav", "svg", "button", "dialog", "select", "title"})
ROLES = frozenset({"navigation", "banner", "contentinfo", "search", "dialog", "menu"})
BREAKING = frozenset(
    {*HEADINGS, "p", "li", "ul", "ol", "pre", "div", "section", "article", "table", "tr", "br", "dt", "dd"}
    | {"body", "main", "aside", "blockquote", "figure", "figcaption", "hr", "dl", "form", "header", "footer", "nav"}
)


def html_page(html: str, source_url: str) -> Page:
    """Return the text of an HTML page, a line for each block, with its headings; without navigation and scripts.

    Where the page has a `main` with text, nothing outside of it is read: there stand help, menus and notices.
    libxml2 reads HTML as browsers do, any input in linear time.
    """
    from lxml import etree

    data = html.encode("utf-8", "replace")
    root = etree.fromstring(data, etree.HTMLParser(huge_tree=True, encoding="utf-8")) if data.strip() else None
    lines, ids, title = _shown(root) if root is not None else ([], set[str](), "")
    lines = [line for line in lines if line.in_main] or lines
    first = next((line.text for line in lines if line.level == 1), "")
    page = _page(
        page_path(source_url),
        source_url,
        text="\n".join(line.text for line in lines),
        sections=tuple(_under_headings(lines)),
        ids=frozenset(ids),
        origins=tuple(line.origin for line in lines),
    )
    return replace(page, title=first or title)


def html_file(html: str, file_path: str, source_url: str) -> Page:
    """Return the page of an HTML file; a heading under which nothing stands is left out.

    Raises:
        PageError: It shows no text.
    """
    _check_text(html)
    page = html_page(html, source_url)
    sections = tuple(s for s in page.sections if not s.path or s.runs[0][0].start_line < s.runs[0][0].end_line)
    if not sections:
        raise PageError("the page shows no text (navigation, site header, footer and scripts are left out)")
    return replace(page, file_path=file_path, title=page.title or PurePosixPath(file_path).stem, sections=sections)


def page_path(source_url: str) -> str:
    """Return the path of an address, in place of the file that a web page lacks."""
    return urlsplit(source_url).path.strip("/") or "index"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Line:
    """A line of text as a browser breaks it in a wide window; `level` is 1 to 6 for a heading, else 0."""

    text: str
    level: int
    in_main: bool
    origin: tuple[int, int]


def _marks(tag: str, attributes: Mapping[str, str], around: frozenset[str]) -> frozenset[str]:
    """Return what holds for the text inside of an element: `skipped`, and the elements of a meaning that it is in."""
    role, marks = attributes.get("role"), {tag} & {"pre", "article", "main", *HEADINGS}
    # The header of an article holds its title, that of a site its menu.
    frame = tag in ("header", "footer") and not around & {"article", "main"}
    if frame or tag in SKIPPED or role in ROLES or "hidden" in attributes:
        marks.add("skipped")
    return around | marks | ({"main"} if role == "main" else set())


def _shown(root: Any) -> tuple[list[_Line], set[str], str]:
    """Return the lines that a page shows, the ids of its elements, and its title."""
    from lxml import etree

    lines, ids, titles, words = list[_Line](), set[str](), list[str](), list[str]()
    places, at, origin = [frozenset[str]()], 1, (0, 0)

    def end_line() -> None:
        nonlocal origin
        level = max((int(tag[1]) for tag in HEADINGS if tag in places[-1]), default=0)
        # Docusaurus ends headings with U+200B, Sphinx with a pilcrow.
        text = "".join(words).replace("\u200b", "")
        text = text.rstrip() if "pre" in places[-1] else " ".join(text.split())
        text = text.rstrip("¶ ") if level else text
        if text:
            lines.append(_Line(text=text, level=level, in_main="main" in places[-1], origin=origin))
        words.clear()
        origin = (0, 0)

    def read(text: str) -> None:
        nonlocal at, origin
        for number, part in enumerate(text.split("\n")):
            if number:
                at += 1
                words.append("\n")
                if "pre" in places[-1]:
                    end_line()
            if "skipped" not in places[-1]:
                words.append(part)
                origin = (origin[0] or at, at) if part.strip() else origin

    for event, element in etree.iterwalk(root, events=("start", "end", "comment", "pi")):
        # libxml2 stops to count lines at 65,535; from there on the line ends in the text tell.
        at = max(at, element.sourceline or 0)
        if event in ("start", "end") and element.tag in BREAKING:
            end_line()
        if event == "start":
            # The cells of a row are one line.
            words += [" "] if element.tag in ("td", "th") else []
            # A fragment of the page's address names an element's id, or the name of an old anchor.
            keys = ("id", "name") if element.tag == "a" else ("id",)
            ids |= {element.attrib[key] for key in keys if key in element.attrib}
            titles += [element.text or ""] if element.tag == "title" and "skipped" not in places[-1] else []
            places.append(_marks(element.tag, element.attrib, places[-1]))
            read(element.text or "")
        else:
            if event == "end":
                places.pop()
            read(element.tail or "")
    end_line()
    return lines, ids, next(filter(None, (" ".join(title.split()) for title in titles)), "")


def _under_headings(lines: Sequence[_Line]) -> Iterator[PageSection]:
    """Return each heading with the lines below it, up to the next heading."""
    starts = [number for number, line in enumerate(lines) if line.level or not number]
    path: list[tuple[int, str]] = []
    for start, end in pairwise([*starts, len(lines)]):
        top = lines[start]
        path = [*((n, t) for n, t in path if n < top.level), (top.level, top.text)] if top.level else path
        text = "\n".join(line.text for line in lines[start:end])
        block = Block(text=text, start_line=start + 1, end_line=end)
        yield PageSection(path=tuple(text for _, text in path), runs=((block,),))


# Reads a page from its bytes, its path below the folder and the base of addresses; beside it the largest size.
Kind = tuple[Callable[[bytes, str, str], Page], int]
MARKDOWN: Kind = (lambda data, path, base: parse_page(decoded(data), path, base), 4 * MEBIBYTE)
HTML: Kind = (lambda data, path, base: html_file(decoded_html(data), path, _served(path, base)), 32 * MEBIBYTE)
TEXT: Kind = (lambda data, path, base: text_page(decoded(data), path, _served(path, base)), 32 * MEBIBYTE)
PDF: Kind = (lambda data, path, base: pdf_page(data, path, _served(path, base)), 256 * MEBIBYTE)
KINDS: Mapping[str, Kind] = (
    dict.fromkeys((".md", ".mdx"), MARKDOWN)
    | dict.fromkeys((".html", ".htm", ".xhtml"), HTML)
    | dict.fromkeys((".txt", ".text"), TEXT)
    | {".pdf": PDF}
)


def _served(file_path: str, base_url: str) -> str:
    """Return the address of a file that a site serves as it is, under its own name."""
    return f"{base_url.rstrip('/')}/{file_path}"

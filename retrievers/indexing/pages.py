"""The pages of a folder: Markdown, HTML, plain text and PDF, each read alone, so that a fault names its page."""

import hashlib
import logging
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from retrievers.config import IndexSettings
from retrievers.embedding.tokens import count_tokens
from retrievers.errors import IndexingError
from retrievers.indexing.chunking import chunk_page
from retrievers.indexing.html_page import html_file
from retrievers.indexing.markdown import Block, Page, PageError, PageSection, parse_page
from retrievers.records import Chunk
from retrievers.text.charsets import decoded, decoded_html
from retrievers.text.printable import printable
from retrievers.text.quoting import quoted

PASSWORD = "is protected by a password; save a copy without one"
LONGEST_TITLE = 500
# Pages without text that a note names.
SHOWN = 10
MEBIBYTE = 2**20


@dataclass(frozen=True, kw_only=True)
class FileKind:
    """A kind of file.

    Attributes:
        read: Makes a page of the content, the path below the folder and the base of addresses; raises PageError.
        most_bytes: Largest size.
    """

    read: Callable[[bytes, str, str], Page]
    most_bytes: int


def file_address(file_path: str, base_url: str) -> str:
    """Return the address of a file that a site serves as it is, under its own name."""
    return f"{base_url.rstrip('/')}/{file_path}"


MARKDOWN = FileKind(read=lambda data, path, base: parse_page(decoded(data), path, base), most_bytes=4 * MEBIBYTE)
HTML = FileKind(
    read=lambda data, path, base: html_file(decoded_html(data), path, file_address(path, base)),
    most_bytes=32 * MEBIBYTE,
)
TEXT = FileKind(
    read=lambda data, path, base: text_page(decoded(data), path, file_address(path, base)), most_bytes=32 * MEBIBYTE
)
PDF = FileKind(read=lambda data, path, base: pdf_page(data, path, file_address(path, base)), most_bytes=256 * MEBIBYTE)
KINDS: Mapping[str, FileKind] = {
    ".md": MARKDOWN,
    ".mdx": MARKDOWN,
    ".html": HTML,
    ".htm": HTML,
    ".xhtml": HTML,
    ".txt": TEXT,
    ".text": TEXT,
    ".pdf": PDF,
}
# Documents that nothing here reads, which are counted so that nobody thinks that they were indexed.
OTHER_DOCUMENTS = frozenset(
    {".adoc", ".doc", ".docx", ".epub", ".ipynb", ".markdown", ".odt", ".org", ".ppt", ".pptx", ".rst", ".rtf", ".tex"}
)


def pdf_page(data: bytes, file_path: str, source_url: str) -> Page:
    """Return the text of a PDF; pages without text are named in `blank_pages`.

    Raises:
        PageError: The reader is not installed, the file is no PDF or protected, or no page has text.
    """
    title, texts = _pdf_texts(data)
    filled = [(number, text) for number, text in enumerate(texts, 1) if text]
    if not filled:
        pages = f"none of its {len(texts)} pages has" if len(texts) != 1 else "its page has no"
        raise PageError(f"{pages} text: a scan? Make its text readable first, for example: ocrmypdf IN.pdf OUT.pdf")
    lines, origins, sections = list[str](), list[tuple[int, int]](), list[PageSection]()
    for number, text in filled:
        start, added = len(lines) + 1, text.split("\n")
        lines += added
        origins += [(number, number)] * len(added)
        sections.append(PageSection(path=(), runs=((Block(text=text, start_line=start, end_line=len(lines)),),)))
    return Page(
        file_path=file_path,
        source_url=source_url,
        title=title or PurePosixPath(file_path).stem,
        tags=(),
        sidebar_position=None,
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
            raise PageError(PASSWORD)
        title = _clean(reader.metadata.title if reader.metadata else None)
        return " ".join(title.split())[:LONGEST_TITLE], [_clean(page.extract_text()) for page in reader.pages]
    except PageError:
        raise
    except (FileNotDecryptedError, DependencyError):
        raise PageError(PASSWORD) from None
    except Exception as error:  # of a broken file it raises many kinds
        raise PageError(f"cannot be read as a PDF: {type(error).__name__}: {error}") from error


def _clean(text: Any) -> str:
    """Return a text without surrounding blank lines, NUL characters and halves of characters."""
    whole = str(text or "").replace("\0", "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return "\n".join(line.rstrip() for line in whole.strip("\n").splitlines()).strip("\n")


def text_page(text: str, file_path: str, source_url: str) -> Page:
    """Return the page of a text; its title is the name of its file.

    Raises:
        PageError: It is empty, or no text.
    """
    if "\0" in text:
        raise PageError("holds NUL characters: a binary file, or UTF-16 without a byte order mark")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    blocks = paragraphs(text)
    if not blocks:
        raise PageError("the file has no text")
    return Page(
        file_path=file_path,
        source_url=source_url,
        title=PurePosixPath(file_path).stem,
        tags=(),
        sidebar_position=None,
        text=text,
        sections=(PageSection(path=(), runs=(blocks,)),),
    )


def paragraphs(text: str) -> tuple[Block, ...]:
    """Return the paragraphs of a text, verbatim."""
    numbered = enumerate(text.split("\n"), 1)
    groups = (list(group) for filled, group in groupby(numbered, key=lambda line: bool(line[1].strip())) if filled)
    return tuple(
        Block(text="\n".join(line for _, line in group), start_line=group[0][0], end_line=group[-1][0])
        for group in groups
    )


# A folder


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Pages read from a folder.

    Attributes:
        folder: Folder of the pages.
        pages: The pages that could be parsed, in path order; of two with one address the first.
        broken: Path below the folder and fault of each file that could not be read.
        fingerprint: SHA-256 over the base of the addresses and every file's path and bytes.
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

    def defaults(self, _: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings for which pages have defaults of their own: headings are embedded where there are any."""
        headed = any(section.path for page in self.pages for section in page.sections)
        return {"context": "path"} if headed else {}

    def cut(self, settings: IndexSettings) -> Iterator[Chunk]:
        """Cut all pages into chunks."""
        return (chunk for page in self.pages for chunk in chunk_page(page, count_tokens=count_tokens, **settings.named))

    @property
    def notes(self) -> tuple[str, ...]:
        """One line on what was left out of each page, and one on the files that were not read."""
        kinds = ", ".join(f"{suffix} {count}" for suffix, count in sorted(self.unread.items()))
        unread = (f"documents that are not read: {kinds}; convert them to HTML, PDF or text",) if kinds else ()
        return (*(_blank_pages(page) for page in self.pages if page.blank_pages), *unread)

    @property
    def faults(self) -> tuple[str, ...]:
        """One line per broken file, beginning with its path."""
        return tuple(f"{self.folder / file}: {fault}" for file, fault in self.broken.items())


def read_corpus(folder: Path, base_url: str = "/docs") -> Corpus:
    """Read and parse every page below a folder: Markdown, HTML, plain text and PDF.

    Files and folders that begin with `_` or `.` are not pages.

    Raises:
        IndexingError: The folder does not exist, or holds no page.
    """
    if not folder.is_dir():
        raise IndexingError(f"{folder}: expected a folder of pages, found {'a file' if folder.exists() else 'nothing'}")
    named = [f for f in folder.rglob("*") if not _is_partial(f, folder)]
    files = sorted(f for f in named if f.suffix.lower() in KINDS)
    if not files:
        raise IndexingError(f"{folder}: holds no page ({', '.join(KINDS)}); nothing was changed")
    broken, digest = dict[str, str](), hashlib.sha256(f"{base_url}\0".encode())
    by_address: dict[str, Page] = {}
    for file in files:
        name = file.relative_to(folder).as_posix()
        try:
            data = _read(file, folder)
            digest.update(f"{name}\0{len(data)}\0".encode() + data)
            page = KINDS[file.suffix.lower()].read(data, name, base_url)
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


def _read(file: Path, folder: Path) -> bytes:
    """Return the bytes of a page.

    Raises:
        PageError: It is no file of this folder, or too large to be a page.
        OSError: It cannot be read.
    """
    if not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(folder)):
        raise PageError("a link that leads out of the folder is not followed; copy the page, or index its own folder")
    # A pipe without a writer would wait for one.
    descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "rb") as opened:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise PageError("not a file, but a pipe or a device")
        most_bytes = KINDS[file.suffix.lower()].most_bytes
        if status.st_size > most_bytes:
            raise PageError(f"holds {status.st_size:,} bytes; expected at most {most_bytes:,} in a page")
        return opened.read(most_bytes)


def _said(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return (
            f"not {error.encoding.upper()} (byte {error.start}: {error.reason}); convert it, for example: "
            "iconv -f LATIN1 -t UTF-8"
        )
    if isinstance(error, UnicodeEncodeError):
        return "its name is not UTF-8; rename it"
    return f"cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)


def _blank_pages(page: Page) -> str:
    blank = page.blank_pages
    numbers = ", ".join(map(str, blank[:SHOWN])) + (", …" if len(blank) > SHOWN else "")
    count = len(blank) + len(set(page.origins))
    return f"{page.file_path}: {len(blank)} of its {count} pages without text (pictures? a scan?): {numbers}"


def _is_partial(file: Path, folder: Path) -> bool:
    return any(part.startswith(("_", ".")) for part in file.relative_to(folder).parts)

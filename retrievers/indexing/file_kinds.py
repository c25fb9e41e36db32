"""The kinds of files that are pages: how each is read (PDF and plain text here), and how large it may be."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from itertools import groupby
from pathlib import PurePosixPath
from typing import Any

from retrievers.indexing.front_matter import PageError
from retrievers.indexing.html_page import html_file
from retrievers.indexing.markdown import Block, Page, PageSection, parse_page
from retrievers.text.charsets import decoded, decoded_html

PASSWORD = "is protected by a password; save a copy without one"
LONGEST_TITLE = 500
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
    title, texts = _read(data)
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


def _read(data: bytes) -> tuple[str, list[str]]:
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

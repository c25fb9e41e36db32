"""A PDF as a page: each of its pages a section, known by its number."""

import logging
from io import BytesIO
from pathlib import PurePosixPath
from typing import Any

from retrievers.indexing.front_matter import PageError
from retrievers.indexing.markdown import Block, Page, PageSection

PASSWORD = "is protected by a password; save a copy without one"
LONGEST_TITLE = 500


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

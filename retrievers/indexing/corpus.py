"""The pages of a folder, each read and parsed alone, so that a fault names its page."""

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from retrievers.config import IndexSettings
from retrievers.embedding.tokens import count_tokens
from retrievers.errors import IndexingError
from retrievers.indexing.chunking import chunk_page
from retrievers.indexing.file_kinds import KINDS, OTHER_DOCUMENTS
from retrievers.indexing.front_matter import PageError
from retrievers.indexing.markdown import Page
from retrievers.records import Chunk
from retrievers.text.printable import printable
from retrievers.text.quoting import quoted

# Pages without text that a note names.
SHOWN = 10


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
        """Return the settings for which pages have defaults of their own: none."""
        return {}

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

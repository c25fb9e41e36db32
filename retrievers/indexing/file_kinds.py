"""The kinds of files that are pages, by the end of their names: how each is read, and how large it may be."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from retrievers.indexing.html_page import html_file
from retrievers.indexing.markdown import Page, parse_page
from retrievers.indexing.pdf_pages import pdf_page
from retrievers.indexing.plain_text import text_page
from retrievers.text.charsets import decoded, decoded_html

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

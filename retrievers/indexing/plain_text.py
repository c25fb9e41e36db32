"""A file of plain text as a page: its paragraphs, which blank lines part."""

from itertools import groupby
from pathlib import PurePosixPath

from retrievers.indexing.front_matter import PageError
from retrievers.indexing.markdown import Block, Page, PageSection


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

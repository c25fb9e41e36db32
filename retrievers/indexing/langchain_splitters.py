"""LangChain's text splitters, with the place of each piece, which they do not tell. Pure."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Literal

from retrievers.embedding.tokens import tokenizer
from retrievers.indexing.markdown import Block, Page, PageSection

# A stretch of a page, verbatim, and the sections that it touches.
Piece = tuple[Block, tuple[PageSection, ...]]


def pieces_by_characters(
    page: Page, splitter: Literal["recursive", "markdown"], *, chunk_size: int, chunk_overlap: int
) -> Iterator[Piece]:
    """Cut a page as `RecursiveCharacterTextSplitter` does, or `MarkdownTextSplitter`.

    Args:
        page: The page; what stands before its first block (front matter) is left out.
        splitter: Which of the two.
        chunk_size: Largest length of a piece, in characters.
        chunk_overlap: Characters of a piece that the next one repeats, at most.
    """
    from langchain_text_splitters import MarkdownTextSplitter, RecursiveCharacterTextSplitter

    kind = RecursiveCharacterTextSplitter if splitter == "recursive" else MarkdownTextSplitter
    first, text = _body(page)
    start, before, stretches = -1, "", list[tuple[int, str]]()
    for piece in kind(chunk_size=chunk_size, chunk_overlap=chunk_overlap).split_text(text):
        # A piece that is repeated as a whole by the next one begins where that begins.
        least = start if before and piece.startswith(before) and piece != before else start + 1
        start, before = text.find(piece, max(least, start + len(before) - chunk_overlap)), piece
        stretches.append((start, piece))
    return _placed(page, first, text, stretches)


def pieces_by_tokens(page: Page, size: int, overlap: int) -> Iterator[Piece]:
    """Cut a page as `TokenTextSplitter` does, by the packaged tokenizer: tiktoken would download its table.

    Args:
        page: The page; what stands before its first block (front matter) is left out.
        size: Tokens of a piece.
        overlap: Tokens of a piece that the next one repeats.
    """
    from langchain_text_splitters.base import Tokenizer, split_text_on_tokens

    first, text = _body(page)
    spans = tokenizer().encode(text, add_special_tokens=False).offsets
    stretches = list[tuple[int, str]]()

    def stretch(places: Sequence[int]) -> str:
        # In place of decoded tokens, which may lack blanks and hold parts of characters.
        start, end = spans[places[0]][0], spans[places[-1]][1]
        stretches.append((start, text[start:end]))
        return text[start:end]

    split_text_on_tokens(
        text=text,
        tokenizer=Tokenizer(
            chunk_overlap=overlap,
            tokens_per_chunk=size,
            decode=stretch,
            encode=lambda _: list(range(len(spans))),
        ),
    )
    return _placed(page, first, text, stretches)


def _body(page: Page) -> tuple[int, str]:
    """Return the first line with text of the page's own, and the text from there on."""
    first = page.sections[0].runs[0][0].start_line
    return first, "\n".join(page.text.split("\n")[first - 1 :])


def _placed(page: Page, first: int, text: str, stretches: Sequence[tuple[int, str]]) -> Iterator[Piece]:
    """Return the lines and sections of stretches, without surrounding white space; blank ones are left out."""
    starts = [section.runs[0][0].start_line for section in page.sections]
    line, counted = first, 0
    for start, stretch in stretches:
        piece = stretch.strip()
        if not piece:
            continue
        own = start + len(stretch) - len(stretch.lstrip())
        # A stretch that repeats the end of the one before begins above it.
        line += text.count("\n", counted, own) - text.count("\n", own, counted)
        counted, end = own, line + piece.count("\n")
        above = max(0, bisect_right(starts, line) - 1)
        yield (
            Block(text=piece, start_line=line, end_line=end),
            page.sections[above : max(above + 1, bisect_right(starts, end))],
        )

"""Sections to chunks: whole blocks packed up to a token budget, nothing reworded. Pure."""

import hashlib
import re
import uuid
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import PurePosixPath

from retrievers.config.indexing import Context, Splitter
from retrievers.indexing.markdown import Block, Page, PageSection
from retrievers.records import Chunk, with_context

SECTION_SEPARATOR = " > "
TokenCounter = Callable[[str], int]
WHITE_SPACE = re.compile(r"\s+")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
# Characters: no tokenizer's vocabulary holds longer ones.
LONGEST_TOKEN = 64
Fits = Callable[[str], bool]
Path = tuple[str, ...]
# Returns True if a text fits into one chunk under these headings.
FitsUnder = Callable[[Path, str], bool]
# A stretch of a page, verbatim, and the sections that it touches.
Piece = tuple[Block, tuple[PageSection, ...]]
DEFAULT_MAX_TOKENS = 256
# Suffixes of the pages that a site serves under their own names.
SERVED = frozenset({".html", ".htm", ".xhtml", ".txt", ".text", ".pdf"})
# Rises when pages are parsed or cut otherwise than before, so that collections made earlier count as out of date.
CHUNKING_VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Passage:
    """A part of a page that is cut into chunks by itself.

    Attributes:
        path: The headings above all of it.
        sections: The sections that it holds, in their order.
        runs: Their blocks, in runs that are contiguous in the source.
    """

    path: Path
    sections: tuple[PageSection, ...]
    runs: tuple[tuple[Block, ...], ...]


def passages(page: Page) -> Iterator[Passage]:
    """Return each section of a page as a passage."""
    return (Passage(path=section.path, sections=(section,), runs=section.runs) for section in page.sections)


def merged(page: Page, fits: FitsUnder) -> Iterator[Passage]:
    """Join neighbouring sections of one parent while they fit together; the parent's own text counts as one of them."""
    lines = page.text.split("\n")
    held: Passage | None = None
    for passage in passages(page):
        joined = held and _joined(held, passage, lines, fits)
        if held and not joined:
            yield held
        held = joined or passage
    if held:
        yield held


def _joined(first: Passage, second: Passage, lines: Sequence[str], fits: FitsUnder) -> Passage | None:
    """Join two neighbouring passages; None where they have no common parent, do not touch, or are too long."""
    parent = second.path[:-1]
    siblings = len(first.sections) == 1 and parent == first.path[:-1]
    if not (siblings or parent == first.path) or len(first.runs) != 1 or len(second.runs) != 1:
        return None
    blocks = (*first.runs[0], *second.runs[0])
    between = lines[first.runs[0][-1].end_line : second.runs[0][0].start_line - 1]
    if any(line.strip() for line in between) or not fits(parent, join_blocks(blocks)):
        return None
    return Passage(path=parent, sections=(*first.sections, *second.sections), runs=(blocks,))


def recursive_pieces(page: Page, max_tokens: int, overlap: int, count_tokens: TokenCounter) -> Iterator[Piece]:
    """Cut a page as LangChain's `RecursiveCharacterTextSplitter` does, by tokens.

    Args:
        page: The page; what stands before its first block (front matter) is left out.
        max_tokens: Most tokens of a piece.
        overlap: Tokens of a piece that the next one repeats, at most.
        count_tokens: Counts the tokens of a text.
    """
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    splitter = RecursiveCharacterTextSplitter(
        chunk_size=max_tokens, chunk_overlap=overlap, length_function=count_tokens, add_start_index=True
    )
    first, text = _body(page)
    pieces = splitter.create_documents([text])
    return _placed(page, first, text, [(piece.metadata["start_index"], piece.page_content) for piece in pieces])


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


def chunk_page(
    page: Page,
    max_tokens: int,
    count_tokens: TokenCounter,
    *,
    context: Context = "none",
    splitter: Splitter = "sections",
    overlap: int = 0,
    merge_small: bool = False,
) -> tuple[Chunk, ...]:
    """Cut a page into chunks, section by section.

    A chunk holds whole paragraphs, lists, tables and fences as long as they fit into `max_tokens`; a block that does
    not fit is cut between lines, sentences or words, in this order. Every chunk is a verbatim stretch of the source.

    Args:
        page: The parsed page.
        max_tokens: Budget of one chunk with its context.
        count_tokens: Counts the tokens of a text.
        context: Context that the chunks get.
        splitter: `whole` makes one chunk of a page, whose id is the page's address; `recursive` cuts as LangChain does.
        overlap: Tokens at the end of a chunk that the next one of the section repeats, at most.
        merge_small: Put neighbouring sections of one parent into one chunk while they fit; it stands at the first.
    """
    # The same piece is counted several times while groups are tried.
    count_tokens = cache(count_tokens)

    @cache
    def context_under(path: tuple[str, ...]) -> str:
        return context_of(context, page.title, path, max_tokens // 2, count_tokens)

    def fits_under(path: tuple[str, ...]) -> Fits:
        return budget(max_tokens, count_tokens, context_under(path))

    in_overlap = budget(overlap, count_tokens) if overlap else None
    if splitter == "whole":
        pieces = [_whole(page)]
    elif splitter == "recursive":
        pieces = list(map(_alone, recursive_pieces(page, max_tokens, overlap, count_tokens)))
    else:
        parts = merged(page, lambda path, text: fits_under(path)(text)) if merge_small else passages(page)
        pieces = [
            (passage, group)
            for passage in parts
            for run in passage.runs
            for group in pack(run, fits_under(passage.path), in_overlap)
        ]
    counts: Counter[str] = Counter()
    chunks = []
    for index, (passage, group) in enumerate(pieces):
        text = join_blocks(group)
        path = SECTION_SEPARATOR.join(passage.sections[0].path)
        identity = "\x1f".join((page.source_url, path, text))
        # The occurrence tells equal chunks of a section apart; their order on the page is stable.
        chunk_id = page.source_url if splitter == "whole" else _digest(f"{identity}\x1f{counts[identity]}")[:32]
        counts[identity] += 1
        chunks.append(
            replace(
                _chunk(page, passage, group),
                chunk_id=chunk_id,
                point_id=point_id(chunk_id),
                text=text,
                content_hash=_digest(text),
                chunk_index=index,
                total_chunks=len(pieces),
                chunk_token_count=count_tokens(text),
                chunk_context=context_under(passage.path) or None,
            )
        )
    return tuple(chunks)


def point_id(chunk_id: str) -> str:
    """Return the Qdrant point id of a chunk: a UUID5 of its id, since Qdrant takes only UUIDs and integers."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, chunk_id))


def placement(file_path: str) -> tuple[str, str, str]:
    """Return a page's document id, module (first folder) and chapter (second folder or name).

    The document id is the path, of Markdown without suffix: guide.md and guide.pdf are two documents.
    """
    file = PurePosixPath(file_path)
    bare = file.with_suffix("")
    folders = file.parts[:-1]
    return (
        file_path if file.suffix.lower() in SERVED else bare.as_posix(),
        folders[0] if folders else bare.name,
        folders[1] if len(folders) > 1 else bare.name,
    )


def _alone(piece: Piece) -> tuple[Passage, Sequence[Block]]:
    block, sections = piece
    return Passage(path=sections[0].path, sections=sections, runs=((block,),)), (block,)


def _whole(page: Page) -> tuple[Passage, Sequence[Block]]:
    blocks = tuple(block for section in page.sections for run in section.runs for block in run)
    return Passage(path=(), sections=page.sections, runs=(blocks,)), blocks


def _chunk(page: Page, passage: Passage, group: Sequence[Block]) -> Chunk:
    section = passage.sections[0]
    document, module, chapter = placement(page.file_path)
    headings = tuple(dict.fromkeys(part.path[-1] if part.path else page.title for part in passage.sections))
    return Chunk(
        chunk_id="",
        point_id="",
        text="",
        source_url=page.source_url,
        title=page.title,
        section_path=SECTION_SEPARATOR.join(section.path) or page.title,
        heading=headings[0],
        source_document_id=document,
        module=module,
        chapter=chapter,
        tags=page.tags,
        sidebar_position=page.sidebar_position,
        file_path=page.file_path,
        **page.location(group[0].start_line, group[-1].end_line),
        chunk_headings=headings if len(headings) > 1 else None,
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# Packing


def join_blocks(blocks: Sequence[Block]) -> str:
    """Join blocks of one run: pieces of the same line by a space, lines by a break, blocks by a blank line."""
    text = blocks[0].text
    for before, after in pairwise(blocks):
        gap = after.start_line - before.end_line
        joint = "" if after.continues_word else " " if gap == 0 else "\n" * min(gap, 2)
        text += joint + after.text
    return text


def pack(run: Sequence[Block], fits: Fits, in_overlap: Fits | None = None) -> Iterator[Sequence[Block]]:
    """Group the pieces of blocks, each group as large as fits, and begin it with the end of the one before.

    Args:
        run: Blocks that are contiguous in the source.
        fits: Check of a group's text against the budget.
        in_overlap: Check of a repeated end against its own budget; nothing is repeated without.
    """
    pieces = [piece for block in run for piece in _split(block, fits)]
    start, repeated = 0, list[Block]()
    while start < len(pieces):
        while repeated and not fits(join_blocks([*repeated, pieces[start]])):
            repeated = repeated[1:]
        end = _end_of_group(repeated, pieces, start, fits)
        group = [*repeated, *pieces[start:end]]
        yield group
        start, repeated = end, _tail(group, in_overlap) if in_overlap else []


def _tail(group: Sequence[Block], fits: Fits) -> list[Block]:
    """Return the last lines, sentences or words of a group that fit."""
    tail: list[Block] = []
    for block in reversed(group):
        for piece in reversed([*_split(block, fits)]):
            if not fits(join_blocks([piece, *tail])):
                return tail
            tail.insert(0, piece)
    return tail


def _end_of_group(before: Sequence[Block], pieces: Sequence[Block], start: int, fits: Fits) -> int:
    """Return the end of the pieces from `start` on that fit after others, by doubling and then halving the step."""

    def together(end: int) -> bool:
        return fits(join_blocks([*before, *pieces[start:end]]))

    fitting, step = start + 1, 1
    while fitting < len(pieces) and together(fitting + step):
        fitting, step = min(fitting + step, len(pieces)), 2 * step
    # Between the last group that fits and the first that does not, by bisection.
    beyond = min(fitting + step, len(pieces) + 1)
    while beyond - fitting > 1:
        middle = (fitting + beyond) // 2
        fitting, beyond = (middle, beyond) if together(middle) else (fitting, middle)
    return min(fitting, len(pieces))


def _split(block: Block, fits: Fits) -> Iterator[Block]:
    """Cut a block that does not fit: between its lines, else its sentences, else words, else inside a word."""
    if fits(block.text):
        yield block
        return
    lines = block.text.split("\n")
    if len(lines) > 1:
        for number, line in enumerate(lines, block.start_line):
            if line.strip():
                yield from _split(Block(text=line, start_line=number, end_line=number), fits)
        return
    text = block.text.strip()
    sentences = SENTENCE_END.split(text)
    whole = len(sentences) == 1
    for index, sentence in enumerate(sentences):
        piece = replace(block, text=sentence, continues_word=block.continues_word and index == 0)
        yield from _split_words(piece, fits) if whole else _split(piece, fits)


def _split_words(block: Block, fits: Fits) -> Iterator[Block]:
    """Halve a line without sentences between its words, and the halves again, as far as needed."""
    text = block.text
    gaps = [gap.span() for gap in WHITE_SPACE.finditer(text)]

    def halves(first: int, last: int, start: int, end: int) -> Iterator[Block]:
        piece = replace(block, text=text[start:end], continues_word=block.continues_word and start == 0)
        if fits(piece.text):
            yield piece
        elif first == last:
            yield from _split_word(piece, fits)
        else:
            middle = (first + last - 1) // 2
            yield from halves(first, middle, start, gaps[middle][0])
            yield from halves(middle + 1, last, gaps[middle][1], end)

    yield from halves(0, len(gaps), 0, len(text))


def _split_word(block: Block, fits: Fits) -> Iterator[Block]:
    text = block.text
    if len(text) < 2 or fits(text):
        yield block
        return
    yield from _split_word(replace(block, text=text[: len(text) // 2]), fits)
    yield from _split_word(replace(block, text=text[len(text) // 2 :], continues_word=True), fits)


def budget(max_tokens: int, count_tokens: TokenCounter, context: str = "") -> Fits:
    """Return a check of texts against the budget; one that is surely too long is not counted, which takes time."""

    def fits(text: str) -> bool:
        # Each word takes at least one token, and no token is longer than LONGEST_TOKEN.
        if len(text) > LONGEST_TOKEN * max_tokens or len(text.split()) > max_tokens:
            return False
        return count_tokens(with_context(context, text)) <= max_tokens

    return fits


def context_of(context: Context, title: str, path: Sequence[str], max_tokens: int, count_tokens: TokenCounter) -> str:
    """Return the context of a section's chunks: its last words that fit, so that room is left for the text.

    Args:
        context: Part of the page's structure that makes it; a heading that repeats another one is left out.
        title: Title of the page.
        path: The headings above the text, from the page's top.
        max_tokens: Most tokens of the context.
        count_tokens: Counts the tokens of a text.
    """
    parts = {"none": [], "title": [title], "path": [title, *path]}[context]
    words = SECTION_SEPARATOR.join(dict.fromkeys(part for part in parts if part)).split()
    # The deepest heading says most about the text.
    start = bisect_left(range(len(words)), True, key=lambda first: count_tokens(" ".join(words[first:])) <= max_tokens)
    return " ".join(words[start:])

"""Sections to chunks: whole blocks packed up to a token budget, no overlap, nothing reworded. Pure."""

import hashlib
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import PurePosixPath

from retrievers.config.indexing import Context
from retrievers.indexing.contexts import SECTION_SEPARATOR, TokenCounter, context_of
from retrievers.indexing.markdown import Block, Page, PageSection
from retrievers.records import Chunk, with_context

DEFAULT_MAX_TOKENS = 256
# Rises when pages are parsed or cut otherwise than before, so that collections made earlier count as out of date.
CHUNKING_VERSION = 1
WHITE_SPACE = re.compile(r"\s+")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
# Characters: no tokenizer's vocabulary holds longer ones.
LONGEST_TOKEN = 64
Fits = Callable[[str], bool]


def chunk_page(
    page: Page, max_tokens: int, count_tokens: TokenCounter, *, context: Context = "none"
) -> tuple[Chunk, ...]:
    """Cut a page into chunks, section by section.

    A chunk holds whole paragraphs, lists, tables and fences as long as they fit into `max_tokens`; a block that does
    not fit is cut between lines, sentences or words, in this order. Every chunk is a verbatim stretch of the source.

    Args:
        page: The parsed page.
        max_tokens: Budget of one chunk with its context.
        count_tokens: Counts the tokens of a text.
        context: Context that the chunks get.
    """
    # The same piece is counted several times while groups are tried.
    count_tokens = cache(count_tokens)
    pieces = []
    for section in page.sections:
        before = context_of(context, page.title, section.path, max_tokens // 2, count_tokens)
        fits = _fits(max_tokens, count_tokens, before)
        pieces += [(section, before, group) for run in section.runs for group in _pack(run, fits)]
    counts: Counter[str] = Counter()
    chunks = []
    for index, (section, before, group) in enumerate(pieces):
        text = join_blocks(group)
        path = SECTION_SEPARATOR.join(section.path)
        identity = "\x1f".join((page.source_url, path, text))
        # The occurrence tells equal chunks of a section apart; their order on the page is stable.
        chunk_id = _digest(f"{identity}\x1f{counts[identity]}")[:32]
        counts[identity] += 1
        chunks.append(
            replace(
                _chunk(page, section, group),
                chunk_id=chunk_id,
                point_id=point_id(chunk_id),
                text=text,
                content_hash=_digest(text),
                chunk_index=index,
                total_chunks=len(pieces),
                chunk_token_count=count_tokens(text),
                chunk_context=before or None,
            )
        )
    return tuple(chunks)


def point_id(chunk_id: str) -> str:
    """Return the Qdrant point id of a chunk: a UUID5 of its id, since Qdrant takes only UUIDs and integers."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, chunk_id))


def join_blocks(blocks: Sequence[Block]) -> str:
    """Join blocks of one run: pieces of the same line by a space, lines by a break, blocks by a blank line."""
    text = blocks[0].text
    for before, after in pairwise(blocks):
        gap = after.start_line - before.end_line
        joint = "" if after.continues_word else " " if gap == 0 else "\n" * min(gap, 2)
        text += joint + after.text
    return text


def placement(file_path: str) -> tuple[str, str, str]:
    """Return a page's document id (path without suffix), module (first folder) and chapter (second folder or name)."""
    document = PurePosixPath(file_path).with_suffix("")
    folders = document.parts[:-1]
    return (
        document.as_posix(),
        folders[0] if folders else document.name,
        folders[1] if len(folders) > 1 else document.name,
    )


def _chunk(page: Page, section: PageSection, group: Sequence[Block]) -> Chunk:
    document, module, chapter = placement(page.file_path)
    return Chunk(
        chunk_id="",
        point_id="",
        text="",
        source_url=page.source_url,
        title=page.title,
        section_path=SECTION_SEPARATOR.join(section.path) or page.title,
        heading=section.path[-1] if section.path else page.title,
        source_document_id=document,
        module=module,
        chapter=chapter,
        tags=page.tags,
        sidebar_position=page.sidebar_position,
        file_path=page.file_path,
        start_line=group[0].start_line,
        end_line=group[-1].end_line,
    )


def _pack(run: Sequence[Block], fits: Fits) -> Iterator[Sequence[Block]]:
    """Group the pieces of blocks, each group as large as fits."""
    pieces = [piece for block in run for piece in _split(block, fits)]
    start = 0
    while start < len(pieces):
        end = _end_of_group(pieces, start, fits)
        yield pieces[start:end]
        start = end


def _end_of_group(pieces: Sequence[Block], start: int, fits: Fits) -> int:
    """Return the end of the pieces from `start` on that fit together, by doubling and then halving the step."""
    fitting, step = start + 1, 1
    while fitting < len(pieces) and fits(join_blocks(pieces[start : fitting + step])):
        fitting, step = min(fitting + step, len(pieces)), 2 * step
    # Between the last group that fits and the first that does not, by bisection.
    beyond = min(fitting + step, len(pieces) + 1)
    while beyond - fitting > 1:
        middle = (fitting + beyond) // 2
        fitting, beyond = (middle, beyond) if fits(join_blocks(pieces[start:middle])) else (fitting, middle)
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


def _fits(max_tokens: int, count_tokens: TokenCounter, context: str) -> Fits:
    """Return a check of texts against the budget; one that is surely too long is not counted, which takes time."""

    def fits(text: str) -> bool:
        # Each word takes at least one token, and no token is longer than LONGEST_TOKEN.
        if len(text) > LONGEST_TOKEN * max_tokens or len(text.split()) > max_tokens:
            return False
        return count_tokens(with_context(context, text)) <= max_tokens

    return fits


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

"""Sections to chunks: whole blocks packed up to a token budget, nothing reworded. Pure."""

import hashlib
import re
import uuid
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice, pairwise

from retrievers.config.indexing import Context, Splitter
from retrievers.indexing.markdown import Block, Page, PageSection
from retrievers.records import Chunk, with_context

SECTION_SEPARATOR = " > "
WHITE_SPACE = re.compile(r"\s+")
# The last line of a fence or an admonition, which a cut may leave alone.
CLOSING = re.compile(r"\s*(:{3,}|`{3,}|~{3,})\s*")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
# Characters: no tokenizer's vocabulary holds longer ones.
LONGEST_TOKEN = 64
DEFAULT_MAX_TOKENS = 256
# Rises when pages are parsed or cut otherwise than before, so that collections made earlier count as out of date.
CHUNKING_VERSION = 3
TokenCounter = Callable[[str], int]
Fits = Callable[[str], bool]
Path = tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Passage:
    """A part of a page.

    Attributes:
        path: The headings above all of it.
        sections: The sections that it touches.
        runs: Its blocks, in runs that are contiguous in the source; a passage that becomes a chunk has one.
    """

    path: Path
    sections: tuple[PageSection, ...]
    runs: tuple[Sequence[Block], ...]


def chunk_page(
    page: Page,
    max_tokens: int,
    count_tokens: TokenCounter,
    *,
    context: Context = "none",
    splitter: Splitter = "sections",
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
        splitter: `whole` makes one chunk of a page, whose id is the page's address.
        merge_small: Put neighbouring sections of one parent into one chunk while they fit; it stands at the first.
    """
    # The same piece is counted several times while groups are tried.
    count_tokens = cache(count_tokens)
    context_under = cache(lambda path: context_of(context, page.title, path, max_tokens // 2, count_tokens))

    def fits_under(path: Path) -> Fits:
        return _budget(max_tokens, count_tokens, context_under(path))

    if splitter == "whole":
        blocks = [block for section in page.sections for run in section.runs for block in run]
        pieces = [Passage(path=(), sections=page.sections, runs=(blocks,))]
    else:
        passages = [Passage(path=section.path, sections=(section,), runs=section.runs) for section in page.sections]
        if merge_small:
            passages = _merged(passages, page.text.split("\n"), fits_under)
        pieces = [
            replace(passage, runs=(group,))
            for passage in passages
            for run in passage.runs
            for group in _packed(run, fits_under(passage.path), max_tokens)
            if not CLOSING.fullmatch(join_blocks(group))
        ]
    counts, facts, chunks = Counter[str](), page.facts, list[Chunk]()
    for index, piece in enumerate(pieces):
        [group] = piece.runs
        text, section_path = join_blocks(group), SECTION_SEPARATOR.join(piece.sections[0].path)
        headings = tuple(dict.fromkeys(section.path[-1] if section.path else page.title for section in piece.sections))
        identity = "\x1f".join((page.source_url, section_path, text))
        # The occurrence tells equal chunks of a section apart; their order on the page is stable.
        chunk_id = page.source_url if splitter == "whole" else _digest(f"{identity}\x1f{counts[identity]}")[:32]
        counts[identity] += 1
        chunk = Chunk(
            chunk_id=chunk_id,
            point_id=point_id(chunk_id),
            text=text,
            section_path=section_path or page.title or None,
            heading=headings[0] or None,
            chunk_index=index,
            total_chunks=len(pieces),
            content_hash=_digest(text),
            chunk_token_count=count_tokens(text),
            chunk_context=context_under(piece.path) or None,
            chunk_headings=headings if len(headings) > 1 else None,
            **facts,
            **page.location(group[0].start_line, group[-1].end_line),
        )
        chunks.append(chunk)
    return tuple(chunks)


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


def point_id(chunk_id: str) -> str:
    """Return the Qdrant point id of a chunk: a UUID5 of its id, since Qdrant takes only UUIDs and integers."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, chunk_id))


def join_blocks(blocks: Sequence[Block]) -> str:
    """Join blocks of one run: pieces of the same line by a space, lines by a break, blocks by a blank line."""
    text = blocks[0].text
    for before, after in pairwise(blocks):
        gap = after.start_line - before.end_line
        text += ("" if after.continues_word else "\n" * min(gap, 2) or " ") + after.text
    return text


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _merged(passages: Iterable[Passage], lines: Sequence[str], fits_under: Callable[[Path], Fits]) -> list[Passage]:
    """Join neighbouring sections of one parent while they touch and fit; the parent's own text counts as one."""
    merged = list[Passage]()
    for passage in passages:
        parent, before = passage.path[:-1], merged[-1] if merged else passage
        siblings = len(before.sections) == 1 and parent == before.path[:-1]
        if merged and (siblings or parent == before.path) and len(before.runs) == len(passage.runs) == 1:
            blocks = (*before.runs[0], *passage.runs[0])
            between = lines[before.runs[0][-1].end_line : passage.runs[0][0].start_line - 1]
            if not any(line.strip() for line in between) and fits_under(parent)(join_blocks(blocks)):
                sections = (*before.sections, *passage.sections)
                merged[-1] = Passage(path=parent, sections=sections, runs=(blocks,))
                continue
        merged.append(passage)
    return merged


# Packing


def _packed(run: Sequence[Block], fits: Fits, most: int) -> Iterator[list[Block]]:
    """Group the pieces of contiguous blocks, each group as large as fits.

    Args:
        run: The blocks.
        fits: Check of a group's text against the budget.
        most: Pieces that a group may have at most, as each has a token.
    """
    pieces = [piece for block in run for piece in _split(block, fits)]
    start = 0
    while start < len(pieces):
        group = _largest(pieces[start : start + most], fits)
        yield group
        start += len(group)


def _largest(pieces: Sequence[Block], fits: Fits) -> list[Block]:
    """Return the first pieces, as many as fit, at least one."""

    def is_too_long(count: int) -> bool:
        return not fits(join_blocks(pieces[:count]))

    return [*pieces[: 1 + bisect_left(range(2, len(pieces) + 1), True, key=is_too_long)]]


def _split(block: Block, fits: Fits) -> Iterator[Block]:
    """Cut a block that does not fit: between its lines, else its sentences, else in halves, between words if it can."""
    lines, text = block.text.split("\n"), block.text.strip()
    if len(text) < 2 or fits(block.text):
        yield block
        return
    if len(lines) > 1:
        for number, line in enumerate(lines, block.start_line):
            if line.strip():
                yield from _split(Block(text=line, start_line=number, end_line=number), fits)
        return
    parts, gaps = SENTENCE_END.split(text), sum(1 for _ in WHITE_SPACE.finditer(text))
    in_word = not gaps
    # A line may fit without its indent.
    if parts == [block.text]:
        # Only the gap in the middle is held: of a long text all of them take many times its memory.
        middle = next(islice(WHITE_SPACE.finditer(text), max(0, gaps - 1) // 2, None), None)
        start, end = middle.span() if middle else (len(text) // 2, len(text) // 2)
        parts = [text[:start], text[end:]]
    for index, part in enumerate(parts):
        yield from _split(replace(block, text=part, continues_word=in_word if index else block.continues_word), fits)


def _budget(max_tokens: int, count_tokens: TokenCounter, context: str = "") -> Fits:
    """Return a check of texts against the budget; one that is surely too long is not counted, which takes time."""

    def fits(text: str) -> bool:
        # Each word takes at least one token, and no token is longer than LONGEST_TOKEN.
        if len(text) > LONGEST_TOKEN * max_tokens or len(text.split()) > max_tokens:
            return False
        return count_tokens(with_context(context, text)) <= max_tokens

    return fits

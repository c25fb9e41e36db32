"""Cut the sections of a page into chunks: whole blocks, packed up to a token budget. Nothing is reworded. Pure."""

import re
import uuid
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain, islice, pairwise

from retrievers.config.indexing import Context, Splitter
from retrievers.indexing.markdown import Block, Page, PageSection
from retrievers.records import SECTION_SEPARATOR, Chunk, with_context
from retrievers.text import digest

WHITE_SPACE = re.compile(r"\s+")
# The last line of a fence or an admonition. A cut may separate it from the rest.
CLOSING = re.compile(r"\s*(:{3,}|`{3,}|~{3,})\s*")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
# Characters. No tokenizer has longer tokens in its vocabulary.
LONGEST_TOKEN = 64
# Raise it when pages are parsed or cut in another way: collections that were made before then count as out of date.
CHUNKING_VERSION = 7
TokenCounter = Callable[[str], int]
Fits = Callable[[str], bool]
Path = tuple[str, ...]
FitsUnder = Callable[[Path, str], bool]


@dataclass(frozen=True, kw_only=True, slots=True)
class Passage:
    """A part of a page.

    Attributes:
        path: The headings above the whole passage.
        sections: The sections that it touches.
        runs: Its blocks, in runs that are contiguous in the source. A passage that becomes a chunk has one run.
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

    A chunk holds whole paragraphs, lists, tables and fences as long as they fit into `max_tokens`. A block that does
    not fit is cut between lines, else between sentences, else between words. Every chunk is a verbatim stretch of the
    source.

    Args:
        page: The parsed page.
        max_tokens: Budget of one chunk with its context.
        count_tokens: Counts the tokens of a text.
        context: Context that the chunks get.
        splitter: `whole` makes one chunk of a page. The chunk's id is the page's address.
        merge_small: Put neighbouring sections of one parent into one chunk while they fit. The chunk gets the place of
            the first section.
    """
    # The same text is counted several times while groups are tried.
    count_tokens = cache(count_tokens)
    context_under = cache(lambda path: context_of(context, page.title, path, max_tokens // 2, count_tokens))

    def fits_under(path: Path, text: str) -> bool:
        # Counting takes time. Each word has at least one token, and no token is longer than LONGEST_TOKEN.
        if len(text) > LONGEST_TOKEN * max_tokens or len(text.split()) > max_tokens:
            return False
        whole = with_context(context_under(path), text)
        # Each token has at least one byte, but for one that marks the beginning of a text.
        return len(whole.encode()) < max_tokens or count_tokens(whole) <= max_tokens

    if splitter == "whole":
        last = page.sections[-1].runs[-1][-1]
        lines = page.text.split("\n")[page.start_line - 1 : last.end_line]
        block = Block(text="\n".join(lines), start_line=page.start_line, end_line=last.end_line)
        passages = [Passage(path=(), sections=page.sections, runs=((block,),))]
    else:
        passages = _passages(page, fits_under, max_tokens, merge_small=merge_small)
    # All headings of a whole page; a section stands under its own, and under those above it by its path.
    depth = None if splitter == "whole" else 1
    counts, facts, chunks = Counter[str](), page.facts, list[Chunk]()
    for index, passage in enumerate(passages):
        [run], sections = passage.runs, passage.sections
        text = join_blocks(run)
        section_path = SECTION_SEPARATOR.join(sections[0].path)
        under = (section.path[::-1][:depth] or (page.title,) for section in sections)
        headings = tuple(dict.fromkeys(chain.from_iterable(under)))
        identity = "\x1f".join((page.source_url, section_path, text))
        # The occurrence tells equal chunks of a section apart; their order on the page is stable.
        chunk_id = page.source_url if splitter == "whole" else digest(f"{identity}\x1f{counts[identity]}")[:32]
        counts[identity] += 1
        chunk = Chunk(
            chunk_id=chunk_id,
            point_id=point_id(chunk_id),
            text=text,
            section_path=section_path or page.title or None,
            heading=headings[0] or None,
            chunk_index=index,
            total_chunks=len(passages),
            content_hash=digest(text),
            chunk_token_count=count_tokens(text),
            chunk_context=context_under(passage.path) or None,
            chunk_headings=headings if len(headings) > 1 else None,
            **facts,
            **page.location(run[0].start_line, run[-1].end_line),
        )
        chunks.append(chunk)
    return tuple(chunks)


def context_of(context: Context, title: str, path: Sequence[str], max_tokens: int, count_tokens: TokenCounter) -> str:
    """Return the context of a section's chunks, of which the last words that fit.

    Args:
        context: Which headings make the context. A heading that repeats another one is left out.
        title: Title of the page.
        path: The headings above the text, from the page's top.
        max_tokens: Most tokens of the context, fewer than a chunk may have, so that room is left for the text.
        count_tokens: Counts the tokens of a text.
    """
    headings = {"none": [], "title": [title], "path": [title, *path]}[context]
    words = SECTION_SEPARATOR.join(filter(None, dict.fromkeys(headings))).split()
    # The deepest heading says most about the text.
    start = bisect_left(range(len(words)), True, key=lambda first: count_tokens(" ".join(words[first:])) <= max_tokens)
    return " ".join(words[start:])


def point_id(chunk_id: str) -> str:
    """Return the id of a chunk's point: a UUID5 of the chunk's id, since Qdrant takes only UUIDs and integers."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, chunk_id))


def join_blocks(blocks: Sequence[Block]) -> str:
    """Join the blocks of one run: pieces of a line by a space, lines by a line break, blocks by a blank line."""
    text = blocks[0].text
    for before, after in pairwise(blocks):
        gap = after.start_line - before.end_line
        text += ("" if after.continues_word else "\n" * min(gap, 2) or " ") + after.text
    return text


def _passages(page: Page, fits_under: FitsUnder, max_tokens: int, *, merge_small: bool) -> list[Passage]:
    """Cut the sections of a page, or merged sections, into passages that fit."""
    passages = [Passage(path=section.path, sections=(section,), runs=section.runs) for section in page.sections]
    if merge_small:
        passages = _merged(passages, page.text.split("\n"), fits_under)
    return [
        replace(passage, runs=(blocks,))
        for passage in passages
        for run in passage.runs
        for blocks in _packed(run, partial(fits_under, passage.path), max_tokens)
        if not CLOSING.fullmatch(join_blocks(blocks))
    ]


def _merged(passages: Iterable[Passage], lines: Sequence[str], fits_under: FitsUnder) -> list[Passage]:
    """Join neighbouring sections of one parent while they touch and fit. The parent's own text counts as a section."""
    merged = list[Passage]()
    for passage in passages:
        parent, before = passage.path[:-1], merged[-1] if merged else passage
        siblings = len(before.sections) == 1 and parent == before.path[:-1]
        if merged and (siblings or parent == before.path) and len(before.runs) == len(passage.runs) == 1:
            blocks = (*before.runs[0], *passage.runs[0])
            between = lines[before.runs[0][-1].end_line : passage.runs[0][0].start_line - 1]
            if not any(line.strip() for line in between) and fits_under(parent, join_blocks(blocks)):
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
        fits: Checks the text of a group against the budget.
        most: Most pieces of a group. Each piece has at least one token.
    """
    pieces = [piece for block in run for piece in _split(block, fits)]
    start = 0
    while start < len(pieces):
        group = _largest(pieces[start : start + most], fits)
        yield group
        start += len(group)


def _largest(pieces: Sequence[Block], fits: Fits) -> list[Block]:
    """Return as many of the first pieces as fit, at least one."""

    def is_too_long(count: int) -> bool:
        return not fits(join_blocks(pieces[:count]))

    return [*pieces[: 1 + bisect_left(range(2, len(pieces) + 1), True, key=is_too_long)]]


def _split(block: Block, fits: Fits) -> Iterator[Block]:
    """Cut a block that does not fit: between lines, else between sentences, else in halves, between words if it can."""
    lines, text = block.text.split("\n"), block.text.strip()
    if len(text) < 2 or fits(block.text):
        yield block
        return
    if len(lines) > 1:
        for number, line in enumerate(lines, block.start_line):
            if line.strip():
                yield from _split(Block(text=line, start_line=number, end_line=number), fits)
        return
    sentences, gaps = SENTENCE_END.split(text), sum(1 for _ in WHITE_SPACE.finditer(text))
    # A line may fit without its indent.
    if sentences == [block.text]:
        # Only the gap in the middle is held: the list of all gaps takes many times the memory of a long text.
        middle = next(islice(WHITE_SPACE.finditer(text), max(0, gaps - 1) // 2, None), None)
        start, end = middle.span() if middle else (len(text) // 2, len(text) // 2)
        sentences = [text[:start], text[end:]]
    for index, sentence in enumerate(sentences):
        continues_word = not gaps if index else block.continues_word
        yield from _split(replace(block, text=sentence, continues_word=continues_word), fits)

"""Blocks to groups within a token budget, whole or cut between lines, sentences or words. Pure."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from retrievers.config.indexing import Context
from retrievers.indexing.markdown import Block
from retrievers.records import with_context

SECTION_SEPARATOR = " > "
TokenCounter = Callable[[str], int]
WHITE_SPACE = re.compile(r"\s+")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
# Characters: no tokenizer's vocabulary holds longer ones.
LONGEST_TOKEN = 64
Fits = Callable[[str], bool]


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

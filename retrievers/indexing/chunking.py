"""Sections to chunks: whole blocks packed up to a token budget, no overlap, nothing reworded. Pure."""

import hashlib
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import PurePosixPath

from retrievers.indexing.markdown import Block, Page, Section
from retrievers.records import Chunk

SECTION_SEPARATOR = " > "
DEFAULT_MAX_TOKENS = 256
CHUNKING_VERSION = 1
"""Rises when pages are parsed or cut otherwise than before, so that collections made earlier count as out of date."""
WHITE_SPACE = re.compile(r"\s+")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
TokenCounter = Callable[[str], int]


def chunk_page(page: Page, max_tokens: int, count_tokens: TokenCounter) -> tuple[Chunk, ...]:
    """Cut a page into chunks, section by section.

    A chunk holds whole paragraphs, lists, tables and fences as long as they fit into `max_tokens`; a block that does
    not fit is cut between lines, sentences or words, in this order. Every chunk is a verbatim stretch of the source.

    Args:
        page: The parsed page.
        max_tokens: Budget of one chunk.
        count_tokens: Counts the tokens of a text.
    """
    pieces = [
        (section, group)
        for section in page.sections
        for run in section.runs
        for group in _pack(run, max_tokens, count_tokens)
    ]
    seen: Counter[str] = Counter()
    chunks = []
    for index, (section, group) in enumerate(pieces):
        text = join_blocks(group)
        path = SECTION_SEPARATOR.join(section.path)
        identity = "\x1f".join((page.source_url, path, text))
        chunk_id = _digest(f"{identity}\x1f{seen[identity]}")[:32]
        seen[identity] += 1
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
            )
        )
    return tuple(chunks)


def point_id(chunk_id: str) -> str:
    """The Qdrant point id of a chunk: a UUID5 of its id, since Qdrant takes only UUIDs and integers."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, chunk_id))


def join_blocks(blocks: Sequence[Block]) -> str:
    """Blocks of one run as one text: pieces of the same line by a space, lines by a break, blocks by a blank line."""
    text = blocks[0].text
    for before, after in pairwise(blocks):
        gap = after.start_line - before.end_line
        joint = "" if after.continues_word else " " if gap == 0 else "\n" * min(gap, 2)
        text += joint + after.text
    return text


def placement(file_path: str) -> tuple[str, str, str]:
    """A page's document id (path without suffix), module (first folder) and chapter (second folder, or its name)."""
    document = PurePosixPath(file_path).with_suffix("")
    folders = document.parts[:-1]
    return (
        document.as_posix(),
        folders[0] if folders else document.name,
        folders[1] if len(folders) > 1 else document.name,
    )


def _chunk(page: Page, section: Section, group: Sequence[Block]) -> Chunk:
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


def _pack(run: Sequence[Block], max_tokens: int, count_tokens: TokenCounter) -> Iterator[list[Block]]:
    group: list[Block] = []
    for block in (piece for whole in run for piece in _split(whole, max_tokens, count_tokens)):
        if group and count_tokens(join_blocks([*group, block])) > max_tokens:
            yield group
            group = []
        group.append(block)
    if group:
        yield group


def _split(block: Block, max_tokens: int, count_tokens: TokenCounter) -> Iterator[Block]:
    if count_tokens(block.text) <= max_tokens:
        yield block
        return
    lines = block.text.split("\n")
    if len(lines) > 1:
        for offset, line in enumerate(lines):
            if line.strip():
                number = block.start_line + offset
                yield from _split(Block(text=line, start_line=number, end_line=number), max_tokens, count_tokens)
        return
    parts, inside_word = _split_line(block.text.strip())
    for index, part in enumerate(parts):
        piece = replace(block, text=part, continues_word=block.continues_word if index == 0 else inside_word)
        yield from [piece] if part == block.text else _split(piece, max_tokens, count_tokens)


def _split_line(text: str) -> tuple[list[str], bool]:
    """A line's sentences, or else its two halves between words, or else inside the word; and whether inside."""
    sentences = SENTENCE_END.split(text)
    if len(sentences) > 1:
        return sentences, False
    gaps = list(WHITE_SPACE.finditer(text))
    if gaps:
        gap = gaps[(len(gaps) - 1) // 2]
        return [text[: gap.start()], text[gap.end() :]], False
    middle = max(1, len(text) // 2)
    return [part for part in (text[:middle], text[middle:]) if part], True


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

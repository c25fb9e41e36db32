"""Sections to passages: each by itself, or small neighbouring ones of one parent together. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from retrievers.indexing.markdown import Block, Page, PageSection
from retrievers.indexing.packing import join_blocks

Path = tuple[str, ...]
# Returns True if a text fits into one chunk under these headings.
FitsUnder = Callable[[Path, str], bool]


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

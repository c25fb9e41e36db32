"""Passages for the queries to write: each page has its share, and each section of it. Pure, seeded."""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from evals.golden.prose import prose
from evals.golden.synthesis.query_types import THEMES, TYPES, QueryType
from retrievers.records import Chunk

SPLITS = ("dev", "test")
# Chunks most alike to a chunk, the most alike first.
Alike = Callable[[Chunk], Sequence[Chunk]]


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """A query to be written.

    Attributes:
        type_name: Key of `TYPES`.
        passages: Chunks that it is about; fewer than its type takes where the collection has no second section for it.
        split: Split of the pages of all passages.
        turn: Number of earlier assignments of this type with the same first passage.
        theme: Theme, of a question of general knowledge.
        persona: Description of the person who asks; empty without personas.
    """

    id: str
    type_name: str
    passages: tuple[Chunk, ...]
    split: str
    turn: int = 0
    theme: str = ""
    persona: str = ""

    @property
    def type(self) -> QueryType:
        """The type of the query."""
        return TYPES[self.type_name]


def assign(
    chunks: Sequence[Chunk], draws: Sequence[Mapping[str, int]], seed: int, personas: Sequence[str], alike: Alike
) -> list[Assignment]:
    """Return an assignment for every query to write, type by type; none where no chunk holds text.

    A higher number of one type leaves the first assignments of the others as they are, a further draw leaves all.

    Args:
        chunks: Chunks of the collection; those without prose are passed over if others have some.
        draws: Number of queries by type: those that are wanted, then those drawn in place of dropped ones.
        seed: Seed of the choice.
        personas: Descriptions of people who ask, used in turn.
        alike: Finds the second passage of a comparison.
    """
    readable = [chunk for chunk in chunks if prose(chunk.text)] or [chunk for chunk in chunks if chunk.text.strip()]
    splits = split_pages(readable, seed)
    order = spread(readable, seed)
    if not order:
        return []
    readable_ids = {chunk.chunk_id for chunk in readable}
    used: Counter[tuple[str, str]] = Counter()
    assignments: list[Assignment] = []
    for number, (name, turn) in enumerate(_turns(draws)):
        chunk = order[number % len(order)]
        split = splits[page_of(chunk)]
        partners = alike(chunk) if TYPES[name].passages > 1 else ()
        others = (
            other
            for other in partners
            if other.chunk_id in readable_ids and _section(other) != _section(chunk) and splits[page_of(other)] == split
        )
        assignments.append(
            Assignment(
                id=f"{name}-{turn + 1:03}",
                type_name=name,
                passages=(chunk, *[other for other, _ in zip(others, range(TYPES[name].passages - 1), strict=False)]),
                split=split,
                turn=used[name, chunk.chunk_id],
                theme=THEMES[turn % len(THEMES)] if name == "general" else "",
                persona=personas[number % len(personas)] if personas else "",
            )
        )
        used[name, chunk.chunk_id] += 1
    names = list(draws[0])
    return sorted(assignments, key=lambda assignment: (names.index(assignment.type_name), assignment.id))


def spread(chunks: Sequence[Chunk], seed: int) -> list[Chunk]:
    """Order chunks so that of any number of first ones each page has its share, and so has each section of a page.

    The j-th of m chunks of a page is put at (j + u) / m, with u drawn from 0 to 1 for each page: systematic sampling.
    """
    rng = random.Random(seed)
    pages: dict[str, dict[str, list[Chunk]]] = {}
    for chunk in sorted(chunks, key=lambda chunk: chunk.chunk_id):
        pages.setdefault(page_of(chunk), {}).setdefault(_section(chunk)[1], []).append(chunk)
    placed: list[tuple[float, str, Chunk]] = []
    for page in sorted(pages):
        ordered = _systematic([rng.sample(section, len(section)) for _, section in sorted(pages[page].items())], rng)
        placed += [(position, page, chunk) for position, chunk in _places(ordered, rng)]
    return [chunk for _, _, chunk in sorted(placed, key=lambda entry: entry[:2])]


def split_pages(chunks: Sequence[Chunk], seed: int) -> dict[str, str]:
    """Return the split of each page, so that both have about as many chunks and no page feeds both."""
    sizes = Counter(page_of(chunk) for chunk in chunks)
    pages = sorted(sizes)
    random.Random(seed).shuffle(pages)
    filled = dict.fromkeys(SPLITS, 0)
    splits: dict[str, str] = {}
    for page in sorted(pages, key=lambda page: -sizes[page]):
        splits[page] = min(SPLITS, key=lambda split: filled[split])
        filled[splits[page]] += sizes[page]
    return splits


def page_of(chunk: Chunk) -> str:
    """Return the page of a chunk; the chunk itself where its page is not known."""
    return chunk.source_url or chunk.file_path or chunk.source_document_id or chunk.chunk_id


def _section(chunk: Chunk) -> tuple[str, str]:
    return page_of(chunk), chunk.section_path or chunk.heading or ""


def _turns(draws: Sequence[Mapping[str, int]]) -> Iterator[tuple[str, int]]:
    """Yield type and number of each query, draw by draw, the types in turn."""
    drawn = Counter[str]()
    for counts in draws:
        for turn in range(max(counts.values())):
            yield from ((name, drawn[name] + turn) for name, count in counts.items() if turn < count)
        drawn.update(counts)


def _systematic(groups: Sequence[Sequence[Chunk]], rng: random.Random) -> list[Chunk]:
    placed = [
        (position, number, chunk) for number, group in enumerate(groups) for position, chunk in _places(group, rng)
    ]
    return [chunk for _, _, chunk in sorted(placed, key=lambda entry: entry[:2])]


def _places(chunks: Sequence[Chunk], rng: random.Random) -> list[tuple[float, Chunk]]:
    start = rng.random()
    return [((number + start) / len(chunks), chunk) for number, chunk in enumerate(chunks)]

"""Evidence to chunks: which chunks of a collection a golden query makes relevant, and which are missing. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import PurePosixPath

from evals.errors import DatasetError
from evals.golden.case import Case, Evidence
from retrievers.records import Chunk

# Share of a quote that makes a chunk relevant, whatever the chunking: no more than two chunks can each hold half.
HALF = 0.5
# The chunk that holds most of a quote must hold that share of it and that many characters in one stretch, or the
# quote counts as missing: an unrelated text shares up to 19 with a page by chance.
LEAST = 0.1
LEAST_CHARACTERS = 30
MOST_MISSING = 0.05
SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class Relevance:
    """Relevant chunks of one case.

    Attributes:
        grades: Chunk id to grade, all above 0; the highest where several evidence items name a chunk.
        items: For each relevant evidence item the chunks that hold it.
        irrelevant: Chunks that were judged not relevant; all others are unjudged.
        missing: Relevant chunks that the collection lacks, which nothing can retrieve.
        incomplete: Reason why `grades` may lack relevant chunks; empty when it holds all of them.
    """

    grades: Mapping[str, int] = field(default_factory=dict)
    items: tuple[frozenset[str], ...] = ()
    irrelevant: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    incomplete: str = ""


def evidence_urls(cases: Sequence[Case]) -> list[str]:
    """Return the addresses of all pages that evidence names, sorted."""
    return sorted({evidence.source_url for case in cases for evidence in case.evidence if evidence.source_url})


def names_no_page(cases: Sequence[Case]) -> bool:
    """Return True if some quote has no page, so that any chunk of the collection may hold it."""
    return any(evidence.source_url is None for case in cases for evidence in case.evidence)


def labelled_ids(cases: Sequence[Case]) -> list[str]:
    """Return the ids of all chunks that cases name as relevant, sorted."""
    return sorted({key for case in cases for key in case.relevant})


def judged_irrelevant(case: Case, grades: Mapping[str, int], refused: Collection[str] = ()) -> frozenset[str]:
    """Return the chunks that a case judges not relevant, and that no other judgement of it makes relevant.

    Args:
        case: The case.
        grades: Its relevant chunks.
        refused: The chunks that hold evidence of grade 0.
    """
    return frozenset({*refused, *(key for key, grade in case.relevant_ids.items() if grade <= 0)} - grades.keys())


def missing_chunks(relevance: Mapping[str, Relevance]) -> str:
    """Return the note on relevant chunks that the collection lacks; empty where it has all."""
    relevant = {key for item in relevance.values() for key in item.grades}
    return _missing_note({name: item.missing for name, item in relevance.items()}, len(relevant))


def unplaced_verdicts(cases: Sequence[Case], chunks: Sequence[Chunk]) -> list[tuple[str, str]]:
    """Return case and chunk id of human verdicts on chunks that are missing here, as after another chunking."""
    chunk_ids = {chunk.chunk_id for chunk in chunks}
    return [(case.id, chunk_id) for case in cases for chunk_id in case.human_verdicts if chunk_id not in chunk_ids]


def resolve(cases: Sequence[Case], chunks: Sequence[Chunk], places: Mapping[str, str]) -> dict[str, Relevance]:
    """Find the relevant chunks of every case.

    A quote makes those chunks relevant that hold at least half of it (white space normalised), or else the one that
    holds most, provided that this is more than chance; the chunks under the evidence's heading come first, then the
    whole page. Without a quote all chunks under the heading and its sub-headings are relevant. `relevant_ids` name
    chunks, or documents, all of whose chunks are then relevant and one piece of evidence; a missing one still counts as
    relevant, and as never retrieved (as in trec_eval).

    Args:
        cases: Golden queries.
        chunks: The chunks of every page that evidence names (see `evidence_urls`), and those of `labelled_ids`.
        places: Case id to `file:line`, for messages.

    Raises:
        DatasetError: Evidence that resolves to no chunk, each item with its place; or over 5% of the ids are missing.
    """
    pages: dict[str, list[Chunk]] = {}
    chunk_ids = {chunk.chunk_id for chunk in chunks}
    documents: dict[str, list[str]] = {}
    for chunk in chunks:
        pages.setdefault(chunk.source_url or "", []).append(chunk)
        documents.setdefault(chunk.source_document_id or "", []).append(chunk.chunk_id)
    faults: list[str] = []
    result: dict[str, Relevance] = {}
    for case in cases:
        named = {key: [key] if key in chunk_ids else documents.get(key, [key]) for key in case.relevant}
        grades = {chunk_id: case.relevant[key] for key, holders in named.items() for chunk_id in holders}
        items, refused = [frozenset(holders) for holders in named.values()], set[str]()
        missing = frozenset(grades.keys() - chunk_ids)
        line = places.get(case.id, case.id)
        # Every fault is collected before the error, so that one run names all of them.
        for number, evidence in enumerate(case.evidence):
            holders = _holders(evidence, chunks if evidence.source_url is None else pages.get(evidence.source_url, []))
            if not holders:
                faults.append(f"{line}: {_unresolved(number, evidence, evidence.source_url in pages)}")
                continue
            if evidence.grade == 0:
                refused |= holders
                continue
            items.append(holders)
            for chunk_id in holders:
                grades[chunk_id] = max(grades.get(chunk_id, 0), evidence.grade)
        irrelevant = judged_irrelevant(case, grades, refused)
        result[case.id] = Relevance(grades=grades, items=tuple(items), irrelevant=irrelevant, missing=missing)
    lost = _too_many_missing(cases, chunk_ids | documents.keys(), places)
    if lost and not faults:
        raise DatasetError(lost)
    if faults := [*faults, *([lost] if lost else [])]:
        raise DatasetError("evidence that does not resolve to a chunk of the collection:", faults)
    return result


def known_pages(urls: Sequence[str], chunks: Sequence[Chunk]) -> str:
    """Say which pages a collection has, for evidence that names none of them.

    Args:
        urls: Addresses that evidence names.
        chunks: All chunks of the collection.
    """
    pages = sorted({chunk.source_url for chunk in chunks if chunk.source_url})
    if not pages:
        return (
            "no chunk of the collection says which page it is from: there is no source_url, url or source in its "
            "metadata; set retriever.metadata.map {source_url: KEY} (python -m retrievers inspect shows the keys), or "
            "leave source_url out of the evidence: a quote alone is looked for in every chunk"
        )
    names = {PurePosixPath(url).name for url in urls}
    alike = [page for page in pages if PurePosixPath(page.replace("\\", "/")).name in names]
    hint = "write source_url as the collection does" if alike else "was it made from other pages?"
    return (
        f"the collection has {len(pages)} pages: {', '.join(map(repr, (alike or pages)[:SHOWN]))}"
        f"{', …' if len(pages) > SHOWN else ''}; {hint}"
    )


def normalise(text: str) -> str:
    """Normalise white space: every stretch of it becomes one space."""
    return " ".join(text.split())


def share_held(quote: str, text: str) -> float:
    """Return the share of a quote that a text holds as one stretch, 0 to 1; both normalised."""
    if quote in text:
        return 1.0
    # autojunk would ignore frequent characters in long texts, and so the letters of the quote.
    match = SequenceMatcher(None, quote, text, autojunk=False).find_longest_match()
    return match.size / len(quote)


def more_than_chance(quote: str, share: float) -> bool:
    """Return True if a text with that share of a quote holds more of it than an unrelated text does by chance."""
    return share >= max(LEAST, LEAST_CHARACTERS / len(quote))


def clear_holders(evidence: Evidence, page: Sequence[Chunk]) -> frozenset[str]:
    """Return the chunks of a page that hold at least half of the quote, or without a quote those under the heading."""
    under = [chunk for chunk in page if _is_under(chunk, evidence.heading)]
    if evidence.quote is None:
        return frozenset(chunk.chunk_id for chunk in under)
    quote = normalise(evidence.quote)
    return _at_least(HALF, _shares(quote, under)) or _at_least(HALF, _shares(quote, page))


def _holders(evidence: Evidence, page: Sequence[Chunk]) -> frozenset[str]:
    clear = clear_holders(evidence, page)
    if clear or evidence.quote is None:
        return clear
    quote = normalise(evidence.quote)
    under = [chunk for chunk in page if _is_under(chunk, evidence.heading)]
    return _most(quote, _shares(quote, under)) or _most(quote, _shares(quote, page))


def _shares(quote: str, chunks: Sequence[Chunk]) -> dict[str, float]:
    return {chunk.chunk_id: share_held(quote, normalise(chunk.text)) for chunk in chunks}


def _at_least(share: float, shares: Mapping[str, float]) -> frozenset[str]:
    return frozenset(chunk_id for chunk_id, part in shares.items() if part >= share)


def _most(quote: str, shares: Mapping[str, float]) -> frozenset[str]:
    best = min(shares, key=lambda chunk_id: (-shares[chunk_id], chunk_id), default=None)
    return frozenset([best]) if best is not None and more_than_chance(quote, shares[best]) else frozenset()


def _is_under(chunk: Chunk, heading: str | None) -> bool:
    if heading is None:
        return True
    # The whole path counts, so that a heading covers its sub-headings.
    path = (chunk.section_path or "").split(" > ")
    return heading in path or heading in (chunk.chunk_headings or (chunk.heading,))


def _unresolved(number: int, evidence: Evidence, page_known: bool) -> str:
    name = f"evidence.{number}"
    if evidence.source_url is None:
        return f"{name}: no chunk of the collection holds the quote {(evidence.quote or '')[:60]!r}"
    if not page_known:
        return f"{name}: the collection has no page {evidence.source_url!r}"
    if evidence.quote is None:
        return f"{name}: no chunk of {evidence.source_url!r} stands under the heading {evidence.heading!r}"
    return f"{name}: no chunk of {evidence.source_url!r} holds the quote {evidence.quote[:60]!r}"


def _too_many_missing(cases: Sequence[Case], known: Collection[str], places: Mapping[str, str]) -> str | None:
    """Return a fault in one line if over 5% of the chunks in `relevant_ids` are missing; else None.

    Args:
        cases: Golden queries.
        known: The chunk ids of the collection, at least those that cases name.
        places: Case id to `file:line`.
    """
    named = {key: case.id for case in reversed(cases) for key in case.relevant}
    missing = {key: case_id for key, case_id in named.items() if key not in known}
    if len(missing) <= MOST_MISSING * len(named):
        return None
    first = min(missing)
    return (
        f"{places.get(missing[first], missing[first])}: relevant_ids: the collection has no chunk {first!r}; "
        f"{len(missing):,} of {len(named):,} relevant chunks are missing, and at most {MOST_MISSING:.0%} may be; are "
        "ids written alike? metadata.map {chunk_id: KEY} names the payload key that holds them"
    )


def _missing_note(missing: Mapping[str, Collection[str]], relevant: int) -> str:
    """Return a note on relevant chunks that are not in the collection; empty where all are.

    Args:
        missing: Case id to the missing chunks.
        relevant: Number of chunks that are relevant to some case.
    """
    pairs = [(key, case_id) for case_id, keys in missing.items() for key in sorted(keys)]
    count = len({key for key, _ in pairs})
    if not pairs:
        return ""
    shown = ", ".join(f"{key!r} (case {case_id})" for key, case_id in pairs[:SHOWN])
    are = "is not in the collection and counts" if count == 1 else "are not in the collection and count"
    return f"{count} of {relevant} relevant chunks {are} as not retrieved: {shown}" + (" …" if pairs[SHOWN:] else "")

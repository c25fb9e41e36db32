"""Relevance: which chunks of a collection golden queries make relevant, and which of them are missing. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from functools import cache

from evals.cases.case import Case, Evidence
from evals.errors import DatasetError, ExperimentError
from retrievers.errors import nearest
from retrievers.records import Chunk

# Share of a quote that makes a chunk relevant, for any chunking.
HALF = 0.5
# A stretch of a quote, less than all of it, counts from this number of characters on: an unrelated text shares up to 19
# characters with a page by chance. The chunk that holds most of a quote must hold this share, too.
LEAST = 0.1
LEAST_CHARACTERS = 30
# Share of the `relevant_ids` that a collection may lack.
MOST_MISSING = 0.05
ALIKE = "are ids written alike? metadata.map {chunk_id: KEY} names the payload key that holds them"
SHOWN = 3
UNLISTED = "the retriever's chunks cannot be listed"
Plain = Callable[[str], str]
"""Normalises the white space of a text."""


@dataclass(frozen=True, kw_only=True)
class Relevance:
    """Relevant chunks of one case.

    Attributes:
        grades: Chunk id to grade, above 0. If several evidence items name a chunk, it has the highest grade.
        items: For each relevant evidence item, the ids of the chunks that hold it.
        irrelevant: Ids of chunks that were judged not relevant. All other chunks are unjudged.
        missing: Ids of relevant chunks that the collection lacks, so that nothing can retrieve them.
        changed: Quotes that the chunks of their page do not hold word for word, found by what is left of them.
        incomplete: Reason why `grades` may lack relevant chunks; empty if it has all of them.
    """

    grades: Mapping[str, int] = field(default_factory=dict)
    items: tuple[frozenset[str], ...] = ()
    irrelevant: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    changed: tuple[str, ...] = ()
    incomplete: str = ""


def resolve(cases: Sequence[Case], chunks: Sequence[Chunk], places: Mapping[str, str]) -> dict[str, Relevance]:
    """Find the relevant chunks of every case.

    Evidence with a quote makes the chunks relevant that hold at least half of the quote, with white space normalised.
    If no chunk holds half, it makes the chunk relevant that holds most. A part of the quote must be longer than chance
    allows. If some chunk holds the whole quote, or ends or begins within it, chunks that only resemble the quote do not
    count. Chunks under the evidence's heading are searched first, then the whole page.

    Evidence without a quote makes all chunks under the heading and its sub-headings relevant; without a heading, all
    chunks of the page. They are one piece of evidence.

    `relevant_ids` name chunks or documents. All chunks of a document are relevant, and are one piece of evidence. A
    chunk that the collection lacks still counts as relevant and is never retrieved, as in trec_eval.

    Args:
        cases: Golden queries.
        chunks: The chunks of every page that evidence names (see `evidence_urls`), and those of `labelled_ids`.
        places: Case id to `file:line`, for messages.

    Returns:
        The relevance of each case by its id.

    Raises:
        DatasetError: Evidence resolves to no chunk; the message lists each item with its place. Or over 5% of the
            `relevant_ids` are missing.
    """
    plain = cache(normalise)
    pages: dict[str | None, list[Chunk]] = {None: list(chunks)}
    ids_of: dict[str, list[str]] = {}
    for chunk in chunks:
        pages.setdefault(chunk.source_url or "", []).append(chunk)
        ids_of.setdefault(chunk.source_document_id or "", []).append(chunk.chunk_id)
    ids_of |= {chunk.chunk_id: [chunk.chunk_id] for chunk in chunks}
    # All faults are collected before the error is raised, so that one run names all of them.
    faults: list[str] = []
    result: dict[str, Relevance] = {}
    for case in cases:
        by_id = {key: ids_of.get(key, [key]) for key in case.relevant}
        holders = [_holders(item, pages.get(item.source_url, []), plain, is_whole=True) for item in case.evidence]
        faults += [
            f"{places.get(case.id, case.id)}: evidence.{number}: {_unresolved(item, pages, plain)}"
            for number, (item, chunk_ids) in enumerate(zip(case.evidence, holders, strict=True))
            if not chunk_ids
        ]
        missing = frozenset(key for key in case.relevant if key not in ids_of)
        quotes = ((item.quote, pages.get(item.source_url, [])) for item in case.evidence if item.quote)
        changed = tuple(quote for quote, page in quotes if not _is_whole(plain(quote), [plain(c.text) for c in page]))
        result[case.id] = replace(_relevance(case, by_id, holders), missing=missing, changed=changed)
    labelled = labelled_ids(cases)
    if len({*labelled} - ids_of.keys()) > MOST_MISSING * len(labelled):
        faults.append(f"relevant_ids: {next(lacking(result))}; at most {MOST_MISSING:.0%} may be missing: {ALIKE}")
    if faults:
        raise DatasetError("golden data that does not resolve to chunks:", faults)
    return result


def resolve_returned(cases: Sequence[Case], returned: Mapping[str, Sequence[Chunk]]) -> dict[str, Relevance]:
    """Find the relevant chunks among the returned ones of each case, for a retriever that cannot list its chunks.

    A chunk of the evidence's page is relevant if it holds at least half of the quote, with white space normalised.
    Without a quote it is relevant if it stands under the heading. The chunk that holds most of a quote, of which no
    chunk holds half, is not relevant here, as all chunks would have to be known. `relevant_ids` are taken as they are,
    and as complete.

    Args:
        cases: Golden queries.
        returned: Case id to the returned chunks.

    Returns:
        The relevance of each case by its id.

    Raises:
        ExperimentError: The chunks do not say which page they are from, or under which heading they stand.
    """
    plain = cache(normalise)
    _check_metadata(cases, [chunk for case in cases for chunk in returned[case.id]])
    result = {}
    for case in cases:
        holders = []
        for item in case.evidence:
            page = [chunk for chunk in returned[case.id] if item.source_url in (None, chunk.source_url)]
            holders.append(_holders(item, page, plain, is_whole=False))
        relevance = _relevance(case, {key: [key] for key in case.relevant}, holders)
        result[case.id] = replace(relevance, incomplete=UNLISTED if case.relevant_evidence else "")
    return result


def evidence_urls(cases: Sequence[Case]) -> list[str]:
    """Return the addresses of all pages that evidence names, sorted."""
    return sorted({evidence.source_url for case in cases for evidence in case.evidence if evidence.source_url})


def labelled_ids(cases: Sequence[Case]) -> list[str]:
    """Return the ids of all chunks that cases name as relevant, sorted."""
    return sorted({key for case in cases for key in case.relevant})


def lacking(relevance: Mapping[str, Relevance]) -> Iterator[str]:
    """Yield the notes on what the collection lacks of the golden data: relevant chunks, and quotes word for word."""
    missing = {key: case_id for case_id, item in [*relevance.items()][::-1] for key in item.missing}
    changed = [(quote[:60], case_id) for case_id, item in relevance.items() for quote in item.changed]
    relevant = {key for item in relevance.values() for key in item.grades}
    chunks = f"of {len(relevant)} relevant chunks, which nothing can retrieve"
    quotes = "quotes word for word (has their page changed? look at their labels)"
    for found, what in ((sorted(missing.items()), chunks), (changed, quotes)):
        examples = ", ".join(f"{name!r} (case {case_id})" for name, case_id in found[:SHOWN])
        if found:
            yield f"the collection lacks {len(found)} {what}: {examples}{' …' * (len(found) > SHOWN)}"


def known_pages(urls: Sequence[str], chunks: Sequence[Chunk]) -> str:
    """Return a message that says which pages a collection has, for evidence that names none of them.

    Args:
        urls: Addresses that evidence names.
        chunks: All chunks of the collection.
    """
    pages = sorted({chunk.source_url for chunk in chunks if chunk.source_url})
    if not pages:
        return (
            "no chunk of the collection says which page it is from: set retriever.metadata.map {source_url: KEY} "
            "(python -m retrievers inspect shows the keys), or leave source_url out of the evidence"
        )
    examples = f"{', '.join(map(repr, pages[:SHOWN]))}{', …' * (len(pages) > SHOWN)}{nearest(urls[0], pages)}"
    return f"the collection has {len(pages)} pages, {examples}; write source_url as the collection does"


def normalise(text: str) -> str:
    """Normalise white space: every stretch of it becomes one space."""
    return " ".join(text.split())


def holds_most(quote: str, text: str) -> bool:
    """Return True if a text holds at least half of a quote as one stretch, so that its chunk is relevant by it."""
    quote = normalise(quote)
    return share_held(quote, text, _half(quote)) >= _half(quote) / len(quote)


def _half(quote: str) -> float:
    return min(len(quote), max(HALF * len(quote), LEAST_CHARACTERS))


def share_held(quote: str, text: str, least: float) -> float:
    """Return the share of a quote that a text holds as one stretch, 0 to 1.

    Args:
        quote: The quote, normalised.
        text: The text, normalised.
        least: Number of characters of the shortest stretch that counts. For a shorter stretch the result may be 0.
    """
    if quote in text:
        return 1.0
    # A stretch of n characters holds one of the blocks of (n + 1) / 2 into which the quote is cut. Finding a block is a
    # thousand times faster than finding the longest stretch.
    size = max(1, (int(least) + 1) // 2)
    if not any(quote[start : start + size] in text for start in range(0, len(quote) - size + 1, size)):
        return 0.0
    # autojunk would ignore characters that are frequent in a long text, and with them letters of the quote.
    return SequenceMatcher(None, quote, text, autojunk=False).find_longest_match().size / len(quote)


def _relevance(case: Case, by_id: Mapping[str, Iterable[str]], holders: Sequence[Iterable[str]]) -> Relevance:
    """Return the relevance of a case.

    Args:
        case: The golden query.
        by_id: For each relevant id of the case, the ids of its chunks.
        holders: For each evidence item of the case, the ids of the chunks that hold it.
    """
    graded = [(case.relevant[key], frozenset(ids)) for key, ids in by_id.items()]
    graded += [(item.grade, frozenset(ids)) for item, ids in zip(case.evidence, holders, strict=True)]
    grades: dict[str, int] = {}
    irrelevant = case.relevant_ids.keys() - case.relevant.keys()
    for grade, ids in graded:
        if grade:
            grades |= {key: max(grades.get(key, 0), grade) for key in ids}
        else:
            irrelevant |= ids
    # A passage that is named twice is one piece of evidence.
    passages = [(item.source_url, item.heading, normalise(item.quote or "")) for item in case.evidence]
    items = {passage: ids for passage, (grade, ids) in zip((*by_id, *passages), graded, strict=True) if grade}
    return Relevance(grades=grades, items=tuple(items.values()), irrelevant=frozenset(irrelevant - grades.keys()))


def _holders(evidence: Evidence, page: Sequence[Chunk], plain: Plain, *, is_whole: bool) -> frozenset[str]:
    """Return the ids of the chunks of a page that hold a piece of evidence; `resolve` has the rules.

    Args:
        evidence: The evidence.
        page: Chunks of its page.
        plain: Normalises texts.
        is_whole: True if `page` has all chunks of the page, so that the one which holds most of the quote is known.
    """
    # All headings count, so that a heading covers its sub-headings.
    under = [chunk for chunk in page if evidence.heading is None or evidence.heading in chunk.headings]
    if evidence.quote is None:
        return frozenset(chunk.chunk_id for chunk in under)
    quote = plain(evidence.quote)
    places = (under, page) if evidence.heading else (page,)
    half = _half(quote)
    for chunks in places:
        texts = ((chunk.chunk_id, plain(chunk.text)) for chunk in chunks)
        holders = [(key, text) for key, text in texts if share_held(quote, text, half) >= half / len(quote)]
        # A part of the passage is cut by the border of its chunk. Other texts only say nearly the same.
        borders = ((key, text, max(_overlap(text, quote), _overlap(quote, text))) for key, text in holders)
        passage = [key for key, text, cut in borders if quote in text or text in quote or cut >= int(half)]
        if holders:
            return frozenset(passage or [key for key, _ in holders])
    # Half of a short quote may be common words: below `LEAST_CHARACTERS` it counts only in the chunk that holds most.
    least = min(max(LEAST * len(quote), float(LEAST_CHARACTERS)), HALF * len(quote))
    for chunks in places if is_whole else ():
        shares = {chunk.chunk_id: share_held(quote, plain(chunk.text), least) for chunk in chunks}
        best = min(shares, key=lambda chunk_id: (-shares[chunk_id], chunk_id), default="")
        if shares.get(best, 0.0) >= least / len(quote):
            return frozenset([best])
    return frozenset()


def _is_whole(quote: str, texts: Sequence[str]) -> bool:
    """Return True if a text holds a quote, or if texts that are cut within it hold all of it."""
    if any(quote in text for text in texts):
        return True
    held = {place for place, character in enumerate(quote) if character == " "}
    for text in filter(None, texts):
        held.update(range(_overlap(text, quote)), range(len(quote) - _overlap(quote, text), len(quote)))
        held.update(range(quote.index(text), quote.index(text) + len(text)) if text in quote else ())
    return len(held) == len(quote)


def _overlap(first: str, second: str) -> int:
    """Return the length of the longest end of the first text with which the second begins."""
    # Whether an end of three characters can be one is twenty times faster to see.
    most = min(len(first), len(second), len(first) if first[-3:] in second else 2)
    return next((n for n in range(most, 0, -1) if first.endswith(second[:n])), 0)


def _unresolved(evidence: Evidence, pages: Mapping[str | None, Sequence[Chunk]], plain: Plain) -> str:
    """Return why a piece of evidence resolves to no chunk, and which of the pages that were read hold its quote."""
    quote = plain(evidence.quote or "")
    urls = sorted({c.source_url for c in pages[None] if c.source_url and quote and quote in plain(c.text)})
    moved = f"; its quote stands in {', '.join(map(repr, urls[:SHOWN]))}" if urls else ""
    if evidence.source_url not in pages:
        return f"there is no page {evidence.source_url!r}{moved}"
    where = "no chunk" if evidence.source_url is None else f"no chunk of {evidence.source_url!r}"
    if evidence.quote is None:
        return f"{where} stands under the heading {evidence.heading!r}"
    return f"{where} holds half of the quote {evidence.quote[:60]!r} word for word, as the source has it{moved}"


def _check_metadata(cases: Sequence[Case], chunks: Sequence[Chunk]) -> None:
    """Refuse evidence by addresses or headings if no chunk has them.

    Raises:
        ExperimentError: Evidence names a field that no chunk has.
    """
    by_heading = any(item.quote is None and item.heading for case in cases for item in case.evidence)
    urls = evidence_urls(cases) and not any(chunk.source_url for chunk in chunks)
    headings = by_heading and not any(chunk.section_path or chunk.heading for chunk in chunks)
    lacking = {"source_url": urls, "heading": headings}
    for key in (key for key, is_lacking in lacking.items() if is_lacking and chunks):
        hint = "or name passages by quotes alone" + "; LangChain's loaders write 'source'" * (key == "source_url")
        fault = f"evidence names a {key}, but no returned document does"
        raise ExperimentError(f"{fault}; set retriever.metadata.map {{{key}: KEY}} ({hint})")

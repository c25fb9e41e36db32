"""Evidence to chunks where a retriever's chunks cannot be listed: the returned chunks that hold it.

The content of a returned chunk is known; other chunks of the collection are not. So it is known whether a chunk is
relevant and an evidence item was found, but not the share of all relevant chunks (`Relevance.incomplete`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from evals.errors import DatasetError, ExperimentError
from evals.golden.case import Case, Evidence
from evals.golden.evidence import Relevance, clear_holders, judged_irrelevant, more_than_chance, normalise, share_held
from evals.golden.source_pages import SourcePageError, SourcePages, Sources
from retrievers.records import Chunk

UNLISTED = "the retriever's chunks cannot be listed"


def check_evidence(cases: Sequence[Case], sources: SourcePages, places: Mapping[str, str]) -> None:
    """Check that evidence is in its page.

    Args:
        cases: Golden queries.
        sources: The pages.
        places: Case id to `file:line`, for messages.

    Raises:
        DatasetError: Some does not, each with its place.
    """
    faults = [
        f"{places.get(case.id, case.id)}: evidence.{number}: {fault}"
        for case in cases
        for number, evidence in enumerate(case.evidence)
        if evidence.source_url and (fault := _fault(evidence, sources))
    ]
    if faults:
        raise DatasetError("evidence that is not in its page:", faults)


def resolve_returned(
    cases: Sequence[Case], returned: Mapping[str, Sequence[Chunk]], sources: Sources | None
) -> dict[str, Relevance]:
    """Find the relevant ones among the chunks that came back for each case.

    Relevant is a chunk of the evidence's page that holds at least half of the quote (white space normalised), or stands
    under the heading if there is no quote. That the chunk which holds most of a quote counts where none holds half, as
    in a listed collection, needs all chunks and is not done here. `relevant_ids` are taken as they are, and complete.

    Args:
        cases: Golden queries.
        returned: Case id to chunks.
        sources: Source pages that give the page and heading of a chunk without them; None when unknown.

    Raises:
        ExperimentError: The chunks do not say which page they are from, or under which heading they stand.
    """
    placed = {case.id: [_placed(chunk, sources) for chunk in returned[case.id]] for case in cases}
    _check_metadata(cases, [chunk for chunks in placed.values() for chunk in chunks])
    return {case.id: _relevance(case, placed[case.id]) for case in cases}


def _relevance(case: Case, chunks: Sequence[Chunk]) -> Relevance:
    grades, refused = case.relevant, set[str]()
    items = [frozenset([key]) for key in grades]
    for evidence in case.evidence:
        page = [chunk for chunk in chunks if evidence.source_url in (None, chunk.source_url)]
        holders = clear_holders(evidence, page)
        if evidence.grade == 0:
            refused |= holders
            continue
        items.append(holders)
        grades |= {key: max(grades.get(key, 0), evidence.grade) for key in holders}
    return Relevance(
        grades=grades,
        items=tuple(items),
        irrelevant=judged_irrelevant(case, grades, refused),
        incomplete=UNLISTED if case.relevant_evidence else "",
    )


def _placed(chunk: Chunk, sources: Sources | None) -> Chunk:
    """Complete a chunk's address and headings from its page, where it lacks them."""
    if sources is None or (chunk.source_url and (chunk.section_path or chunk.heading)):
        return chunk
    if not chunk.source_url and not isinstance(sources, SourcePages):
        # A page of a site can be found by its address alone.
        return chunk
    try:
        page = sources.page_of(chunk)
    except SourcePageError:  # a note on the run names it
        page = None
    if page is None:
        return chunk
    facts = page.facts(chunk)
    return replace(
        chunk,
        source_url=chunk.source_url or facts.get("source_url"),
        section_path=chunk.section_path or facts.get("section_path"),
        heading=chunk.heading or facts.get("heading"),
    )


def _check_metadata(cases: Sequence[Case], chunks: Sequence[Chunk]) -> None:
    named = [case.id for case in cases if any(evidence.source_url for evidence in case.evidence)]
    if named and chunks and not any(chunk.source_url for chunk in chunks):
        raise ExperimentError(
            f"evidence names pages (case {named[0]!r}), but no returned document says which page it is from; set "
            "retriever.metadata.map {source_url: KEY} to the key of its address (LangChain's loaders write 'source')"
        )
    headed = [case.id for case in cases if any(evidence.quote is None for evidence in case.evidence)]
    if headed and chunks and not any(chunk.section_path or chunk.heading for chunk in chunks):
        raise ExperimentError(
            f"evidence names a heading and no quote (case {headed[0]!r}), but no returned document says under which "
            "heading it stands; set retriever.metadata.map {heading: KEY}, or sources.dir so that it can be looked up"
        )


def _fault(evidence: Evidence, sources: SourcePages) -> str:
    try:
        page = sources.page_of(Chunk(chunk_id="", point_id="", text="", source_url=evidence.source_url))
    except SourcePageError as error:
        return f"the page {evidence.source_url!r} cannot be read: {error}"
    if page is None:
        return f"the sources have no page {evidence.source_url!r}"
    if evidence.quote is None:
        exists = evidence.heading in page.headings
        return "" if exists else f"{evidence.source_url!r} has no heading {evidence.heading!r}"
    quote = normalise(evidence.quote)
    if more_than_chance(quote, share_held(quote, page.text)):
        return ""
    return f"{evidence.source_url!r} does not hold the quote {evidence.quote[:60]!r}"

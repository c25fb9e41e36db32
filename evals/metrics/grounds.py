"""The relevant chunks of a collection, found before any query is asked."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evals.errors import DatasetError
from evals.golden.case import Case
from evals.golden.evidence import Relevance, evidence_urls, known_pages, labelled_ids, names_no_page, resolve
from evals.golden.loading import GoldenSet
from evals.golden.returned_evidence import check_evidence, resolve_returned
from evals.golden.source_pages import SourcePages, Sources
from retrievers.records import Chunk
from retrievers.retriever.protocol import Retriever
from retrievers.search.candidate_table import CandidateTable

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Grounds:
    """Relevant chunks of a collection: for each case, by its id; and the text of each by chunk id.

    Where the retriever's chunks cannot be listed, `relevance` is empty, to be resolved in what it returns, and `texts`
    None; `sources` then gives page and heading of a chunk without them.
    """

    relevance: Mapping[str, Relevance]
    texts: Mapping[str, str] | None
    sources: Sources | None = None

    def among(self, cases: Sequence[Case], table: CandidateTable) -> Mapping[str, Relevance]:
        """Return the relevant chunks of each case, given its candidates.

        Raises:
            ExperimentError: Chunks that cannot be listed do not say where they are from.
        """
        if self.texts is not None:
            return self.relevance
        returned = {case.id: candidates.chunks for case, candidates in zip(cases, table, strict=True)}
        return resolve_returned(cases, returned, self.sources)


def ground(golden: GoldenSet, retriever: Retriever, sources: Sources | None = None) -> Grounds:
    """Find the chunks that golden queries call relevant. No query is embedded or searched for.

    Args:
        golden: Golden queries.
        retriever: Retriever whose chunks are listed. Where it has no list, evidence is searched in the source pages.
        sources: The source pages, None when not known.

    Raises:
        DatasetError: Evidence does not resolve; every fault is listed.
        StoreError: The collection cannot be read.
    """
    if retriever.info is None:
        if isinstance(sources, SourcePages):
            check_evidence(golden.cases, sources, golden.places)
        return Grounds(relevance={}, texts=None, sources=sources)
    chunks = evidence_chunks(golden.cases, retriever)
    if chunks and not any(chunk.source_url or chunk.source_document_id for chunk in chunks):
        log.warning(
            "the chunks that golden queries may name have no page (source_url) or document and are known by their ids; "
            "if a payload key holds the address, set retriever.metadata.map {source_url: KEY}"
        )
    try:
        relevance = resolve(golden.cases, chunks, golden.places)
    except DatasetError as error:
        urls = evidence_urls(golden.cases)
        if not urls or any(chunk.source_url in urls for chunk in chunks):
            raise
        raise DatasetError(f"{error}\n{known_pages(urls, retriever.chunks())}") from None
    # Texts of other chunks are dropped: the evidence pages may hold most of a large collection.
    named = {chunk_id for item in relevance.values() for chunk_id in item.grades}
    return Grounds(relevance=relevance, texts={c.chunk_id: c.text for c in chunks if c.chunk_id in named})


def evidence_chunks(cases: Sequence[Case], retriever: Retriever) -> list[Chunk]:
    """Return the chunks in which the evidence of cases is looked for, and those that they name.

    Raises:
        StoreError: The collection cannot be read.
    """
    urls, ids = evidence_urls(cases), labelled_ids(cases)
    # A quote without a page may be in any chunk, so all of them are read.
    if names_no_page(cases):
        chunks = retriever.chunks()
    else:
        chunks = retriever.chunks({"source_url": urls}) if urls else []
    return chunks + (_named(ids, retriever) if ids else [])


def _named(ids: Sequence[str], retriever: Retriever) -> list[Chunk]:
    """Return the chunks of those ids, else of the documents; chunks without an id of their own have their point's."""
    chunks = retriever.chunks({"chunk_id": ids})
    for field in ("point_id", "source_document_id"):
        rest = sorted({*ids} - {chunk.chunk_id for chunk in chunks})
        chunks += retriever.chunks({field: rest}) if rest else []
    return chunks

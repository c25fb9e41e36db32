"""Numbering of the chunks within their page."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from evals.collect.observations import Observation, Score, Unscored
from evals.golden.source_pages import without_fragment
from evals.metrics.base import Context, QueryMetric
from evals.metrics.metadata import NO_CHUNKS
from retrievers.records import Chunk
from retrievers.text.quoting import quoted


def sequence_faults(chunks: Sequence[Chunk]) -> Mapping[str, str]:
    """Return the faults in the numbering of chunks, by chunk id.

    `chunk_index` must run from 0 to `total_chunks` - 1 (or from 1 to `total_chunks`, where no chunk of these has 0), no
    two chunks of a page may have the same, and all chunks of a page must have the same `total_chunks`. A field that no
    chunk of these has is not missed.

    Args:
        chunks: Chunks of a collection, of any pages.
    """
    distinct = list({chunk.chunk_id: chunk for chunk in chunks}.values())
    indexes = [chunk.chunk_index for chunk in distinct if chunk.chunk_index is not None]
    if not indexes:
        return {}
    first = int(0 not in indexes and _some_index_is_its_total(distinct))
    totals_known = any(chunk.total_chunks is not None for chunk in distinct)
    pages: dict[str, list[Chunk]] = defaultdict(list)
    for chunk in distinct:
        pages[_page(chunk)].append(chunk)
    # Chunks of no known page are not compared.
    among = {key: fault for page in pages if page for key, fault in _faults_among(pages[page]).items()}
    own = {chunk.chunk_id: _own_fault(chunk, first, totals_known=totals_known) for chunk in distinct}
    return among | {key: fault for key, fault in own.items() if fault}


def _some_index_is_its_total(chunks: Sequence[Chunk]) -> bool:
    return any(chunk.chunk_index == chunk.total_chunks for chunk in chunks if chunk.chunk_index is not None)


def _page(chunk: Chunk) -> str:
    return without_fragment(chunk.source_url) or chunk.file_path or chunk.source_document_id or ""


def _own_fault(chunk: Chunk, first: int, *, totals_known: bool) -> str:
    index, total = chunk.chunk_index, chunk.total_chunks
    if index is None:
        return "no chunk_index"
    if total is None:
        return "no total_chunks" if totals_known else ""
    last = total - 1 + first
    return "" if first <= index <= last else f"chunk_index {index}, expected {first} to {last}"


def _faults_among(page: Sequence[Chunk]) -> dict[str, str]:
    """Return the faults in the numbering of a page's chunks, by chunk id."""
    totals = sorted({chunk.total_chunks for chunk in page if chunk.total_chunks is not None})
    counts = Counter(chunk.chunk_index for chunk in page)
    faults = {}
    for chunk in page:
        if counts[chunk.chunk_index] > 1:
            twin = next(each for each in page if each.chunk_index == chunk.chunk_index and each is not chunk)
            faults[chunk.chunk_id] = (
                f"chunk_index {chunk.chunk_index}, which chunk {quoted(twin.chunk_id)} of the same page has too"
            )
        elif len(totals) > 1:
            several = " and ".join(map(str, totals))
            faults[chunk.chunk_id] = f"total_chunks {chunk.total_chunks}, chunks of the same page have {several}"
    return faults


def _scores(observations: Sequence[Observation], _: Context) -> Sequence[Score]:
    """Return for each query the share of its returned chunks whose number is valid within their page, 0 to 1."""
    # Selections of a grid share their candidates.
    candidates = {id(observation.candidates): observation.candidates for observation in observations}
    faults = {key: sequence_faults(queries.chunks) for key, queries in candidates.items()}
    return [_score(observation, faults[id(observation.candidates)]) for observation in observations]


def _score(observation: Observation, faults: Mapping[str, str]) -> Score:
    chunks = observation.selection.chunks
    if not chunks:
        return NO_CHUNKS
    if all(chunk.chunk_index is None for chunk in observation.candidates.chunks):
        return Unscored(reason="no chunk found carries chunk_index")
    return sum(chunk.chunk_id not in faults for chunk in chunks) / len(chunks)


METRICS: tuple[QueryMetric, ...] = (
    QueryMetric(
        name="metadata/chunk_sequence",
        scope="all",
        interval="mean",
        headline="never",
        about="share of returned chunks whose chunk_index and total_chunks are a valid sequence within their page",
        score=_scores,
    ),
)

"""Metadata of the chunks: completeness, accuracy against the source pages, addresses, numbering within the page."""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from evals.cases.pages import Sources, without_fragment
from evals.collect.observations import Unscored
from evals.collect.pool import Pool
from evals.metrics.declaration import Context, QueryMetric
from evals.metrics.results import Results, Values
from evals.metrics.texts import NO_SOURCES
from retrievers.records import Chunk
from retrievers.store.chunks import usual_fields
from retrievers.text.quoting import clipped, quoted

HASHES = {32: "md5", 40: "sha1", 64: "sha256"}
# Chunks of each query, and in all, that are read to find the usual fields.
BEST = 3
SAMPLE = 256
# A path within no site, with the ending of a file: what loaders of files write as `source`.
FILE_NAME = re.compile(r"(?!//|\w\w+:)[^/#?][^#?]*\.\w{1,8}")


def usual_in(pool: Pool) -> tuple[str, ...]:
    """Return the usual fields that a collection has, by the best chunks found in it (see `usual_fields`)."""
    table = pool.tables[0]
    best = [
        code
        for start, end in zip(table.offsets, table.offsets[1:], strict=False)
        for code in table.codes[start : min(end, start + BEST)].tolist()
    ]
    return usual_fields([pool.chunks[code] for code in best[:SAMPLE]])


def completeness(r: Results, context: Context) -> Values:
    """Return the mean over the returned chunks of the share of required fields that are present and valid, 0 to 1."""
    required = context.required
    none = Unscored(reason="no metadata field is required")
    return r.mean_of_chunks(
        "completeness",
        lambda chunk: 1 - len(missing_fields(chunk, required)) / len(required) if required else np.nan,
        none=none,
    )


def accuracy(r: Results, context: Context) -> Values:
    """Return the mean share of comparable required fields that equal the page's, over the returned chunks, 0 to 1.

    A chunk whose page does not exist counts 0; one without any comparable field is left out.
    """

    def right(chunk: Chunk) -> float:
        if context.sources is None:
            return np.nan
        wrong, compared = wrong_fields(chunk, context.required, context.sources)
        return 1 - len(wrong) / compared if compared else np.nan

    none = Unscored(reason="no required field can be compared with the source pages")
    return r.mean_of_chunks("accuracy", right, (context.sources is None, NO_SOURCES), none=none)


def url_format(r: Results, context: Context) -> Values:
    """Return the share of the returned chunks whose address is well-formed and leads to a place that exists, 0 to 1."""
    pool = r.lists.pool
    files = Unscored(reason="the chunks carry names of files in place of addresses")
    none = Unscored(reason="no chunk found carries source_url")
    return r.mean_of_chunks(
        "address",
        lambda chunk: float(not address_fault(chunk, context.sources)),
        (names_files(pool), files),
        (not pool.carries("source_url"), none),
    )


def chunk_sequence(r: Results, _: Context) -> Values:
    """Return the share of the returned chunks whose number is valid within their page, 0 to 1.

    By all chunks that were found for any query, so that it does not depend on a query's other candidates.
    """
    faults = r.lists.pool.once("sequence", sequence_faults)
    none = Unscored(reason="no chunk found carries chunk_index")
    numbered = r.lists.pool.carries("chunk_index")
    return r.mean_of_chunks(
        "number", lambda chunk: float(chunk.chunk_id not in faults) if numbered else np.nan, none=none
    )


def missing_fields(chunk: Chunk, required: Sequence[str]) -> list[str]:
    """Return the required fields that a chunk lacks or holds with the wrong type, each with what was found."""
    problems = {problem.partition(":")[0]: problem for problem in chunk.problems}
    return [problems.get(name, f"{name}: missing") for name in required if getattr(chunk, name) in (None, "")]


def wrong_fields(chunk: Chunk, required: Sequence[str], sources: Sources) -> tuple[list[str], int]:
    """Return the required fields whose value differs from what the source page gives, and how many could be compared.

    Every field the page can tell is compared: address, title, tags, position, file, heading, section, lines, and the
    hash of the text by the algorithm its length names. A chunk whose page does not exist is wrong: one of one.

    Raises:
        SourcePageError: Its page cannot be read.
    """
    page = sources.page_of(chunk)
    if page is None:
        origin = chunk.file_path or chunk.source_url
        return [f"source page: {origin!r} does not exist"], 1
    expected: dict[str, Any] = page.facts(chunk)
    algorithm = HASHES.get(len(chunk.content_hash or ""))
    if algorithm:
        expected["content_hash"] = hashlib.new(algorithm, chunk.text.encode(), usedforsecurity=False).hexdigest()
    compared = [name for name in required if name in expected and getattr(chunk, name) is not None]
    wrong = [
        f"{name}: expected {expected[name]!r} as in the page, got {getattr(chunk, name)!r}"
        for name in compared
        if getattr(chunk, name) != expected[name]
    ]
    return wrong, len(compared)


def names_files(pool: Pool) -> bool:
    """Return True if found chunks carry names of files and no address: then there is none to be right or wrong."""
    urls = {chunk.source_url for chunk in pool.found if chunk.source_url}
    return bool(urls) and all(FILE_NAME.fullmatch(url) for url in urls)


def address_fault(chunk: Chunk, sources: Sources | None) -> str:
    """Return the fault of a chunk's address; empty where it is valid.

    It must be absolute (`https://host/path`) or site-relative (`/path`), without blanks. A fragment must name a place
    of the page, where the page is known.

    Raises:
        SourcePageError: The address has a fragment, and its page cannot be read.
    """
    url = chunk.source_url
    if not url:
        return f"chunk {quoted(chunk.chunk_id)} has no address"
    fault = _format_fault(url)
    _, hash_sign, fragment = url.partition("#")
    if not fault and hash_sign:
        page = sources.page_of(chunk) if sources and fragment else None
        if not fragment:
            fault = "has an empty fragment"
        elif page and not page.has(fragment):
            fault = "has a fragment that its page lacks"
    return f"{quoted(url)} {fault}" if fault else ""


def _format_fault(url: str) -> str:
    if any(character.isspace() or not character.isprintable() for character in url):
        return "holds a blank"
    try:
        parts = urlsplit(url)
        absolute = bool(parts.scheme and parts.hostname and (parts.port or True))
    except ValueError as error:
        return f"is no address ({clipped(str(error))})"
    if absolute or (url.startswith("/") and not parts.netloc):
        return ""
    return "is neither absolute nor site-relative"


def sequence_faults(chunks: Iterable[Chunk]) -> Mapping[str, str]:
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


METRICS = (
    QueryMetric(
        name="metadata/completeness", scope="all", interval="mean", score=completeness,
        about="share of required metadata fields that are present and valid",
    ),
    QueryMetric(
        name="metadata/accuracy", scope="all", interval="mean", score=accuracy, needs=frozenset({"sources"}),
        about="share of required metadata fields that equal what the source page gives",
    ),
    QueryMetric(
        name="metadata/url_format", scope="all", interval="mean", headline="never", score=url_format,
        about="share of returned chunks whose address is absolute or site-relative, without blanks or a dead fragment",
    ),
    QueryMetric(
        name="metadata/chunk_sequence", scope="all", interval="mean", headline="never", score=chunk_sequence,
        about="share of returned chunks whose chunk_index and total_chunks are a valid sequence within their page",
    ),
)  # fmt: skip

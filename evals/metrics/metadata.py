"""Metadata of the chunks: completeness, accuracy against the source pages, addresses, numbering within the page."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
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

HASHES = {32: "md5", 40: "sha1", 64: "sha256"}
# Chunks of each query, and in all, that are read to find the usual fields.
BEST = 3
SAMPLE = 256
# A path within no site, with the ending of a file: what loaders of files write as `source`.
FILE_NAME = re.compile(r"(?!//|\w\w+:)[^/#?][^#?]*\.\w{1,8}")


def usual_in(pool: Pool) -> tuple[str, ...]:
    """Return the usual fields that a collection has, by the best chunks found in it (see `usual_fields`)."""
    best = pool.tables[0].codes[:, :BEST]
    return usual_fields([pool.chunks[code] for code in best[best >= 0][:SAMPLE].tolist()])


def completeness(r: Results, context: Context) -> Values:
    """Return the mean over the returned chunks of the share of required fields that are present and valid, 0 to 1."""

    def valid(chunk: Chunk) -> float:
        return 1 - len(missing_fields(chunk, context.required)) / len(context.required) if context.required else np.nan

    return r.mean_of_chunks("completeness", valid, none=Unscored(reason="no metadata field is required"))


def accuracy(r: Results, context: Context) -> Values:
    """Return the mean share of comparable required fields that equal the page's, over the returned chunks, 0 to 1.

    A chunk whose page does not exist counts 0; one without any comparable field is left out.
    """

    def right(chunk: Chunk) -> float:
        wrong, compared = wrong_fields(chunk, context.required, context.sources) if context.sources else ([], 0)
        return 1 - len(wrong) / compared if compared else np.nan

    none = Unscored(reason="no required field can be compared with the source pages")
    return r.mean_of_chunks("accuracy", right, (context.sources is None, NO_SOURCES), none=none)


def url_format(r: Results, context: Context) -> Values:
    """Return the share of the returned chunks whose address is well-formed and leads to a place that exists, 0 to 1."""
    pool = r.lists.pool
    return r.mean_of_chunks(
        "address",
        lambda chunk: float(has_valid_address(chunk, context.sources)),
        (names_files(pool), Unscored(reason="the chunks carry names of files in place of addresses")),
        (not pool.carries("source_url"), Unscored(reason="no chunk found carries source_url")),
    )


def chunk_sequence(r: Results, _: Context) -> Values:
    """Return the share of the returned chunks whose number is valid within their page, 0 to 1.

    By all chunks that were found for any query, so that it does not depend on a query's other candidates.
    """
    pool = r.lists.pool
    wrong, numbered = pool.once("misnumbered", misnumbered), pool.carries("chunk_index")
    none = Unscored(reason="no chunk found carries chunk_index")
    return r.mean_of_chunks(
        "number", lambda chunk: float(chunk.chunk_id not in wrong) if numbered else np.nan, none=none
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


def has_valid_address(chunk: Chunk, sources: Sources | None) -> bool:
    """Return True if a chunk's address is absolute (`https://host/path`) or site-relative (`/path`), without blanks.

    A fragment must name a place of the page, where the page is known.

    Raises:
        SourcePageError: The address has a fragment, and its page cannot be read.
    """
    url, hash_sign, fragment = (chunk.source_url or "").partition("#")
    try:
        parts = urlsplit(url)
        absolute = bool(parts.scheme and parts.hostname and (parts.port or True))
    except ValueError:
        return False
    if any(character.isspace() or not character.isprintable() for character in url + fragment):
        return False
    if not absolute and (not url.startswith("/") or parts.netloc):
        return False
    page = sources.page_of(chunk) if sources and fragment else None
    return bool(fragment or not hash_sign) and (page is None or page.has(fragment))


def misnumbered(chunks: Iterable[Chunk]) -> frozenset[str]:
    """Return the ids of the chunks, of any pages, whose number is none.

    `chunk_index` must run from 0 to `total_chunks` - 1 (or from 1 to `total_chunks`, where no chunk of these has 0), no
    two chunks of a page may have the same, and all chunks of a page must have the same `total_chunks`. A field that no
    chunk of these has is not missed.
    """
    distinct = list({chunk.chunk_id: chunk for chunk in chunks}.values())
    indexes = {chunk.chunk_index for chunk in distinct} - {None}
    first = int(0 not in indexes and any(c.chunk_index == c.total_chunks is not None for c in distinct))
    counts = Counter((_page(chunk), chunk.chunk_index) for chunk in distinct)
    totals = {(_page(chunk), chunk.total_chunks) for chunk in distinct if chunk.total_chunks is not None}
    several = {page for page, count in Counter(page for page, _ in totals).items() if count > 1}

    def is_wrong(chunk: Chunk) -> bool:
        page, index, total = _page(chunk), chunk.chunk_index, chunk.total_chunks
        if index is None or (total is None and totals):
            return True
        beyond = total is not None and not first <= index <= total - 1 + first
        # Chunks of no known page are not compared.
        return beyond or bool(page and (counts[page, index] > 1 or page in several))

    return frozenset(chunk.chunk_id for chunk in distinct if is_wrong(chunk)) if indexes else frozenset()


def _page(chunk: Chunk) -> str:
    return without_fragment(chunk.source_url) or chunk.file_path or chunk.source_document_id or ""


METRICS = (
    QueryMetric(name="metadata/completeness", score=completeness, scope="all",
                about="share of required metadata fields that are present and valid"),
    QueryMetric(name="metadata/accuracy", score=accuracy, scope="all", needs=frozenset({"sources"}),
                about="share of required metadata fields that equal what the source page gives"),
    QueryMetric(name="metadata/url_format", score=url_format, scope="all", headline="never", about="share of returned "
                "chunks whose address is absolute or site-relative, without blanks or a dead fragment"),
    QueryMetric(name="metadata/chunk_sequence", score=chunk_sequence, scope="all", headline="never", about="share of "
                "returned chunks whose chunk_index and total_chunks are a valid sequence within their page"),
)  # fmt: skip

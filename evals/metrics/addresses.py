"""Format of the chunks' addresses."""

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from evals.collect.observations import Observation, Score, Unscored, distinct_chunks
from evals.golden.source_pages import Sources
from evals.metrics.base import Context, QueryMetric, where_named
from evals.metrics.metadata import NO_CHUNKS
from retrievers.records import Chunk
from retrievers.text.quoting import clipped, quoted

NO_ADDRESS = "is neither absolute nor site-relative"
# A path within no site, with the ending of a file: what loaders of files write as `source`.
FILE_NAME = re.compile(r"(?!//|\w\w+:)[^/#?][^#?]*\.\w{1,8}")
FILE_NAMES = Unscored(reason="the chunks carry names of files in place of addresses")


def names_files(chunks: Sequence[Chunk]) -> bool:
    """Return True if chunks carry names of files and no address: then there is none to be right or wrong."""
    urls = {chunk.source_url for chunk in chunks if chunk.source_url}
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
    return NO_ADDRESS


def url_format(observation: Observation, context: Context) -> Score:
    """Return the share of the returned chunks whose address is well-formed and leads to a place that exists, 0 to 1."""
    chunks = observation.selection.chunks
    if not chunks:
        return NO_CHUNKS
    return sum(not address_fault(chunk, context.sources) for chunk in chunks) / len(chunks)


def _where_addresses(observations: Sequence[Observation], context: Context) -> Sequence[Score]:
    if names_files(distinct_chunks(observations)):
        return [FILE_NAMES] * len(observations)
    return _named(observations, context)


_named = where_named(url_format, "source_url")


METRICS: tuple[QueryMetric, ...] = (
    QueryMetric(
        name="metadata/url_format",
        scope="all",
        interval="mean",
        headline="never",
        about="share of returned chunks whose address is absolute or site-relative, without blanks or a dead fragment",
        score=_where_addresses,
    ),
)

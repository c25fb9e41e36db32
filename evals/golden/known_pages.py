"""The pages of a collection, where evidence names none of them. Pure."""

from collections.abc import Sequence
from pathlib import PurePosixPath

from retrievers.records import Chunk

SHOWN = 3


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

"""Evidence that names pages of which a collection has none."""

import pytest

from evals.cases.relevance import known_pages
from retrievers.records import Chunk


@pytest.mark.parametrize(
    ("pages", "says"),
    [
        ([None], "no chunk of the collection says which page it is from: there is no source_url, url or source"),
        (
            ["/home/me/docs/a.md", "/b.md"],
            "the collection has 2 pages: '/home/me/docs/a.md'; write source_url as the collection does",
        ),
        (["/1", "/2", "/3", "/4"], "the collection has 4 pages: '/1', '/2', '/3', …; was it made from other pages?"),
    ],
)
def test_what_the_collection_has_instead(pages: list[str | None], says: str) -> None:
    chunks = [Chunk(chunk_id="c", point_id="p", text="t", source_url=page) for page in pages]
    assert says in known_pages(["docs/a.md"], chunks)

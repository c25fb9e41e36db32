"""Three small pages, read as sources, and the chunk that indexing makes of `A publisher sends messages. …`."""

import pytest

from evals.cases.pages import SourcePages
from retrievers.records import Chunk
from tests.support.indexing import read_pages, true_chunks


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> SourcePages:
    return read_pages(tmp_path_factory.mktemp("docs"))


@pytest.fixture(scope="session")
def chunk(sources: SourcePages) -> Chunk:
    return next(c for c in true_chunks(sources, "module-1/topics.md") if "publisher sends" in c.text)

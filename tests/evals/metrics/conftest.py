import pytest

from evals.cases.pages import SourcePages
from retrievers.records import Chunk
from tests.support.indexing import true_chunks


@pytest.fixture(scope="session")
def chunk(sources: SourcePages) -> Chunk:
    """What indexing makes of `A publisher sends messages. …`."""
    return next(c for c in true_chunks(sources, "module-1/topics.md") if "publisher sends" in c.text)

"""Ranked lists of keyword search against bm25s: the same terms, k and b; queries repeat words."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from statistics import mean
from typing import cast

import numpy as np
import pytest
from bm25s import BM25
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from numpy.typing import NDArray
from qdrant_client import QdrantClient

from retrievers.embedding.bm25 import B, Bm25Encoder, K
from retrievers.search.find import Search
from retrievers.search.query import encode
from retrievers.store.chunks import ChunkTable
from tests.support.bm25 import BruteForceBm25
from tests.support.collections import settings
from tests.support.hybrid import fill_sparse
from tests.support.writable import WritableClient

pytestmark = pytest.mark.filterwarnings("ignore:Local mode performs exact")

WORDS = ("robot", "robots", "run", "running", "joint", "the", "of", "sensor", "lidar", "x1", "gait")
QUERIES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=10).map(" ".join)
CORPORA = st.lists(QUERIES, min_size=1, max_size=12)


def terms(text: str) -> list[str]:
    return [str(term) for term in BruteForceBm25({}, 1).terms(text)]


def oracle(texts: Sequence[str], query: Sequence[str]) -> dict[str, float]:
    """BM25 of every text that holds a term of the query, by its number. bm25s leaves out the constant k + 1."""
    index = BM25(k1=K, b=B, method="lucene", dtype="float64")
    index.index([terms(text) for text in texts], show_progress=False)
    known = [term for term in query if term in index.vocab_dict]
    scores: NDArray[np.float64] = index.get_scores(known) if known else np.zeros(len(texts))
    return {str(number): score * (K + 1) for number, score in enumerate(scores.tolist()) if score > 0}


def filled(client: QdrantClient, texts: Sequence[str]) -> None:
    """A collection of the texts, their ids their numbers."""
    average = mean(len(terms(text)) for text in texts)
    rows = [([1.0, 0.0], text, {"chunk_id": str(number)}) for number, text in enumerate(texts)]
    fill_sparse(client, "c", rows, encoder=Bm25Encoder("english", average))


def found(client: QdrantClient, query: str, depth: int) -> Mapping[str, float]:
    """The ranked list of a query, with scores."""
    config = settings(collection="c", mode="keyword")
    chunks = ChunkTable(client, config)
    encoder, vector = Bm25Encoder(), [1.0, 0.0]
    table = Search(client, config, depth, chunks).find([encode(vector, encoder.query(query))])
    [hits] = table
    return {chunks.point(code): score for code, score in zip(hits.codes.tolist(), hits.column("score"), strict=True)}


def assert_ranked_alike(ranked: Mapping[str, float], expected: Mapping[str, float], depth: int) -> None:
    """The same scores at every place, and each of them its text's: the same list but for the order of ties."""
    best = sorted(expected.values(), reverse=True)[:depth]
    assert sorted(ranked.values(), reverse=True)[:depth] == pytest.approx(best, rel=1e-5)
    assert ranked == pytest.approx({text: expected[text] for text in ranked}, rel=1e-5)


@examples(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=CORPORA.filter(lambda texts: any(map(terms, texts))), query=QUERIES)
def test_random_texts_rank_as_bm25s_has_them(texts: Sequence[str], query: str) -> None:
    client = QdrantClient(":memory:")
    filled(client, texts)
    assert_ranked_alike(found(client, query, 20), oracle(texts, terms(query)), 20)
    client.close()


def drawn(rng: np.random.Generator, longest: int) -> str:
    """A text of words of which a few make up most, as in a language."""
    return " ".join(f"word{number % 400}" for number in rng.zipf(1.3, rng.integers(1, longest)))


@pytest.fixture(scope="module")
def corpus() -> Sequence[str]:
    rng = np.random.default_rng(7)
    return [drawn(rng, 80) for _ in range(500)]


@pytest.fixture(scope="module")
def embedded(corpus: Sequence[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[QdrantClient]:
    path: Path = tmp_path_factory.mktemp("bm25") / "store"
    with closing(WritableClient(path, create=True)) as store:
        client = cast(QdrantClient, store)
        filled(client, corpus)
        yield client


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))])
def test_long_queries_rank_as_bm25s_has_them_on_the_embedded_store(
    corpus: Sequence[str], embedded: QdrantClient, seed: int
) -> None:
    query = drawn(np.random.default_rng([11, seed]), 60) + " word1 word1 word2"
    assert_ranked_alike(found(embedded, query, 50), oracle(corpus, terms(query)), 50)


def test_a_query_written_twice_ranks_as_written_once(corpus: Sequence[str], embedded: QdrantClient) -> None:
    query = "word3 word17 word3"
    once, twice = found(embedded, query, 50), found(embedded, f"{query} {query}", 50)
    assert twice == pytest.approx({text: 2 * score for text, score in once.items()}, rel=1e-6)

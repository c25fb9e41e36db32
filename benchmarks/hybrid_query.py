"""What one hybrid query costs through `QdrantRetriever.search`, its embedding included, on made-up chunks.

python benchmarks/hybrid_query.py [--sizes 1400 10000 100000] [--rounds 10]

Bounds on the median: 3 ms at 1,400 chunks; at 100,000 (256 dimensions) 15 ms exact and 5 ms with the index built; at
10,000 at least 20 times faster than the hybrid search of qdrant-client's local mode. A chunk is a vector, the BM25
terms of a text of 40 to 120 words and a payload of 1 KB; a query is a text of six words, embedded by the packaged
model. Of each query the least of all rounds is told as well, which is less disturbed by what else the machine does.
"""

import argparse
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
NAME, QUERIES, DEPTH, TOP_K = "chunks", 100, 100, 5
BOUNDS_MS = {(1_400, "exact"): 3.0, (100_000, "exact"): 15.0}
SIDE_BY_SIDE, FASTER = 10_000, 20
Ask = Callable[[str], Any]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_400, 10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    for size in options.sizes:
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder) / "store", size, options.rounds)


def measure(path: Path, size: int, rounds: int) -> None:
    """One size: exact, beside local mode."""
    from qdrant_client import models

    from retrievers.store.embedded import EmbeddedClient

    rng = np.random.default_rng(size)
    points, queries = chunks(rng, size), [" ".join(words(rng, 6)) for _ in range(QUERIES)]
    print(f"\n{size:,} chunks, {QUERIES} queries, {rounds} rounds")
    with closing(EmbeddedClient(path, create=True)) as client:
        parameters = models.VectorParams(size=256, distance=models.Distance.COSINE)
        terms = {"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)}
        with client.building(NAME, vectors=parameters, sparse=terms) as build:
            for begin in range(0, len(points), 1_000):
                build.upsert(points[begin : begin + 1_000])
    exact = through_retriever(path, queries, rounds, size, "exact")
    if size == SIDE_BY_SIDE:
        ratio = local_mode(points, queries) / exact
        print(f"  {ratio:.0f} times faster than local mode: {ratio / FASTER:.2f} of the {FASTER} times wanted")


def chunks(rng: np.random.Generator, size: int) -> list[Any]:
    """Clustered unit vectors of 256 dimensions, texts of 40 to 120 words by Zipf's law with their BM25 terms."""
    from qdrant_client import models

    from retrievers.embedding.bm25 import Bm25Encoder
    from retrievers.indexing.chunking import point_id

    encoder = Bm25Encoder(average_length=80)
    centres = rng.normal(size=(50, 256))
    vectors = centres[rng.integers(50, size=size)] + 0.7 * rng.normal(size=(size, 256))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    points = []
    for number, vector in enumerate(vectors):
        text, name = " ".join(words(rng, int(rng.integers(40, 121)))), f"{number:032x}"
        terms = encoder.document(text)
        sparse = models.SparseVector.model_construct(indices=list(terms.indices), values=list(terms.values))
        metadata = {"chunk_id": name, "source_url": f"/docs/{number % 500}", "title": f"Page {number % 500}"}
        payload = {"page_content": f"{text} " * 2, "metadata": metadata}
        named: dict[str, Any] = {"": vector.tolist(), "bm25": sparse}
        points.append(models.PointStruct.model_construct(id=point_id(name), vector=named, payload=payload))
    return points


def words(rng: np.random.Generator, count: int) -> list[str]:
    """Words of a vocabulary of 20,000, the first of them far more often."""
    return [f"w{int(rank)}" for rank in 20_000 ** rng.random(count)]


def fill(client: Any, points: Sequence[Any]) -> None:
    """Make the collection and store the points."""
    from qdrant_client import models

    client.create_collection(
        NAME,
        vectors_config=models.VectorParams(size=256, distance=models.Distance.COSINE),
        sparse_vectors_config={"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)},
    )
    for start in range(0, len(points), 1_000):
        client.upsert(NAME, list(points[start : start + 1_000]))


def through_retriever(path: Path, queries: Sequence[str], rounds: int, size: int, what: str) -> float:
    """Print what a search costs; the median in milliseconds, of each query's least."""
    from retrievers.config import RetrieverConfig
    from retrievers.retriever.qdrant import QdrantRetriever

    config = RetrieverConfig.model_validate(
        {
            "store": {"path": path},
            "collection": NAME,
            "mode": "hybrid",
            "top_k": TOP_K,
            "candidates": DEPTH,
            "threshold": 0,
            "trust_embedding": True,
        }
    )

    with QdrantRetriever.open(config, env={}) as retriever:

        def ask(query: str) -> None:
            session = retriever.search(query, use_cache=False)
            if session.error or len(session.chunks) != TOP_K:
                raise SystemExit(f"{query!r} gave {len(session.chunks)} chunks: {session.error}")

        return told(what, timed(ask, queries, rounds), BOUNDS_MS.get((size, what)))


def local_mode(points: Sequence[Any], queries: Sequence[str]) -> float:
    """The same query as qdrant-client's local mode answers it in memory, fused by its own RRF; milliseconds."""
    from qdrant_client import QdrantClient, models

    from retrievers.embedding.bm25 import Bm25Encoder
    from retrievers.embedding.models import StaticEmbeddings

    embeddings, encoder, client = StaticEmbeddings(), Bm25Encoder(), QdrantClient(":memory:")

    def ask(query: str) -> None:
        sides = [
            models.Prefetch(query=embeddings.embed_query(query), limit=DEPTH),
            models.Prefetch(query=encoder.query(query), using="bm25", limit=DEPTH),
        ]
        client.query_points(NAME, prefetch=sides, query=models.FusionQuery(fusion=models.Fusion.RRF), limit=TOP_K)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fill(client, points)
        found = told("local mode", timed(ask, queries[:20], 2), None)
    client.close()
    return found


def timed(ask: Ask, queries: Sequence[str], rounds: int) -> list[list[float]]:
    """Milliseconds of every query in every round, after one round to warm up."""
    times = []
    for _ in range(rounds + 1):
        row = []
        for query in queries:
            start = time.perf_counter()
            ask(query)
            row.append((time.perf_counter() - start) * 1000)
        times.append(row)
    return times[1:]


def told(what: str, times: list[list[float]], bound: float | None) -> float:
    """Print percentiles of all calls, and of each query's least; the median of the latter."""
    p50, p95 = np.percentile(times, [50, 95])
    best50, best95 = np.percentile(np.min(times, axis=0), [50, 95])
    share = f": {p50 / bound:.2f} ({best50 / bound:.2f}) of the {bound:g} ms allowed" if bound else ""
    load = os.getloadavg()[0]
    print(f"  {what:<11} p50 {p50:.2f} ms, p95 {p95:.2f} ms (least of each query: {best50:.2f}, {best95:.2f}){share}")
    print(f"  {'':<11} at a load of {load:.1f} on {os.cpu_count()} cores")
    return float(best50)


if __name__ == "__main__":
    main()

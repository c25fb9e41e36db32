"""The embedded engine on made-up chunks: indexing, reopening, searching; at 10,000 beside qdrant-client's local mode.

python benchmarks/embedded_engine.py [--sizes 1400 10000 100000]

Bounds: 5,000 chunks a second indexed, 1 s to reopen 100,000, 20 times faster than local mode at
10,000 on dense and sparse together. A chunk is a vector of 256 dimensions, some 80 weighted terms and a payload of
1 KB; a search takes the best 100 with their payload, unless it says otherwise.
"""

import argparse
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
NAME, DIMENSIONS, VOCABULARY, TERMS = "chunks", 256, 20_000, 80
QUERIES, BATCH, SIDE_BY_SIDE, LARGE = 100, 1_000, 10_000, 100_000
BOUNDS = {"index": 5_000, "reopen": 1.0, "faster": 20}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_400, 10_000, 100_000])
    parser.add_argument("--depth", type=int, default=100)
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    for size in options.sizes:
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder) / "store", size, options.depth)


def measure(path: Path, size: int, depth: int) -> None:
    """One size: index, reopen, search, compare."""
    from qdrant_client import models

    from retrievers.store.embedded import EmbeddedClient

    rng = np.random.default_rng(size)
    points, queries = chunks(rng, size), asked(rng)
    print(f"\n{size:,} chunks")
    with closing(EmbeddedClient(path, create=True)) as client:
        start = time.perf_counter()
        parameters = models.VectorParams(size=DIMENSIONS, distance=models.Distance.COSINE)
        terms = {"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)}
        indexes = {"metadata.n": "integer", "metadata.module": "keyword"}
        with client.building(NAME, vectors=parameters, sparse=terms, indexes=indexes) as build:
            for begin in range(0, len(points), BATCH):
                build.upsert(points[begin : begin + BATCH])
        rate = size / (time.perf_counter() - start)
        large = size == LARGE
        share = f": {rate / BOUNDS['index']:.2f} of the {BOUNDS['index']:,} wanted" if large else ""
        print(f"  index      {rate:,.0f} a second, in force and on disk{share}")
    reopened = statistics.median(reopen(path) for _ in range(5))
    share = f": {reopened / BOUNDS['reopen']:.2f} of the {BOUNDS['reopen']:g} s allowed" if large else ""
    print(f"  reopen     {reopened:.3f} s to the first answer{share}")
    with closing(EmbeddedClient(path)) as client:
        exact = search(client, queries, depth, "exact")
    if size == SIDE_BY_SIDE:
        beside(points, queries, depth, exact)


def chunks(rng: np.random.Generator, size: int) -> list[Any]:
    """Clustered unit vectors, terms by Zipf's law, a payload of text and fields."""
    from qdrant_client import models

    centres = rng.normal(size=(50, DIMENSIONS))
    vectors = centres[rng.integers(50, size=size)] + 0.7 * rng.normal(size=(size, DIMENSIONS))
    points = []
    for i, vector in enumerate(vectors):
        terms = words(rng, TERMS)
        sparse = models.SparseVector.model_construct(indices=terms, values=rng.uniform(0.5, 2.0, len(terms)).tolist())
        payload = {
            "page_content": f"chunk {i} " + "robots sense, plan and act " * 35,
            "metadata": {"n": i % 50, "module": f"module-{i % 7}", "tags": [f"t{i % 11}"]},
        }
        named: dict[str, Any] = {"": (vector / np.linalg.norm(vector)).tolist(), "bm25": sparse}
        points.append(models.PointStruct.model_construct(id=i, vector=named, payload=payload))
    return points


def asked(rng: np.random.Generator) -> list[tuple[list[float], Any]]:
    """Queries: a vector, and six terms."""
    from qdrant_client import models

    vectors = rng.normal(size=(QUERIES, DIMENSIONS)).tolist()
    terms = [words(rng, 6) for _ in vectors]
    return [(v, models.SparseVector(indices=t, values=[1.0] * len(t))) for v, t in zip(vectors, terms, strict=True)]


def words(rng: np.random.Generator, count: int) -> list[int]:
    """Different term numbers, the low ones far more often."""
    return sorted({int(rank) for rank in (VOCABULARY ** rng.random(2 * count)).astype(int)})[:count]


def fill(client: Any, points: list[Any]) -> None:
    """Make the collection and store the points."""
    from qdrant_client import models

    client.create_collection(
        NAME,
        vectors_config=models.VectorParams(size=DIMENSIONS, distance=models.Distance.COSINE),
        sparse_vectors_config={"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)},
    )
    for start in range(0, len(points), BATCH):
        client.upsert(NAME, points[start : start + BATCH])


def reopen(path: Path) -> float:
    """Seconds from nothing to the first answer."""
    from retrievers.store.embedded import EmbeddedClient

    start = time.perf_counter()
    with closing(EmbeddedClient(path)) as client:
        client.query_points(NAME, [1.0] * DIMENSIONS, limit=1)
        return time.perf_counter() - start


def search(client: Any, queries: list[tuple[list[float], Any]], depth: int, what: str) -> Mapping[str, float]:
    """Median milliseconds of a dense search, a sparse one, and one after the other."""

    def dense(vector: Any, _: Any, limit: int = depth) -> Any:
        return client.query_points(NAME, query=vector, limit=limit)

    def sparse(_: Any, terms: Any, limit: int = depth) -> Any:
        return client.query_points(NAME, query=terms, using="bm25", limit=limit)

    found = {
        "dense": median(dense, queries),
        "dense, best 10": median(lambda v, t: dense(v, t, 10), queries),
        "sparse": median(sparse, queries),
        "dense + sparse": median(lambda v, t: (dense(v, t), sparse(v, t)), queries),
    }
    print(f"  {what:<11}" + "  ".join(f"{label} {ms:.2f} ms" for label, ms in found.items()))
    return found


def median(call: Callable[[Any, Any], Any], queries: list[tuple[list[float], Any]]) -> float:
    """Median milliseconds of a call, after a few to warm up."""
    times = []
    for vector, terms in [*queries[:5], *queries]:
        start = time.perf_counter()
        call(vector, terms)
        times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times[5:])


def beside(points: list[Any], queries: list[tuple[list[float], Any]], depth: int, exact: Mapping[str, float]) -> None:
    """Local mode on the same chunks, in memory, where it is fastest."""
    from qdrant_client import QdrantClient

    local = QdrantClient(":memory:")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fill(local, points)
        slow = search(local, queries[:20], depth, "local")
    local.close()
    ratios = {label: slow[label] / ms for label, ms in exact.items()}
    print("  faster     " + "  ".join(f"{label} {ratio:.0f} times" for label, ratio in ratios.items()))
    both = ratios["dense + sparse"]
    print(f"  dense + sparse: {both:.0f} times, {both / BOUNDS['faster']:.2f} of the {BOUNDS['faster']} wanted")


if __name__ == "__main__":
    main()

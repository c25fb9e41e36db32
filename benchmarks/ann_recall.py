"""What an HNSW index and quantised vectors miss, against their latency: a made collection on Qdrant Edge.

python benchmarks/ann_recall.py [--points 50000] [--queries 200] [--rounds 3]

Vectors of 256 dimensions in 500 overlapping clusters, seeded; three collections of them with a built index: as they
are, with scalar and with binary quantisation. Bound: exact search. A time is the median over the queries of the
fastest of some single calls, without embedding. A query is another vector with noise; relevant are the ten chunks
nearest to the vector without it, the first three of grade 2: so the search cannot know their order, and a perfect
reranker could.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parents[1]
DIMENSIONS, CLUSTERS, RELEVANT = 256, 500, 10
BEAMS = (16, 32, 64, 128, 256, 512)
DEPTHS = (5, 100)
CUT, POOLS = 10, (10, 20, 50, 100)
Floats = NDArray[np.float32]
QUANTISED: Mapping[str, Mapping[str, Any]] = {
    "float32": {},
    "int8": {"rescore": False},
    "int8, rescored, oversampling 2": {"rescore": True, "oversampling": 2.0},
    "binary": {"rescore": False},
    "binary, rescored, oversampling 4": {"rescore": True, "oversampling": 4.0},
}
"""How vectors are searched, by the name in the table: the first word names the collection."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A way to search: recall and milliseconds by depth, nDCG@10 of its order, and of the best one by pool."""

    name: str
    beam: int | None
    recall: Mapping[int, float]
    ms: Mapping[int, float]
    ndcg: float
    oracle: Mapping[int, float]


def main() -> None:
    """Make the collections, measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=50_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3, help="calls of every query, of which the fastest counts")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    rng = np.random.default_rng(0)
    made = clustered(rng)
    stored, meant = made(options.points), made(options.queries)
    asked = unit(meant + 0.7 * unit(rng.normal(size=meant.shape)))
    grades = [relevant(stored, vector) for vector in meant]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("float32", "int8", "binary"):
            start = time.perf_counter()
            with opened(Path(folder) / kind, kind, stored) as retriever:
                built = "an HNSW index" if retriever.info.in_hnsw else "no index (the collection is too small for one)"
                print(f"{kind}: {options.points:,} points, {built}, {time.perf_counter() - start:.0f} s", flush=True)
                rows.extend(measured(retriever, kind, asked, grades, options.rounds))
    report(rows)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def clustered(rng: np.random.Generator) -> Any:
    """Return a function that makes unit vectors around the same centres; later dimensions matter less."""
    spectrum = np.arange(1, DIMENSIONS + 1) ** -0.35
    centres = rng.normal(size=(CLUSTERS, DIMENSIONS)) * spectrum

    def made(count: int) -> Floats:
        spread = 2 * rng.normal(size=(count, DIMENSIONS)) * spectrum
        return unit(centres[rng.integers(0, CLUSTERS, count)] + spread)

    return made


def unit(vectors: NDArray[Any]) -> Floats:
    """Scale vectors to length 1."""
    return cast(Floats, (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32))


def relevant(stored: Floats, vector: Floats) -> dict[int, int]:
    """Return the points nearest to the vector that a query means, with their grades."""
    nearest = np.argsort(-(stored @ vector))[:RELEVANT].tolist()
    return {point: 2 if place < 3 else 1 for place, point in enumerate(nearest)}


def opened(folder: Path, kind: str, stored: Floats) -> Any:
    """Make a collection with a built index, and open a retriever over it."""
    from langchain_core.embeddings import DeterministicFakeEmbedding
    from qdrant_client import models

    from retrievers.config import RetrieverConfig, StoreConfig
    from retrievers.retriever.qdrant import QdrantRetriever
    from retrievers.store.edge import EdgeClient

    quantisation: Mapping[str, Any] = {
        "int8": models.ScalarQuantization(
            scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
        ),
        "binary": models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True)),
    }
    params = models.VectorParams(
        size=DIMENSIONS, distance=models.Distance.COSINE, quantization_config=quantisation.get(kind)
    )
    with EdgeClient(folder, create=True) as client, client.changing("made"):
        client.create_collection("made", params)
        for start in range(0, len(stored), 2_000):
            batch = enumerate(stored[start : start + 2_000].tolist(), start)
            client.upsert("made", [models.PointStruct.model_construct(id=i, vector=v, payload=None) for i, v in batch])
        client.optimize("made")
    config = RetrieverConfig(store=StoreConfig(path=folder), collection="made", trust_embedding=True)
    return QdrantRetriever.open(config, env={}, embeddings=DeterministicFakeEmbedding(size=DIMENSIONS))


def measured(
    retriever: Any, kind: str, asked: Floats, grades: Sequence[Mapping[int, int]], rounds: int
) -> Iterator[Row]:
    """Yield what each way to search in a collection finds; over the vectors as they are, exact search first."""
    exact, chunks = {"exact": True}, retriever.chunk_table()
    truth = {depth: retriever.neighbours(asked.tolist(), exact, depth, chunks) for depth in DEPTHS}
    searches: list[tuple[str, dict[str, Any]]] = [("exact", exact)] if kind == "float32" else []
    for name, quantisation in QUANTISED.items():
        if name.split(",")[0] == kind:
            searches += [(name, {"hnsw_ef": beam, "quantization": quantisation}) for beam in BEAMS]
    for name, search in searches:
        yield row(retriever, name, search, asked, truth, chunks, grades, rounds)


def row(
    retriever: Any,
    name: str,
    search: Any,
    asked: Floats,
    truth: Mapping[int, Sequence[Any]],
    chunks: Any,
    grades: Sequence[Mapping[int, int]],
    rounds: int,
) -> Row:
    """Measure one way to search: recall at each depth, single calls, and what is to be won by reranking."""
    from evals.collect.index_recall import recall

    results, times = {}, {}
    for depth in DEPTHS:
        results[depth], times[depth] = timed(retriever, search, asked.tolist(), depth, chunks, rounds)
    order = [[str(i) for i in chunks.given(one.codes[np.argsort(-one.scores)])] for one in results[DEPTHS[-1]]]
    known = [{str(point): grade for point, grade in one.items()} for one in grades]
    pairs = list(zip(order, known, strict=True))
    return Row(
        name=name,
        beam=search.get("hnsw_ef"),
        recall={
            depth: fmean(recall(a, b, depth) for a, b in zip(truth[depth], results[depth], strict=True))
            for depth in DEPTHS
        },
        ms=times,
        ndcg=fmean(ndcg([of.get(key, 0) for key in ids], of) for ids, of in pairs),
        oracle={
            pool: fmean(ndcg(sorted((of.get(key, 0) for key in ids[:pool]), reverse=True), of) for ids, of in pairs)
            for pool in POOLS
        },
    )


def ndcg(gains: Sequence[int], grades: Mapping[str, int]) -> float:
    """nDCG@10 of a ranking by its gains; by these in falling order, that of a perfect reranker."""
    discounts = 1 / np.log2(np.arange(2, CUT + 2))
    ideal = np.sort(list(grades.values()))[::-1][:CUT]
    return float(discounts[: len(gains)] @ gains[:CUT] / (discounts[: len(ideal)] @ ideal))


def timed(
    retriever: Any, search: Any, vectors: Sequence[Any], depth: int, chunks: Any, rounds: int
) -> tuple[Any, float]:
    """Return the result of each vector, and the median of the fastest single calls in milliseconds.

    The client is asked: a retriever refuses binary vectors without rescoring, whose scores are no cosines.
    """
    from qdrant_client import models

    from retrievers.search.table_builder import joined, one_query

    params = models.SearchParams.model_validate(search)
    results, fastest = [], []
    for vector in vectors:
        request = models.QueryRequest(query=vector, limit=depth, params=params)
        times = []
        for _ in range(rounds):
            start = time.perf_counter()
            [found] = retriever.client.nearest("made", [request])
            times.append((time.perf_counter() - start) * 1000)
        codes, scores = chunks.codes(point.id for point in found), np.asarray([point.score for point in found])
        results.append(one_query(codes, scores, {}, chunks, scale="cosine"))
        fastest.append(min(times))
    return joined(results, chunks), median(fastest)


def report(rows: Sequence[Row]) -> None:
    """Print the table."""
    pools = list(rows[0].oracle)
    print("\n| vectors | hnsw_ef | recall@5 | ms | recall@100 | ms | nDCG@10 |", end=" ")
    print(" | ".join(f"oracle of {pool}" for pool in pools), "|")
    print("|---|---:|---:|---:|---:|---:|---:|" + "---:|" * len(pools))
    for one in rows:
        figures = [part for depth in DEPTHS for part in (f"{one.recall[depth]:.3f}", f"{one.ms[depth]:.2f}")]
        oracle = [f"{one.oracle[pool]:.3f}" for pool in pools]
        print("|", " | ".join([one.name, str(one.beam or ""), *figures, f"{one.ndcg:.3f}", *oracle]), "|")


if __name__ == "__main__":
    main()

"""How the work grows with queries and chunks: the grid's arithmetic, a whole sweep, and the embedded engine.

python benchmarks/scale.py [--only grid,run,engine] [--queries 1000,10000,100000] [--chunks 454,10000,50000]

grid: drawn queries × depth 20 × 400 cells, five metrics, without retrieval and intervals. Candidates, scores and grades
are drawn; what is measured ends with mean, n and counts of every metric in every cell. Each size is a process of its
own, which tells its peak memory; that of Python, numpy and the drawn data alone stands beside it. Bounds: 20 s and 1 GB
for 100,000 queries.

run: one command, two modes (semantic, hybrid) × top_k 1 to 20 × threshold 0 to 0.95 on the packaged handbook, metrics
over ids, report and MLflow on. Queries are words that follow each other in a chunk, whose relevant chunk it is; one in
ten is out of scope. Beside it the engine alone: batches of the same vectors. Bounds: linear growth, 60 s and 1 GB for
10,000 queries, 10 minutes and 3 GB for 100,000.

engine: made-up chunks (a vector of 256 dimensions, some 80 weighted terms, a payload of 1 KB) indexed, reopened and
searched for the best 100; at 10,000 beside qdrant-client's local mode in memory. Bounds: 5,000 chunks a second indexed,
20 times faster than local mode on dense and sparse together.
"""

import argparse
import json
import multiprocessing
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from evals.config.experiment import ExperimentConfig  # noqa: E402
from evals.experiment.bench import index_if_stale  # noqa: E402
from retrievers.config import RetrieverConfig  # noqa: E402
from retrievers.records import Chunk  # noqa: E402
from retrievers.retriever.qdrant import QdrantRetriever  # noqa: E402
from retrievers.store.embedded import EmbeddedClient  # noqa: E402

DEPTH, RELEVANT, CHUNKS = 20, 7, 1_000
METRICS = ("ranking/ndcg_at_10", "ranking/recall_at_10", "ranking/mrr_at_10", "ranking/map_at_10",
           "ragas/id_context_precision")  # fmt: skip
MODES, ENGINE_BATCH = ("semantic", "hybrid"), 32
OUT_OF_SCOPE = "onion soup recipe with cheese number"
NAME, DIMENSIONS, VOCABULARY, TERMS = "chunks", 256, 20_000, 80
SEARCHES, BATCH, SIDE_BY_SIDE, BEST = 100, 1_000, 10_000, 100
Measured = tuple[float, float, float]
"""Wall seconds, CPU seconds, peak memory in MB."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="grid,run,engine", help="parts to measure")
    parser.add_argument("--queries", default="1000,10000,100000")
    parser.add_argument("--chunks", default="454,10000,50000")
    given = parser.parse_args()
    queries, chunks = ([int(size) for size in text.split(",")] for text in (given.queries, given.chunks))
    parts = {"grid": lambda: grid(queries), "run": lambda: sweep(queries), "engine": lambda: engine(chunks)}
    for part in given.only.split(","):
        print(f"== {part}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        parts[part]()


def grid(sizes: Sequence[int]) -> None:
    """Print what scoring 400 cells takes."""
    print(f"{'queries':>10} {'wall s':>9} {'CPU s':>9} {'us CPU each':>15} {'peak MB':>9} {'drawn MB':>9}")
    for size in sizes:
        (_, _, before), (wall, cpu, peak) = (in_fresh_process(size, scored) for scored in (False, True))
        print(f"{size:>10,} {wall:>9.2f} {cpu:>9.2f} {cpu / size * 1e6:>15.1f} {peak:>9,.0f} {before:>9,.0f}")


def in_fresh_process(queries: int, scored: bool) -> Measured:
    """What `work` measures, in a new interpreter."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, (queries, scored))


def work(queries: int, scored: bool) -> Measured:
    """One size."""
    from evals.config.experiment import SweepConfig
    from evals.grid.axes import plan
    from evals.grid.cells import score_cells
    from evals.grid.measure import grid_of
    from evals.metrics import METRICS as DECLARED
    from evals.metrics.declaration import Context, QueryMetric

    sweep = {"top_k": "1:20", "threshold": "0:0.95:0.05", "mode": ["semantic"]}
    settings = RetrieverConfig.model_validate({"candidates": DEPTH, "threshold_on": "each", "fusion": "weighted"})
    planned = plan(settings, SweepConfig.model_validate(sweep))
    cells = grid_of(planned, drawn(queries))
    by_name = {name: metric for name in METRICS if isinstance(metric := DECLARED[name], QueryMetric)}
    wall, cpu = time.perf_counter(), time.process_time()
    if scored:
        made = score_cells(cells, by_name, Context(required=(), sources=None, relevant_texts={}, seed=0))
        assert all(len(scores.mean) == 400 and scores.n[0] == queries for scores in made.values())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return time.perf_counter() - wall, time.process_time() - cpu, peak


def drawn(queries: int) -> Any:
    """Draw candidates with falling scores for every query, some of them relevant."""
    from evals.cases.case import Case
    from evals.cases.relevance import Relevance
    from evals.collect.pool import Pool
    from retrievers.search.candidates import Candidates, ChunkList, SearchFacts

    rng, chunks = np.random.default_rng(0), ChunkList()
    for number in range(CHUNKS):
        chunks.code(Chunk(chunk_id=str(number), point_id=str(number), text=f"chunk {number}"))
    known = [{str(key): 1 for key in rng.integers(0, CHUNKS, RELEVANT)} for _ in range(200)]
    cases = tuple(Case(id=f"q{n}", query=f"query {n}", relevant_ids=known[n % 200]) for n in range(queries))
    facts = [Relevance(grades=grades, items=tuple(frozenset([key]) for key in grades)) for grades in known]
    scores = -np.sort(-rng.random((queries, DEPTH)) * 0.9, axis=1)
    codes = rng.integers(0, CHUNKS // DEPTH, (queries, DEPTH)) + np.arange(0, CHUNKS, CHUNKS // DEPTH)
    for row, (grades, shown) in enumerate(zip(known, rng.random((200, DEPTH)) < 1 / 3, strict=True)):
        wanted = [int(key) for key in grades][: int(shown.sum())]
        codes[row::200, np.flatnonzero(shown)[: len(wanted)]] = wanted
    columns = {"score": scores, "semantic": scores}
    table = Candidates(
        codes=codes, columns=columns, chunks=chunks, facts=[SearchFacts(text=case.query) for case in cases]
    )
    relevance = tuple(facts[number % 200] for number in range(queries))
    return Pool(cases=cases, tables=(table,), relevance=(relevance,), texts={}, notes=((),))


def sweep(sizes: Sequence[int]) -> None:
    """Print what the whole command takes, and how it grows."""
    print(f"{'queries':>9} {'wall s':>8} {'CPU s':>8} {'ms CPU each':>12} {'peak MB':>8} {'engine ms':>10}")
    cpu = []
    with tempfile.TemporaryDirectory() as folder:
        config = settings(Path(folder))
        with QdrantRetriever.open(config, env={}) as retriever:
            chunks = retriever.chunks()
        for size in sizes:
            golden = write_golden(Path(folder) / f"golden-{size}.jsonl", chunks, size)
            wall, spent, peak = run(Path(folder), golden)
            alone = engine_alone(config, golden[: min(size, 2000)])
            each = 1000 * spent / size / len(MODES)
            print(f"{size:>9,} {wall:>8.1f} {spent:>8.1f} {each:>12.2f} {peak:>8,.0f} {alone:>10.2f}", flush=True)
            cpu.append(spent)
    if len(sizes) > 1:
        slope, _ = np.polyfit(np.log(sizes), np.log(cpu), 1)
        per_query, fixed = np.polyfit(sizes, cpu, 1)
        print(f"CPU grows as queries^{slope:.2f}; fitted {fixed:.1f} s + {per_query * 1e3:.2f} ms a query")


def settings(folder: Path) -> RetrieverConfig:
    """Index the handbook in a folder, and return the retriever's settings."""
    config = ExperimentConfig.load(ROOT / "evals/config/presets/default.yaml")
    retriever = config.retriever.model_copy(
        update={
            "store": config.retriever.store.model_copy(update={"path": folder / "store"}),
            "candidates": BEST,
        }
    )
    config = config.model_copy(update={"retriever": retriever})
    index_if_stale(config, {}, lambda stage, done, total: None)
    return config.retriever


def write_golden(file: Path, chunks: Sequence[Chunk], size: int) -> list[str]:
    """Draw golden queries, write them, and return the queries."""
    rng = random.Random(size)
    queries = []
    with file.open("w", encoding="utf-8") as lines:
        for number in range(size):
            chunk = rng.choice(chunks)
            words = chunk.text.split()
            first = rng.randrange(max(1, len(words) - 8))
            case: dict[str, Any] = {
                "id": f"q{number}",
                "split": "test",
                "query": f"{' '.join(words[first : first + 8])} {number}",
            }
            if number % 10:
                case |= {"relevant_ids": {chunk.chunk_id: rng.randint(1, 3)}}
            else:
                case |= {"query": f"{OUT_OF_SCOPE} {number}", "in_scope": False}
            lines.write(json.dumps(case) + "\n")
            queries.append(case["query"])
    return queries


def run(folder: Path, queries: Sequence[str]) -> Measured:
    """Run the sweep as a command: wall seconds, CPU seconds, peak memory in MB."""
    size = len(queries)
    command = [
        *(sys.executable, "-m", "evals.run", "--quiet", "--no-gate"),
        *("--dataset.path", str(folder / f"golden-{size}.jsonl"), "--dataset.split", "test"),
        *("--retriever.store.path", str(folder / "store"), "--retriever.candidates", str(BEST)),
        *("--metrics", "ranking/*,scope/*,ragas/id_*", "--criteria", "{}"),
        *("--sweep.mode", ",".join(MODES), "--sweep.top-k", "1:20", "--sweep.threshold", "0:0.95:0.05"),
        *("--output", str(folder / f"report-{size}.json"), "--tracking.uri", f"sqlite:///{folder}/mlflow-{size}.db"),
    ]
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "RAGAS_DO_NOT_TRACK": "true"})
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"the run of {size} queries ended with exit code {os.waitstatus_to_exitcode(status)}")
    return time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def engine_alone(config: RetrieverConfig, queries: Sequence[str]) -> float:
    """Search alone, by the engine's own batches: milliseconds of CPU a query and mode."""
    from qdrant_client import models

    with QdrantRetriever.open(config, env={}) as retriever:
        vectors = retriever.vector_store.embeddings.embed_queries(list(queries))
        requests = [models.QueryRequest(query=vector, limit=config.candidates) for vector in vectors]
        spent = time.process_time()
        for first in range(0, len(requests), ENGINE_BATCH):
            retriever.client.query_batch_points(config.collection, requests[first : first + ENGINE_BATCH])
        return 1000 * (time.process_time() - spent) / len(queries)


def engine(sizes: Sequence[int]) -> None:
    """Print rates of indexing and milliseconds of searching."""
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder) / "store", size)


def measure(path: Path, size: int) -> None:
    """One size: index, reopen, search, compare."""
    from qdrant_client import models

    rng = np.random.default_rng(size)
    points, queries = made_up(rng, size), asked(rng)
    print(f"\n{size:,} chunks")
    with closing(EmbeddedClient(path, create=True)) as client:
        start = time.perf_counter()
        parameters = models.VectorParams(size=DIMENSIONS, distance=models.Distance.COSINE)
        terms = {"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)}
        indexes = {"metadata.n": "integer", "metadata.module": "keyword"}
        with client.building(NAME, vectors=parameters, sparse=terms, indexes=indexes) as upsert:
            for begin in range(0, len(points), BATCH):
                upsert(points[begin : begin + BATCH])
        rate = size / (time.perf_counter() - start)
        print(f"  index      {rate:,.0f} a second, in force and on disk: {rate / 5_000:.2f} of the 5,000 wanted")
    reopened = statistics.median(reopen(path) for _ in range(5))
    print(f"  reopen     {reopened:.3f} s to the first answer")
    with closing(EmbeddedClient(path)) as client:
        ours = search(client, queries, "ours")
    if size == SIDE_BY_SIDE:
        beside(points, queries, ours)


def made_up(rng: np.random.Generator, size: int) -> list[Any]:
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

    vectors = rng.normal(size=(SEARCHES, DIMENSIONS)).tolist()
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
    start = time.perf_counter()
    with closing(EmbeddedClient(path)) as client:
        client.query_points(NAME, [1.0] * DIMENSIONS, limit=1)
        return time.perf_counter() - start


def search(client: Any, queries: list[tuple[list[float], Any]], what: str) -> Mapping[str, float]:
    """Median milliseconds of a dense search, a sparse one, and one after the other."""

    def dense(vector: Any, _: Any, limit: int = BEST) -> Any:
        return client.query_points(NAME, query=vector, limit=limit)

    def sparse(_: Any, terms: Any, limit: int = BEST) -> Any:
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


def beside(points: list[Any], queries: list[tuple[list[float], Any]], ours: Mapping[str, float]) -> None:
    """Local mode on the same chunks, in memory, where it is fastest."""
    from qdrant_client import QdrantClient

    local = QdrantClient(":memory:")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fill(local, points)
        slow = search(local, queries[:20], "local")
    local.close()
    ratios = {label: slow[label] / ms for label, ms in ours.items()}
    print("  faster     " + "  ".join(f"{label} {ratio:.0f} times" for label, ratio in ratios.items()))
    both = ratios["dense + sparse"]
    print(f"  dense + sparse: {both:.0f} times, {both / 20:.2f} of the 20 wanted")


if __name__ == "__main__":
    main()

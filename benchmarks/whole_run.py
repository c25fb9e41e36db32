"""How a whole sweep grows with its golden queries, from the command to its report and its run in MLflow.

python benchmarks/whole_run.py [--sizes 1000,10000,100000] [--candidates 100]

Each size is one command in a process of its own: two modes (semantic, hybrid) × top_k 1 to 20 × threshold 0 to 0.95,
400 cells a mode, on the packaged handbook; metrics over ids (ranking, scope, ragas), report and MLflow on.
Queries are drawn: words that follow each other in a chunk, whose relevant chunk it is; one in ten is out of scope.
Beside it the engine alone: batches of the same vectors and terms, without a word of ours. Bounds: linear growth,
10 minutes and 3 GB for 100,000 queries.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
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

MODES = ("semantic", "hybrid")
BATCH = 32
OUT_OF_SCOPE = "onion soup recipe with cheese number"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--candidates", type=int, default=100)
    given = parser.parse_args()
    sizes = [int(size) for size in given.sizes.split(",")]
    print(f"{'queries':>9} {'wall s':>8} {'CPU s':>8} {'ms CPU each':>12} {'peak MB':>8} {'engine ms':>10}")
    cpu = []
    with tempfile.TemporaryDirectory() as folder:
        config = settings(Path(folder), given.candidates)
        with QdrantRetriever.open(config, env={}) as retriever:
            chunks = retriever.chunks()
        for size in sizes:
            golden = write_golden(Path(folder) / f"golden-{size}.jsonl", chunks, size)
            wall, spent, peak = run(Path(folder), golden, given.candidates)
            alone = engine(config, golden[: min(size, 2000)])
            each = 1000 * spent / size / len(MODES)
            print(f"{size:>9,} {wall:>8.1f} {spent:>8.1f} {each:>12.2f} {peak:>8,.0f} {alone:>10.2f}", flush=True)
            cpu.append(spent)
    if len(sizes) > 1:
        slope, _ = np.polyfit(np.log(sizes), np.log(cpu), 1)
        per_query, fixed = np.polyfit(sizes, cpu, 1)
        print(f"CPU grows as queries^{slope:.2f}; fitted {fixed:.1f} s + {per_query * 1e3:.2f} ms a query")
    print(f"load {os.getloadavg()[0]:.1f}")


def settings(folder: Path, candidates: int) -> RetrieverConfig:
    """Index the handbook in a folder, and return the retriever's settings."""
    config = ExperimentConfig.load(ROOT / "evals/config/presets/default.yaml")
    retriever = config.retriever.model_copy(
        update={
            "store": config.retriever.store.model_copy(update={"path": folder / "store"}),
            "candidates": candidates,
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


def run(folder: Path, queries: Sequence[str], candidates: int) -> tuple[float, float, float]:
    """Run the sweep as a command: wall seconds, CPU seconds, peak memory in MB."""
    size = len(queries)
    command = [
        *(sys.executable, "-m", "evals.run", "--quiet", "--no-gate"),
        *("--dataset.path", str(folder / f"golden-{size}.jsonl"), "--dataset.split", "test"),
        *("--retriever.store.path", str(folder / "store"), "--retriever.candidates", str(candidates)),
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


def engine(config: RetrieverConfig, queries: Sequence[str]) -> float:
    """Search alone, by the engine's own batches: milliseconds of CPU a query and mode."""
    from qdrant_client import models

    with QdrantRetriever.open(config, env={}) as retriever:
        vectors = retriever.vector_store.embeddings.embed_queries(list(queries))
        requests = [models.QueryRequest(query=vector, limit=config.candidates) for vector in vectors]
        spent = time.process_time()
        for first in range(0, len(requests), BATCH):
            retriever.client.query_batch_points(config.collection, requests[first : first + BATCH])
        return 1000 * (time.process_time() - spent) / len(queries)


if __name__ == "__main__":
    main()

"""How the grid's own work grows: drawn queries × depth 20 × 400 cells, five metrics, without retrieval and intervals.

python benchmarks/grid_scale.py [--sizes 1000,10000,100000] [--modes 1]

Candidates, scores and grades are drawn, each mode's anew; what is measured begins with these and ends with mean, n and
counts of every metric in every cell. Each size in a process of its own, which tells its peak memory, that of Python,
numpy and the drawn data (the line of the same size without scoring) included. Bounds: 20 s and 1 GB for 100,000
queries in one mode.
"""

import argparse
import multiprocessing
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
DEPTH, RELEVANT, CHUNKS = 20, 7, 1_000
METRICS = ("ranking/ndcg_at_10", "ranking/recall_at_10", "ranking/mrr_at_10", "ranking/map_at_10",
           "ragas/id_context_precision")  # fmt: skip
Measured = tuple[float, float, float]
"""Wall seconds, CPU seconds, peak memory in MB."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--modes", type=int, default=1, help="variants, of 400 cells each")
    options = parser.parse_args()
    print(f"{'queries':>10} {'wall s':>9} {'CPU s':>9} {'us CPU each':>15} {'peak MB':>9} {'drawn MB':>9}   "
          f"load {os.getloadavg()[0]:.1f}")  # fmt: skip
    for size in map(int, options.sizes.split(",")):
        (_, _, before), (wall, cpu, peak) = (in_fresh_process(size, options.modes, scored) for scored in (False, True))
        print(f"{size:>10,} {wall:>9.2f} {cpu:>9.2f} {cpu / size * 1e6:>15.1f} {peak:>9,.0f} {before:>9,.0f}")


def in_fresh_process(queries: int, modes: int, scored: bool) -> Measured:
    """What `work` measures, in a new interpreter."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, (queries, modes, scored))


def work(queries: int, modes: int, scored: bool) -> Measured:
    """One size."""
    sys.path.insert(0, str(ROOT))
    from evals.config.sweep import SweepConfig
    from evals.grid.axes import plan
    from evals.grid.cells import score_cells
    from evals.grid.measure import grid_of
    from evals.metrics import METRICS as DECLARED
    from evals.metrics.declaration import Context, QueryMetric
    from retrievers.config import RetrieverConfig

    sweep = {"top_k": "1:20", "threshold": "0:0.95:0.05", "mode": ["semantic", "hybrid"][:modes]}
    settings = RetrieverConfig.model_validate({"candidates": DEPTH, "threshold_on": "each", "fusion": "weighted"})
    planned = plan(settings, SweepConfig.model_validate(sweep))
    grid = grid_of(planned, drawn(queries, len(planned.variants)))
    by_name = {name: metric for name in METRICS if isinstance(metric := DECLARED[name], QueryMetric)}
    wall, cpu = time.perf_counter(), time.process_time()
    if scored:
        made = score_cells(grid, by_name, Context(required=(), sources=None, relevant_texts={}, seed=0))
        assert all(len(scores.mean) == 400 * modes and scores.n[0] == queries for scores in made.values())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return time.perf_counter() - wall, time.process_time() - cpu, peak


def drawn(queries: int, modes: int) -> Any:
    """Candidates with falling scores for every query and mode, some of them relevant."""
    from evals.cases.case import Case
    from evals.cases.relevance import Relevance
    from evals.collect.pool import Pool
    from retrievers.records import Chunk
    from retrievers.search.candidates import Candidates, ChunkList, Facts

    rng, chunks = np.random.default_rng(0), ChunkList()
    for number in range(CHUNKS):
        chunks.code(Chunk(chunk_id=str(number), point_id=str(number), text=f"chunk {number}"))
    cases, tables, relevance = [], [], []
    known = [{str(key): 1 for key in rng.integers(0, CHUNKS, RELEVANT)} for _ in range(200)]
    for number in range(queries):
        cases.append(Case(id=f"q{number}", query=f"query {number}", relevant_ids=known[number % 200]))
    facts = [Relevance(grades=grades, items=tuple(frozenset([key]) for key in grades)) for grades in known]
    for _ in range(modes):
        scores = -np.sort(-rng.random((queries, DEPTH)) * 0.9, axis=1)
        codes = rng.integers(0, CHUNKS // DEPTH, (queries, DEPTH)) + np.arange(0, CHUNKS, CHUNKS // DEPTH)
        for row, (grades, shown) in enumerate(zip(known, rng.random((200, DEPTH)) < 1 / 3, strict=True)):
            wanted = [int(key) for key in grades][: int(shown.sum())]
            codes[row::200, np.flatnonzero(shown)[: len(wanted)]] = wanted
        tables.append(
            Candidates(
                codes=codes, columns={"score": scores, "semantic": scores}, chunks=chunks,
                facts=[Facts(text=case.query) for case in cases],
            )
        )  # fmt: skip
        relevance.append(tuple(facts[number % 200] for number in range(queries)))
    return Pool(cases=tuple(cases), tables=tuple(tables), relevance=tuple(relevance), texts={}, notes=((),) * modes)


if __name__ == "__main__":
    main()

"""How the grid's own work grows: 1,000 to 1,000,000 drawn queries × depth 20 × 400 cells, five metrics, no resampling.

python benchmarks/grid_scale.py [--sizes 1000,10000,100000,1000000]

Scores and grades are drawn; what is measured begins with these arrays and ends with mean, n and counts of every metric
in every cell: selections, metrics over all prefixes, lookups. Each size in a process of its own, which tells its peak
memory, that of Python and numpy (shown for no query at all) included. Bounds: 60 s and 4 GB for 1,000,000 queries.
"""

import argparse
import multiprocessing
import os
import resource
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
DEPTH, RELEVANT = 20, 7
METRICS = ("ranking/ndcg_at_10", "ranking/recall_at_10", "ranking/mrr_at_10", "ranking/map_at_10",
           "ragas/id_context_precision")  # fmt: skip
Measured = tuple[float, float, float]
"""Wall seconds, CPU seconds, peak memory in MB."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1000,10000,100000,1000000")
    sizes = [int(size) for size in parser.parse_args().sizes.split(",")]
    print(
        f"{'queries':>10} {'wall s':>9} {'CPU s':>9} {'us CPU each':>15} {'peak MB':>9}   load {os.getloadavg()[0]:.1f}"
    )
    found = {size: in_fresh_process(size) for size in (0, *sizes)}
    for size, (wall, cpu, peak) in found.items():
        each = f"{cpu / size * 1e6:.1f}" if size else "–"
        print(f"{size:>10,} {wall:>9.2f} {cpu:>9.2f} {each:>15} {peak:>9,.0f}")
    if len(sizes) > 1:
        slope, _ = np.polyfit(np.log(sizes), np.log([found[size][1] for size in sizes]), 1)
        per_query, fixed = np.polyfit(sizes, [found[size][1] for size in sizes], 1)
        print(f"CPU grows as queries^{slope:.2f}; fitted {fixed:.2f} s + {per_query * 1e6:.1f} us a query")


def in_fresh_process(queries: int) -> Measured:
    """What `work` measures, in a new interpreter."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, (queries,))


def work(queries: int) -> Measured:
    """One size."""
    sys.path.insert(0, str(ROOT))
    from evals.grid.means import Scored, summarise_cells
    from evals.grid.selections import Found, select_all
    from evals.metrics.arrays import RelevanceArrays

    from evals.grid.cells import SelectionScores
    from evals.metrics import METRICS as DECLARED
    from evals.metrics.declaration import QueryMetric

    rng = np.random.default_rng(0)
    scores = -np.sort(-rng.random((queries, DEPTH)) * 0.9, axis=1)
    gains = rng.integers(0, 4, (queries, DEPTH)) * (rng.random((queries, DEPTH)) < RELEVANT / DEPTH)
    relevant = (gains > 0).sum(axis=1) + 1
    ideal = -np.sort(-gains, axis=1)[:, :10]
    wall, cpu = time.perf_counter(), time.process_time()
    if queries:
        selections = select_all(Found(scores=scores), [step / 20 for step in range(20)], range(1, DEPTH + 1))
        arrays = RelevanceArrays(
            gains=gains.astype(np.int32), relevant=relevant, ideal=np.maximum(ideal, 1).astype(np.int32)
        )
        rows = np.arange(queries)

        def part(name: str) -> SelectionScores:
            metric = DECLARED[name]
            assert isinstance(metric, QueryMetric) and metric.over_prefixes
            return SelectionScores(values=metric.over_prefixes(arrays).ravel())

        scored = {name: Scored(parts=(partial(part, name),), rows=rows) for name in METRICS}
        made = summarise_cells(scored, [selections])
        assert all(len(summary.mean) == selections.cells == 400 for summary in made.values())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return time.perf_counter() - wall, time.process_time() - cpu, peak


if __name__ == "__main__":
    main()

"""What choosing a cell of a grid costs, for grids of which no two cells score the same.

python benchmarks/choice.py [--sizes 1000x400,225x400,225x4000] [--rounds 3]

Bound: 5 s for the choice of 400 cells by 1,000 queries.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from evals.grid.choice import Cells, ObjectiveScores, choose, explain

LIMIT = 5.0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="1000x400,225x400,225x4000", help="queries x cells")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for size in options.sizes.split(","):
        queries, cells = map(int, size.split("x"))
        measure(queries, cells, options.rounds if cells <= 400 else 1)


def measure(queries: int, cells: int, rounds: int) -> None:
    """A whole choice."""
    scores, grid = synthetic(queries, cells)
    choice, (wall, cpu) = timed(lambda: choose(scores, grid), rounds)
    bound = f", {wall / LIMIT:.2f} of the {LIMIT:g} s allowed" if (queries, cells) == (1_000, 400) else ""
    print(f"{queries:,} queries in {cells:,} cells: {wall:.2f} s, CPU {cpu:.2f} s (medians of {rounds}){bound}")
    print("\n".join(f"    {line}" for line in explain(choice, str)))


def timed(call: Callable[[], Any], rounds: int) -> tuple[Any, tuple[float, float]]:
    """The result, and the median wall and CPU seconds."""
    walls, cpus = [], []
    for _ in range(rounds):
        wall, cpu = time.perf_counter(), time.process_time()
        result = call()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return result, (statistics.median(walls), statistics.median(cpus))


def synthetic(queries: int, cells: int) -> tuple[ObjectiveScores, Cells]:
    """Average precision of prefixes of random rankings, 20 deep, by top_k and threshold, with a little noise."""
    rng = np.random.default_rng(1)
    relevant = rng.random((queries, 20)) < 0.5 * np.exp(-0.18 * np.arange(20)) * 2 * rng.beta(2, 2, (queries, 1))
    found = np.cumsum(relevant, axis=1)
    precision = np.cumsum(relevant * found / np.arange(1, 21), axis=1) / np.maximum(1, found)
    cosines = rng.normal(0.6, 0.13, (queries, 1)) - np.cumsum(rng.exponential(0.018, (queries, 20)), axis=1)
    above = (cosines[:, :, None] >= np.linspace(0, 0.95, cells // 20)).sum(axis=1)
    lengths = np.minimum(np.arange(1, 21)[None, :, None], above[:, None, :]).reshape(queries, -1)
    scores = np.take_along_axis(np.hstack([np.zeros((queries, 1)), precision]), lengths, axis=1)
    values = np.clip(scores + rng.normal(0, 1e-4, scores.shape), 0, 1)
    every = np.ones(cells, dtype=np.bool_)
    threshold = np.tile(np.linspace(0, 0.95, cells // 20), 20)
    grid = Cells(cost=150 * lengths.mean(axis=0), threshold=threshold, allowed=every)
    bounds = np.zeros(queries), np.ones(queries)
    strata = np.zeros(queries, dtype=np.int64)
    return ObjectiveScores(values=values, strata=strata, bounds=bounds), grid


if __name__ == "__main__":
    main()

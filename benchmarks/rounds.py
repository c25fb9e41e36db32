"""What share of the verdicts judging in rounds takes until a cell is proved, on the handbook.

python benchmarks/rounds.py [--draws 80] [--margins 0.05,0.02]

132 in-scope queries, 162 cells (three modes, with and without MMR, top_k 3, 5, 10, nine thresholds), context precision
by a judge that errs on 7% of the chunks, foretold by the labels. A draw is an order of the queries. A row for each
margin: the mean share of queries and of verdicts that were judged, and the share of draws in which every bound held
against all verdicts. Bound: held in 95%.
"""

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parents[1]
DEFAULT = ROOT / "evals" / "config" / "presets" / "default.yaml"
ERRS = 0.07
SWEEP = {
    "sweep.mode": ["semantic", "keyword", "hybrid"],
    "sweep.rerank": ["none", "mmr"],
    "sweep.top_k": [3, 5, 10],
    "sweep.threshold": [round(0.1 + 0.05 * step, 2) for step in range(9)],
}


class Cells(NamedTuple):
    """Scores by judge and labels, [queries, cells], and the chunks that each cell returns of each query."""

    judged: NDArray[np.float64]
    proxy: NDArray[np.float64]
    chunks: list[list[frozenset[str]]]


def main() -> None:
    """Retrieve, judge in rounds, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=80)
    parser.add_argument("--margins", default="0.05,0.02")
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    cells = distinct(handbook())
    print(f"{len(cells.judged)} queries, {cells.judged.shape[1]} cells that differ")
    for margin in map(float, given.margins.split(",")):
        queries, verdicts, held = np.mean([judged(cells, margin, seed) for seed in range(given.draws)], axis=0)
        print(f"margin {margin}: {queries:.1%} of the queries, {verdicts:.1%} of the verdicts; held {held:.1%}")


def judged(cells: Cells, margin: float, seed: int) -> tuple[float, float, bool]:
    """Return the shares of queries and of verdicts that were judged, and whether every bound held."""
    from evals.sampling.rounds import Unjudged, judge_in_rounds

    order, bought = np.random.default_rng(seed).permutation(len(cells.judged)), 0
    codes: dict[frozenset[str], int] = {}
    results = np.array([[codes.setdefault(found, len(codes)) for found in row] for row in cells.chunks])

    def ask(rows: NDArray[np.int64], alive: NDArray[np.bool_]) -> tuple[NDArray[np.float64], bool]:
        nonlocal bought
        bought += sum(len(_asked(cells.chunks[row], alive)) for row in order[rows])
        return cells.judged[order[rows]][:, alive], True

    proxy = cells.proxy[order]
    queries = Unjudged(proxy=proxy, results=results[order], alone=None, span=1.0)
    looks = [*judge_in_rounds(ask, queries, margin=margin, most=len(order), seed=seed)]
    means, everything = cells.judged.mean(axis=0), np.ones(cells.judged.shape[1], dtype=np.bool_)
    held = all(means.max() - means[look.chosen] <= look.within[look.chosen] + 1e-9 for look in looks)
    return looks[-1].n / len(order), bought / sum(len(_asked(row, everything)) for row in cells.chunks), held


def _asked(row: list[frozenset[str]], alive: NDArray[np.bool_]) -> frozenset[str]:
    return frozenset().union(*(row[cell] for cell in np.flatnonzero(alive)))


def distinct(cells: Cells) -> Cells:
    """Return the cells that differ in a score."""
    _, first = np.unique(cells.judged, axis=1, return_index=True)
    return Cells(cells.judged[:, first], cells.proxy[:, first], [[row[i] for i in first] for row in cells.chunks])


def handbook() -> Cells:
    """Retrieve for all cells, and judge what they return."""
    from evals.cases.reading import load_golden
    from evals.collect.pool import ground
    from evals.config.experiment import ExperimentConfig
    from evals.experiment.bench import index_if_stale
    from evals.grid.axes import plan
    from evals.grid.measure import grid_of, retrieve
    from evals.judge.verdicts import average_precision
    from evals.metrics.declaration import Collaborators
    from retrievers.retriever.opened import open_retriever
    from tests.support.experiment import silent

    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        config = ExperimentConfig.load(DEFAULT, {"retriever.store.path": folder, **SWEEP})
        golden = load_golden(config.dataset.model_copy(update={"split": None}))
        index_if_stale(config, {}, silent)
        sweep = plan(config.retriever, config.sweep)
        retrievers = [opened.enter_context(open_retriever(one.settings, env={})) for one in sweep.variants]
        collaborators = Collaborators(retrievers=retrievers, progress=silent)
        grid = grid_of(sweep, retrieve(sweep, golden, ground(golden, retrievers[0]), collaborators))
        columns = [[o for o in grid.results(cell).observations() if o.case.in_scope] for cell in range(len(grid))]
        rng, errs = np.random.default_rng(0), dict[tuple[str, str], bool]()
        scores: tuple[list[list[float]], list[list[float]]] = [], []
        for column in columns:
            labels = [[key in o.relevance.grades for key in o.selection.chunk_ids] for o in column]
            for o in column:
                for key in o.selection.chunk_ids:
                    errs.setdefault((o.case.id, key), rng.random() < ERRS)
            said = [
                [useful ^ errs[o.case.id, key] for useful, key in zip(own, o.selection.chunk_ids, strict=True)]
                for own, o in zip(labels, column, strict=True)
            ]
            for found, flags in zip(scores, (said, labels), strict=True):
                found.append([float(average_precision(np.array([each]))[0]) for each in flags])
        chunks = [[frozenset(o.selection.chunk_ids) for o in column] for column in columns]
        by_judge, by_labels = (np.array(found).T for found in scores)
        return Cells(by_judge, by_labels, [list(row) for row in zip(*chunks, strict=True)])


if __name__ == "__main__":
    main()

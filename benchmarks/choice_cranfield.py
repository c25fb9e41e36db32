"""Choosing among 288 real cells: how many may be the best, and how often the recommended one is truly worse.

python benchmarks/choice_cranfield.py --data DIR [--draws 100]

DIR holds cran.all.1400.xml, cran.qry.xml and cranqrel.trec.txt. Semantic, keyword and hybrid retrieval (weighted and
RRF), 12 values of top_k, 6 thresholds; the packaged embeddings, an embedded store. Two tables by nDCG@10 and hits@10:

- 30, 76 and 225 queries drawn with replacement: the confidence set as a share of all cells, that of plain step-down
  max-T (`tests/support/step_down.py`), and how often each keeps the truly best cell. Bound: 1.3 times as large.
- 30 queries to choose by, the other 195 held out: how often the recommended cell is worse than the best there by more
  than 0.02, and its context tokens; of cells with the same scores that with the lowest threshold is taken, or, to
  compare, the cheapest.
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import cranfield
from evals.grid.choice import Cells, Choice, ObjectiveScores, choose
from tests.support.step_down import step_down

Floats = NDArray[np.float64]
SWEEP: Mapping[str, Any] = {
    "mode": ["semantic", "keyword", "hybrid"],
    "fusion": ["weighted", "rrf"],
    "top_k": [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 20],
    "threshold": [0, 0.3, 0.4, 0.5, 0.55, 0.6],
}
OBJECTIVES = {"nDCG@10": "ranking/ndcg_at_10", "hits@10": "ranking/hit_rate_at_10"}
SIZES, HELD_OUT_OF, MARGIN, RESAMPLES = (30, 76, 225), 30, 0.02, 1_000


def main() -> None:
    """Retrieve once, draw and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the collection")
    parser.add_argument("--draws", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        grid = real_grid(options.data, Path(folder))
    cells, values = cells_of(grid), {name: grid.matrix(metric) for name, metric in OBJECTIVES.items()}
    print(f"\n\n{'objective':<10} {'n':>4}  {'set':>6} {'step-down':>10} {'ratio':>6}   best kept by each")
    for name in OBJECTIVES:
        for n in SIZES:
            sizes(name, values[name], cells, n, options.draws)
    print(f"\n{'objective, cells':<26} worse by over {MARGIN}: lowest threshold, cheapest   tokens of each")
    for among in (None, "semantic", "hybrid weighted"):
        allowed = [among in (None, configuration.name) for configuration in grid.configurations]
        counts = [configuration.selections.cells for configuration in grid.configurations]
        some = replace(cells, allowed=np.repeat(allowed, counts))
        for name in OBJECTIVES:
            losses(f"{name}, {among or 'all'}", values[name], some, 4 * options.draws)


def real_grid(data: Path, folder: Path) -> Any:
    """Cranfield retrieved in every way of the sweep and scored in every cell."""
    from evals.grid.building import ObservedVariant, build, configure

    from evals.collect.observations import Observation, Observed
    from evals.config.sweep import SweepConfig
    from evals.golden.evidence import Relevance
    from evals.grid.axes import plan
    from evals.metrics import choose as metrics_named
    from evals.metrics.declaration import Context
    from retrievers.retriever.qdrant import QdrantRetriever

    cases = cranfield.read_cases(data)
    config = cranfield.index(folder / "store", cranfield.read_chunks(data / "cran.all.1400.xml"))
    sweep = SweepConfig.model_validate(SWEEP)
    planned, retrieved = plan(config, sweep), []
    grades = [{chunk: grade for chunk, grade in case.relevant_ids.items() if grade > 0} for case in cases]
    relevance = [Relevance(grades=known, items=tuple(frozenset([key]) for key in known)) for known in grades]
    for variant in planned.variants:
        with QdrantRetriever.open(variant.settings, env={}) as retriever:
            found = retriever.candidates([case.query for case in cases], use_cache=False)
        observations = tuple(
            Observation(case=case, relevance=known, candidates=candidates, selection=candidates)
            for case, known, candidates in zip(cases, relevance, found, strict=True)
        )
        retrieved.append(ObservedVariant(variant=variant, observed=Observed(observations=observations)))
    metrics = metrics_named([*OBJECTIVES.values(), "cost/context_tokens"], (1,))
    context = Context(required=(), sources=None, relevant_texts={}, seed=0)
    return build(planned, sweep, configure(planned, retrieved), metrics, context)


def cells_of(grid: Any) -> Cells:
    """The cells of the grid, all of them allowed."""
    from evals.grid.objective import thresholds

    return Cells(
        labels=("",) * len(grid),
        cost=grid.metrics["cost/context_tokens"].summaries.mean,
        threshold=thresholds(grid),
        allowed=np.ones(len(grid), dtype=np.bool_),
    )


def chosen(name: str, values: Floats, cells: Cells) -> Choice:
    """The choice by these queries."""
    scores = ObjectiveScores(objective=name, values=values, strata=np.zeros(len(values), dtype=np.int64))
    return choose(scores, cells, margin=MARGIN, resamples=RESAMPLES)


def sizes(name: str, values: Floats, cells: Cells, n: int, draws: int) -> None:
    """One line of the first table."""
    truth = values.mean(axis=0)
    best, found = truth >= truth.max() - 1e-12, []
    for seed in range(draws):
        rng = np.random.default_rng([n, seed])
        drawn = values[rng.integers(0, len(values), n)]
        ours = np.zeros(len(truth), dtype=np.bool_)
        ours[[cell for standing in chosen(name, drawn, cells).best_set for cell in standing.members]] = True
        plain = step_down(drawn, RESAMPLES, rng)
        found.append([ours.mean(), plain.mean(), ours[best].any(), plain[best].any()])
    mean = np.mean(found, axis=0)
    print(
        f"{name:<10} {n:>4}  {mean[0]:>6.3f} {mean[1]:>10.3f} {mean[0] / mean[1]:>6.2f}   {mean[2]:.3f}, {mean[3]:.3f}",
        flush=True,
    )


def losses(name: str, values: Floats, cells: Cells, draws: int) -> None:
    """One line of the second table."""
    rules, found = (cells, replace(cells, threshold=np.zeros(len(cells.cost)))), []
    for seed in range(draws):
        order = np.random.default_rng([HELD_OUT_OF, seed]).permutation(len(values))
        held_out = np.where(cells.allowed, values[order[HELD_OUT_OF:]].mean(axis=0), -np.inf)
        taken = [chosen(name, values[order[:HELD_OUT_OF]], rule).recommended.cell for rule in rules]
        found.append([*(held_out.max() - held_out[taken] > MARGIN), *cells.cost[taken]])
    mean = np.mean(found, axis=0)
    print(
        f"{name:<26} {mean[0]:>36.3f}, {mean[1]:.3f} {mean[2]:>15,.0f}, {mean[3]:,.0f}",
        flush=True,
    )


if __name__ == "__main__":
    main()

import numpy as np
import pytest

from evals.judge.precision import average_precision
from evals.stats.verdict_influence import precision_influence


def test_it_is_the_change_of_average_precision_by_each_verdict() -> None:
    rng = np.random.default_rng(0)
    queries, cells, pool, longest = 12, 5, 9, 6
    verdicts = rng.random((queries, pool)) < 0.4
    ranked = np.full((queries, cells, longest), -1)
    lists = {}
    for query in range(queries):
        for cell in range(cells):
            lists[query, cell] = rng.permutation(pool)[: rng.integers(0, longest + 1)].tolist()
            ranked[query, cell, : len(lists[query, cell])] = lists[query, cell]
    influence = precision_influence(ranked, verdicts)
    for (query, cell), places in lists.items():
        for place in range(pool):
            scores = []
            for turned in (True, False):
                said = verdicts[query].copy()
                said[place] = turned
                scores.append(average_precision([int(said[chunk]) for chunk in places]))
            assert influence[query, cell, place] == pytest.approx(scores[0] - scores[1], abs=1e-6)

"""Judging in rounds: of these queries a bound holds at every look, for all users the best cell is kept."""

import numpy as np
import pytest

from evals.sampling.corrected import corrected
from evals.stats.best import planned_looks
from tests.numbers.worlds import WORLDS, Counts, begun, draws, judge, needs_cranfield

pytestmark = pytest.mark.slow
MADE = "average precision", "hits", "rare losses", "60 cells, rarer losses", "two scopes"


@pytest.mark.parametrize(
    ("setting", "total"),
    [
        *(pytest.param(setting, 100, marks=needs_cranfield) for setting in ("Cranfield", "utility, Cranfield")),
        *((setting, total) for setting in MADE for total in (66, 132)),
    ],
)
@pytest.mark.parametrize("agreement", [0.93, 0.80])
@pytest.mark.parametrize("margin", [0.03, 0.0])
def test_rounds(setting: str, total: int, agreement: float, margin: float) -> None:
    """Judge draws of the queries, and hold what is said against all verdicts on them and against the population."""
    counts, number = Counts(f"{setting}, N {total}, judge {agreement}, margin {margin}"), draws(2_000)
    world = WORLDS[setting](agreement)
    kept = held = given = meant = 0
    asked, sizes = [], []
    for seed in range(number):
        rows, alone = world.alone(world.draw(total, seed))
        judged, proxy = world.judged[rows], world.proxy[rows]
        looks, users = judge(judged, proxy, margin=margin, seed=seed, alone=alone)
        mean, last = judged.mean(axis=0), looks[-1]
        value = mean if alone is None else mean + alone.mean(axis=0)
        holds = [bool(value.max() - value[look.chosen] <= look.within + 1e-9) for look in looks]
        kept += bool((users & world.best).any())
        held += all(holds)
        sample = corrected(begun(judged[:, last.chosen], last.n)[:, None], proxy[:, [last.chosen]])
        (low,), (high,) = sample.of_these(len(planned_looks(len(rows))))
        given += bool(low - 1e-9 <= mean[last.chosen] <= high + 1e-9)
        truth = world.judged if world.out_of_scope is None else world.judged[~world.out_of_scope]
        (low,), (high,) = sample.interval()
        meant += bool(low <= truth[:, last.chosen].mean() <= high)
        asked.append(last.n / len(rows))
        sizes.append(users.mean())
    counts.at_least("the users' set keeps the best cell", kept, number, 0.95)
    counts.at_least("the bound of these queries holds at all looks", held, number, 0.95)
    counts.at_least("what judging all would give, after stopping", given, number, 0.95)
    counts.told("the chosen cell's interval holds for the population", meant / number)
    counts.told("share of the queries that were judged", float(np.mean(asked)))
    counts.told("share of the cells in the users' set", float(np.mean(sizes)))
    assert counts.wrong == []


@pytest.mark.parametrize("total", [1_000, 2_000])
@pytest.mark.parametrize("shape", ["hits", "mostly zeros"])
def test_all_looks_together_err_in_5_percent(shape: str, total: int) -> None:
    """Three cells whose means over these queries are the same but for a hair, by which the first is the best."""
    values = np.arange(total) / total
    values = np.where(values < 0.5, 0.0, 1.0) if shape == "hits" else np.maximum(0, values - 0.8) * 5
    wrong, number, counts = 0, draws(20_000), Counts(f"{shape}, N {total}")
    for seed in range(number):
        judged = np.random.default_rng([total, seed]).permuted(np.tile(values[:, None], 3), axis=0)
        judged[:, 0] += 1e-6
        looks, _ = judge(judged, np.zeros_like(judged), margin=0.0, seed=seed)
        wrong += any(look.chosen != 0 and look.within < 1e-7 for look in looks)
    counts.at_most("the best cell is said to be behind, at any look", wrong, number, 0.055)
    assert counts.wrong == []

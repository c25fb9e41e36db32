"""A judged beginning of a random order: corrected means and differences, who is in it, and judging in rounds."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import binom

from evals.cases.case import Case
from evals.sampling.corrected import corrected, difference
from evals.sampling.order import judging_order
from evals.stats.best import planned_looks
from evals.stats.paired import compare
from tests.numbers.worlds import WORLDS, Counts, agreements, begun, draws, ends, judge, needs_cranfield, sign_flip

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("setting", ["average precision", "hits", "rare losses", "never equal"])
@agreements
@pytest.mark.parametrize(("n", "total"), [(20, 66), (20, 132), (40, 132), (40, 225)])
def test_means_of_a_sample(setting: str, agreement: float, n: int, total: int) -> None:
    world, number = WORLDS[setting](agreement), draws(10_000)
    counts = Counts(f"{setting}, judge {agreement}, {n} of {total}")
    for which, cell in {"best": int(world.truth.argmax()), "worst": int(world.truth.argmin())}.items():
        of_these = of_all = 0
        for seed in range(number):
            rows = world.draw(total, seed)
            judged = world.judged[rows, cell]
            sample = corrected(begun(judged, n)[:, None], world.proxy[rows, cell, None])
            (low,), (high,) = sample.of_these(1)
            of_these += bool(low - 1e-9 <= judged.mean() <= high + 1e-9)
            (low,), (high,) = sample.interval()
            of_all += bool(low <= world.truth[cell] <= high)
        counts.at_least(f"{which} cell, what judging all would give", of_these, number, 0.95)
        counts.at_least(f"{which} cell, the corrected mean's interval", of_all, number, 0.93)
    assert counts.wrong == []


@pytest.mark.parametrize("setting", ["average precision", "hits", "rare losses", "never equal"])
@agreements
@pytest.mark.parametrize(("n", "total"), [(20, 132), (40, 132), (40, 225), (60, 60)])
def test_differences_of_a_sample(setting: str, agreement: float, n: int, total: int) -> None:
    world, number = WORLDS[setting](agreement), draws(5_000)
    best, *others = np.argsort(-world.truth).tolist()
    counts = Counts(f"{setting}, judge {agreement}, {n} of {total}")
    for which, other in {"near": others[len(others) // 3], "far": others[-2]}.items():
        held = wider = found = contrary = differs = by_sample = by_test = 0
        truth = world.truth[other] - world.truth[best]
        for seed in range(number):
            rows = world.draw(total, seed)
            judged, proxy = ((scores[rows, best], scores[rows, other]) for scores in (world.judged, world.proxy))
            pair, _ = difference((begun(judged[0], n), begun(judged[1], n)), proxy, seed)
            by_own = compare(judged[0][:n].tolist(), judged[1][:n].tolist(), seed)
            (low, high), p, alone, p_alone = ends(pair.interval), pair.p, ends(by_own.interval), by_own.p
            held += bool(low <= truth <= high)
            wider += bool(high - low > alone[1] - alone[0] + 1e-9)
            contrary += (low > 0 or high < 0) != (p < 0.05) or (n == total and (p < 0.05) != (p_alone < 0.05))
            is_found, alone_finds = high < 0, alone[1] < 0  # the other is truly worse
            found += is_found
            differs += is_found != alone_finds
            by_sample += alone_finds and not is_found
            own = judged[1][:n] - judged[0][:n]
            by_test += bool(own.mean() < 0 and sign_flip(own, seed) < 0.05)
        counts.at_least(f"{which} cell, the difference's interval", held, number, 0.93)
        counts.never(f"{which} cell, wider than the sample alone", wider)
        counts.never(f"{which} cell, interval and p, or the test where all is judged, contradict", contrary)
        counts.told(f"{which} cell, the difference is found", found / number)
        # Of the draws in which only one of the two finds it, the correction loses at most half.
        counts.at_most(f"{which} cell, found by the sample alone", by_sample, max(1, differs), 0.5)
        # It finds differences of near cells, too, whose interval must allow for rare losses that were not seen.
        counts.told(f"{which} cell, the randomisation test of the sample alone finds it", by_test / number)
    assert counts.wrong == []


def test_every_query_is_equally_likely_to_be_judged() -> None:
    kinds = {"many": 90, "some": 9, "few": 4, "one": 1, "alone": 1}
    types = {f"{kind}-{number}": kind for kind, count in kinds.items() for number in range(count)}
    cases = [Case(id=name, query="?", query_type=kind) for name, kind in types.items()]
    orders, counts = [judging_order(cases, seed) for seed in range(4_000)], Counts("sample")
    counts.never("an order that is not of all queries", sum(sorted(o) != sorted(types) for o in orders))
    counts.never("an order that is another when drawn again", judging_order(cases, 7) != orders[7])
    for n in (5, 10, 21, 52, 100):
        drawn = Counter(name for order in orders for name in order[:n])
        # Each count is binomial; the one of all queries farthest out is beyond the limits in 1% of trials.
        low, high = binom.ppf([0.005 / len(types), 1 - 0.005 / len(types)], len(orders), n / len(types))
        shares = {kind: sum(drawn[f"{kind}-{i}"] for i in range(of)) / of / len(orders) for kind, of in kinds.items()}
        text = ", ".join(f"{kind} {share:.4f}" for kind, share in shares.items())
        out = sum(not low <= drawn[name] <= high for name in types)
        counts.never(f"{n} drawn, expected {n / len(types):.4f} ({text}); unlikely counts", out)
    assert counts.wrong == []


# Judging in rounds: of these queries a bound holds at every look, for all users the best cell is kept

MADE = "average precision", "hits", "rare losses", "rare wins", "60 cells, rarer losses", "two scopes", "never equal"


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

"""A judged beginning of a random order: corrected means and differences, and who is in it."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import binom

from evals.cases.case import Case
from evals.sampling.corrected import corrected, difference
from evals.sampling.order import judging_order
from evals.stats.paired import compare
from tests.numbers.worlds import WORLDS, Counts, agreements, begun, draws, ends, sign_flip

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("setting", ["average precision", "hits", "rare losses"])
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


@pytest.mark.parametrize("setting", ["average precision", "hits", "rare losses"])
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

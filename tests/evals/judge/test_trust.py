"""Trust in a judge: against scikit-learn and ppi-python, by hand, and by simulated coverage."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, cohen_kappa_score

from evals.collect.observations import Failure, Observation, Summary, Unscored
from evals.judge.trust import Agreement, agree, measure, summaries
from evals.judge.verdicts import ChunkVerdict, Judging
from evals.metrics.llm import FIGURES, SPENT
from evals.sampling.corrected import shrunk_weight
from evals.sampling.order import judging_order
from evals.stats.intervals import wilson
from tests.support.judged import judging
from tests.support.observed import candidates_of, make_case, observe, results

Floats = NDArray[np.float64]
TIMEOUT = Failure(failed="TimeoutError: 30 s")
Row = tuple[tuple[str, str], Any, Any]


def judged(query: str, pairs: Sequence[tuple[Any, Any]], first: int = 0) -> list[Row]:
    return [((query, f"c{place}"), verdict, label) for place, (verdict, label) in enumerate(pairs, first)]


def agreed(rows: Sequence[Row]) -> Agreement:
    verdicts = {
        key: ChunkVerdict(verdict=verdict, reason=f"because {' '.join(key)}") if isinstance(verdict, int) else verdict
        for key, verdict, _ in rows
    }
    found = agree(judging(verdicts=verdicts), {key: label for key, _, label in rows})
    assert found is not None
    return found


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=60),
    st.randoms(use_true_random=False),
)
def test_it_equals_scikit_learn_whatever_the_order(found: list[tuple[int, int, int]], random: Any) -> None:
    rows = [row for place, (query, *pair) in enumerate(found) for row in judged(f"q{query}", [tuple(pair)], place)]  # type: ignore[list-item]
    ours = agreed(rows)
    _, verdicts, labels = zip(*found, strict=True)
    assert ours.accuracy.value == pytest.approx(accuracy_score(labels, verdicts), abs=1e-12)
    if len(set(labels)) == 2:
        assert ours.kappa.value == pytest.approx(cohen_kappa_score(verdicts, labels), abs=1e-12)
    else:
        assert (ours.kappa.value, ours.kappa.note) == (None, f"undefined: all labels are {labels[0]}")
    for one in (ours.accuracy, ours.kappa):
        if one.value is not None and one.ci_low is not None and one.ci_high is not None:
            assert one.ci_low <= one.value + 1e-12 and one.value - 1e-12 <= one.ci_high
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert agreed(shuffled).accuracy == ours.accuracy and agreed(shuffled).kappa == ours.kappa


def test_intervals_are_of_queries_that_have_the_label() -> None:
    rows = [row for query in range(20) for row in judged(f"q{query:02}", [(0, 0), (query % 4 == 0, 0)])]
    rows += [row for query in range(20, 30) for row in judged(f"q{query}", [(query % 3 > 0, 1), (0, 0), (0, 0)])]
    found = agreed(rows)
    for one in (found.accuracy, found.kappa):
        assert one.value is not None and one.ci_low is not None and one.ci_high is not None
        assert one.ci_low < one.value < one.ci_high
    assert agreed(rows[:-3]).kappa.note == "not computable: chunks labelled 1 in only 9 queries, 10 are needed"


def test_full_agreement_counts_each_query_once() -> None:
    found = agreed([row for query in range(30) for row in judged(f"q{query}", [(1, 1), (0, 0)])])
    low = wilson(30, 30).low
    assert low is not None
    assert (found.accuracy.value, found.accuracy.ci_high, found.kappa.value, found.kappa.ci_high) == (1, 1, 1, 1)
    assert found.accuracy.ci_low == pytest.approx(low) and found.kappa.ci_low == pytest.approx(2 * low - 1)
    assert found.disagreements == ()


def test_failures_are_counted_and_leave_bounds_open() -> None:
    rows = [
        *judged("a", [(1, 1), (1, 0), (0, 0), (0, 0)]),
        *judged("b", [(0, 1), (1, 1), (1, 0)]),
        *judged("c", [(0, 0), (1, 1), (TIMEOUT, 1), (TIMEOUT, 0)]),
        *judged("d", [(0, 1)]),
        *judged("e", [(TIMEOUT, 0)]),
    ]
    found = agreed(rows)
    assert (found.accuracy.value, found.accuracy.n, found.accuracy.n_failed) == (0.6, 10, 3)
    assert found.accuracy.note == "not computable: only 4 queries, 10 are needed"
    assert (found.accuracy.bound_low, found.accuracy.bound_high) == (6 / 13, 9 / 13)
    low, high = found.kappa.bound_low, found.kappa.bound_high
    assert found.kappa.n_failed == 3 and low is not None and high is not None and low < 0.2 < high
    assert agreed([*rows, *judged("f", [(1, TIMEOUT)])]).accuracy.n_failed == 4
    alone = agreed(judged("a", [(TIMEOUT, 1), (TIMEOUT, 0)]))
    assert (alone.accuracy.value, alone.accuracy.note) == (None, "no verdict on a labelled chunk")
    assert (alone.accuracy.n_failed, alone.kappa.value) == (2, None)
    assert agree(judging(), {}) is None


def test_disagreements_begin_with_the_query_that_has_most_and_the_chunk_that_is_labelled() -> None:
    three = judged("three", [(1, 0), (1, 1), (0, 1), (1, 0)])
    found = agreed([*judged("one", [(0, 0), (1, 0)]), *three, *judged("also one", [(0, 1)])]).disagreements
    places = [f"{row.query_id} {row.chunk_id}" for row in found]
    assert places == ["three c2", "three c0", "three c3", "also one c0", "one c1"]
    assert (found[0].label, found[0].reason) == (1, "because three c2")


def drawn(rng: np.random.Generator, queries: int, base: float, hit: float, false: float, correlation: float) -> Floats:
    """Counts of verdict and label 1 1, 1 0, 0 1, 0 0 on 4 to 16 chunks of each query, at rates of the query's own."""

    def rates(mean: float) -> Floats:
        scale = (1 - correlation) / correlation
        return rng.beta(mean * scale, (1 - mean) * scale, queries)

    relevant, others = rng.binomial(rng.integers(2, 9, queries), rates(base)), rng.integers(2, 9, queries)
    found, over = rng.binomial(relevant, rates(hit)), rng.binomial(others, rates(false))
    return np.stack([found, over, relevant - found, others - over], axis=1)


def rows_of(table: Floats) -> list[Row]:
    kinds = ((1, 1), (1, 0), (0, 1), (0, 0))
    return [
        row
        for query, counts in enumerate(table.astype(int).tolist())
        for row in judged(f"q{query}", [kind for kind, count in zip(kinds, counts, strict=True) for _ in range(count)])
    ]


@pytest.mark.slow
@pytest.mark.parametrize("queries", [20, 66, 225])
@pytest.mark.parametrize("correlation", [0.1, 0.3])
@pytest.mark.parametrize(("hit", "false"), [(0.85, 0.1), (0.97, 0.03)])
def test_intervals_hold_for_correlated_verdicts(queries: int, correlation: float, hit: float, false: float) -> None:
    """Of 300 samples each 91% to 100%; Wilson's interval of verdicts taken for independent holds as few as 75%."""
    rng = np.random.default_rng(queries)
    right, over, missed, rejected = drawn(rng, 400_000, 0.3, hit, false, correlation).sum(axis=0)
    n = right + over + missed + rejected
    observed = (right + rejected) / n
    chance = ((right + over) * (right + missed) + (missed + rejected) * (over + rejected)) / n**2
    truth = {"judge/agreement": observed, "judge/kappa": (observed - chance) / (1 - chance)}
    held: dict[str, list[bool]] = {name: [] for name in truth}
    for _ in range(300):
        found = agreed(rows_of(drawn(rng, queries, 0.3, hit, false, correlation)))
        for one in (found.accuracy, found.kappa):
            if one.ci_low is not None and one.ci_high is not None:
                held[one.metric].append(one.ci_low <= truth[one.metric] <= one.ci_high)
    assert all(len(each) > 250 and np.mean(each) >= 0.91 for each in held.values())


# People, and judges above one another

IDS = [f"q{number:03}" for number in range(130)]
ORDER = judging_order((make_case(key) for key in IDS), 0)


def observations(labelled: Mapping[str, Any], grades: Mapping[str, Any] | None = None) -> list[Observation]:
    cases = [make_case(key, reference_answer="r", human_verdicts=dict(labelled.get(key, {}))) for key in IDS]
    return [observe(results("a", "b"), grades[case.id] if grades else {"a": 1}, case=case) for case in cases]


def said(model: str, useful: Mapping[str, int], drawn: Sequence[str] | None = None, **values: Any) -> Judging:
    found = [((key, chunk), useful[key] * (chunk == "a")) for key in drawn or IDS for chunk in "ab"]
    verdicts = {chunk: ChunkVerdict(verdict=verdict, reason="") for chunk, verdict in found}
    return judging(model=model, verdicts=verdicts, drawn=None if drawn is None else frozenset(drawn), **values)


TRUE = {key: int(number % 3 > 0) for number, key in enumerate(IDS)}
SMALL = {key: TRUE[key] ^ (number % 7 == 0) for number, key in enumerate(IDS)}
LARGE = {key: TRUE[key] ^ (number % 10 == 0) for number, key in enumerate(IDS)}


def people(keys: Sequence[str]) -> dict[str, dict[str, int]]:
    return {key: {"a": TRUE[key], "b": 0} for key in keys}


def corrected(judge: Judging, run: Sequence[Observation]) -> Summary:
    correction = measure(judge, run, 0).correction
    assert correction is not None
    return correction


def test_their_mean_is_corrected_by_a_judge_of_all_queries_by_the_definition() -> None:
    for n in (15, 40):
        mean = corrected(said("small", SMALL), observations(people(ORDER[:n])))
        own = np.array([[float(TRUE[key])] for key in ORDER[:n]])
        proxy = np.array([[float(SMALL[key])] for key in ORDER])
        expected = own.mean() + shrunk_weight(own, proxy[:n]) * (proxy.mean() - proxy[:n].mean())
        assert mean.value == pytest.approx(expected, abs=1e-8) and mean.n == n
        assert mean.ci_low is not None and mean.ci_high is not None and mean.ci_low < expected < mean.ci_high


def test_without_a_judge_of_all_queries_nothing_corrects_them() -> None:
    run = observations(people(ORDER[:20]), {key: {"a": 1} if TRUE[key] else {"x": 1} for key in IDS})
    part = said("large", LARGE, ORDER[:40])
    for judge in (part, replace(part, drawn=None)):  # of a sample, and of all until the budget was spent
        mean = corrected(judge, run)
        assert mean.value == pytest.approx(np.mean([TRUE[key] for key in ORDER[:20]]))
        assert (mean.sampled and mean.sampled.weight) == 0 and mean.bound_low != mean.bound_high


def test_what_the_judge_failed_on_is_as_its_other_verdicts_are() -> None:
    judge = said("small", SMALL)
    failed = {(key, "a"): TIMEOUT for key in ORDER[-2:]} | {(ORDER[0], "a"): Unscored(reason="budget")}
    run = observations(people(ORDER[:40]))
    partly = replace(judge, verdicts={**judge.verdicts, **failed})
    assert corrected(partly, run).value == pytest.approx(corrected(judge, run).value, abs=0.02)


def test_they_are_a_random_sample_or_it_is_said_why_not() -> None:
    for labelled, note in (
        (people(ORDER[:14]), "all that was returned for the first 14 queries of the judging order, 15 are needed"),
        (people(ORDER[60:90]), "the first 0 queries"),
        (people(ORDER[:20]) | {ORDER[3]: {"b": 0}}, "the first 3 queries"),
        (people(ORDER[:20]) | {key: {"b": 0} for key in ORDER[20:22]}, ""),
    ):
        found = corrected(said("small", SMALL), observations(labelled))
        assert (found.value is None) == bool(note)
        assert re.search(note, found.note)


def test_queries_of_a_beginning_that_returned_nothing_are_seen_and_zero() -> None:
    silent = {ORDER[3], ORDER[11], ORDER[40]}

    def mean(seen: set[str]) -> Summary:
        run = observations(people([key for key in ORDER[:20] if key in seen]))
        returned = [replace(o, selection=candidates_of(())) if o.case.id in silent else o for o in run]
        return corrected(said("small", SMALL), returned)

    assert mean({*ORDER} - silent) == mean({*ORDER}) and mean({*ORDER} - silent).n == 20


def test_without_their_verdicts_there_is_no_correction() -> None:
    trust = measure(said("small", SMALL), observations({}), 0)
    assert trust.correction is None and trust.tiers == [] and trust.self_agreement is None
    assert trust.agreement is not None and trust.agreement.accuracy.n == 260


def test_a_second_pass_is_compared_with_the_first() -> None:
    first = said("small", SMALL)
    again = said("small", {key: SMALL[key] ^ (number % 5 == 0) for number, key in enumerate(IDS)}, IDS[:50])
    lost = {**again.verdicts, (IDS[1], "a"): TIMEOUT}
    trust = measure(replace(first, again=replace(again, verdicts=lost)), observations(people(ORDER[:20])), 0)
    assert [one.metric for one in summaries(trust)] == [name for name in FIGURES if name not in SPENT]
    found = trust.self_agreement
    assert found is not None and (found.metric, found.n, found.n_failed) == ("judge/self_agreement", 99, 1)
    assert found.value == pytest.approx(89 / 99)

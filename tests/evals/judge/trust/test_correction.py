"""Human verdicts: against the definition, ppi-python, and by simulated coverage."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from evals.collect.observations import Failure, Observation, Score, Unscored
from evals.judge.estimates import Floats
from evals.judge.people import Correction, correct, human_scores
from evals.sampling.corrected import shrunk_weight
from evals.stats import intervals as stats
from evals.stats.intervals import mean_interval
from tests.support.observed import make_case, observe, results

TIMEOUT = Failure(type="TimeoutError", message="30 s")
UNREAD = Unscored(reason="no human verdict on the returned chunk 'c'")


def sample(n: int, others: int, bias: float) -> tuple[Floats, Floats, Floats]:
    """Human scores of n queries, a judge's of the same, and the judge's of the others: arithmetic, not drawn."""
    seen, unseen = np.arange(n), np.arange(others)
    y = (37 * seen % 101) / 100
    f = np.clip(y + (53 * seen % 17 - 8) / 40 + bias, 0, 1)
    rest = np.clip((41 * unseen % 101) / 100 + (29 * unseen % 17 - 8) / 40 + bias, 0, 1)
    return y, f, rest


def by_id(scores: Sequence[float] | Floats) -> dict[str, float]:
    return {f"q{place:04}": float(score) for place, score in enumerate(scores)}


def corrected_by(
    judged: Sequence[Mapping[str, Score]], human: Mapping[str, Score], labels: Mapping[str, float] | None = None
) -> Correction:
    order = sorted({key for scores in (*judged, human) for key in scores})
    return correct("ragas/x", order, judged, human, labels or {})


def corrected(n: int = 100, others: int = 300, bias: float = 0.2) -> Correction:
    y, f, rest = sample(n, others, bias)
    return corrected_by([by_id([*f, *rest])], by_id(y))


class TestCorrect:
    def test_the_mean_is_that_of_the_definition(self) -> None:
        y, f, rest = sample(40, 160, 0.2)
        weight = shrunk_weight(y[:, None], f[:, None])
        result = corrected(40, 160)
        assert result.weight == pytest.approx(weight) and 0.7 < weight < 1 and result.judge == 0
        assert result.corrected.value == pytest.approx(y.mean() + weight * (np.mean([*f, *rest]) - f.mean()))
        assert (result.corrected.n, result.labels_alone.n, result.raw.n) == (40, 40, 200)

    def test_mean_and_interval_are_near_those_of_ppi_python(self) -> None:
        """`ppi_mean_ci` of ppi-python 0.2.3 on the same numbers: 0.46772 … 0.53704 about 0.50238, normal."""
        result = corrected().corrected
        assert result.value == pytest.approx(0.50238, abs=0.003)
        assert result.interval.low == pytest.approx(0.46772, abs=0.006)
        assert result.interval.high == pytest.approx(0.53704, abs=0.006)

    def test_the_raw_mean_and_that_of_people_stand_beside_it(self) -> None:
        y, f, rest = sample(100, 300, 0.2)
        result = corrected()
        assert result.raw.value == pytest.approx(np.mean([*f, *rest]), abs=1e-12)
        assert result.raw.interval == mean_interval([*f, *rest])
        assert result.labels_alone.value == pytest.approx(0.4986, abs=1e-12)
        assert result.labels_alone.interval == mean_interval(y.tolist())

    def test_a_biased_judge_is_corrected_within_a_narrower_interval_than_people_alone(self) -> None:
        result = corrected(15, 100)
        assert result.raw.value is not None and result.raw.value > 0.6
        assert result.corrected.value is not None and result.corrected.value < 0.56
        assert _width(result.corrected.interval) < 0.7 * _width(result.labels_alone.interval)

    def test_a_judge_that_says_the_opposite_is_not_made_use_of(self) -> None:
        y, f, rest = sample(100, 300, 0.0)
        result = corrected_by([by_id([*(1 - f), *(1 - rest)])], by_id(y))
        assert result.weight == 0 and result.corrected.value == pytest.approx(y.mean())
        assert _width(result.corrected.interval) <= 1.01 * _width(result.labels_alone.interval)

    def test_the_strongest_judge_of_all_queries_corrects_people_and_without_one_the_labels(self) -> None:
        y, f, rest = sample(40, 160, 0.2)
        labels, cheap, few = by_id([*(1 - f), *rest]), by_id([*f, *rest]), by_id(f[:20])
        both = corrected_by([labels, cheap], by_id(y))
        assert both.judge == 1 and both.corrected == corrected_by([cheap], by_id(y)).corrected
        by_cheap = corrected_by([cheap, few], by_id(y), labels)
        assert by_cheap.judge == 0 and by_cheap.corrected == both.corrected
        by_labels = correct("ragas/x", [*cheap], [few], by_id(y), cheap)
        assert by_labels.judge is None and by_labels.corrected == both.corrected

    def test_all_queries_seen_by_people_need_no_correction(self) -> None:
        y, f, _ = sample(100, 0, 0.2)
        result = corrected_by([by_id(f)], by_id(y))
        assert result.weight == 0 and result.corrected.interval == result.labels_alone.interval


class TestRefusal:
    @pytest.mark.parametrize(("n", "refused"), [(14, True), (15, False)])
    def test_fifteen_are_enough_where_they_are_the_first_of_the_order(self, n: int, refused: bool) -> None:
        result = corrected(n, 60).corrected
        assert (result.value is None) == refused
        if refused:
            assert result.note == "only 14 queries with human verdicts can be used, 15 are needed"

    def test_chosen_queries_must_be_a_hundred(self) -> None:
        y, f, rest = sample(220, 10, 0.2)
        judged, human = by_id([*f, *rest]), by_id(y)
        chosen = {key: score for place, (key, score) in enumerate(human.items()) if place % 2 == 0}
        assert corrected_by([judged], chosen).corrected.value is not None
        del chosen["q0000"], chosen["q0002"], chosen["q0200"], chosen["q0202"], chosen["q0204"], chosen["q0206"]
        assert corrected_by([judged], chosen).corrected.value is not None
        for place in range(50, 100, 2):
            del chosen[f"q{place:04}"]
        assert corrected_by([judged], chosen).corrected.note == (
            "only 79 queries with human verdicts can be used, 100 are needed where they are not the first of the "
            "judging order (golden label offers these, of which 15 are enough)"
        )

    def test_the_query_that_people_are_at_does_not_count(self) -> None:
        y, f, rest = sample(20, 60, 0.2)
        judged, human = by_id([*f, *rest]), by_id(y)
        at_work: dict[str, Score] = {**human, "q0020": UNREAD, "q0021": UNREAD}
        assert corrected_by([judged], at_work).corrected == corrected_by([judged], human).corrected

    def test_too_many_incomplete_verdicts_leave_no_random_sample(self) -> None:
        y, f, rest = sample(120, 280, 0.2)
        judged, human = by_id([*f, *rest]), by_id(y)
        six: dict[str, Score] = {**human, **{f"q{place:04}": UNREAD for place in range(6)}}
        assert corrected_by([judged], six).corrected.value is not None
        result = corrected_by([judged], {**six, "q0006": UNREAD})
        assert result.corrected.value is None
        assert result.corrected.note == (
            "7 of 120 queries with human verdicts cannot be used (no human verdict on the returned chunk 'c'), "
            "over 5%: those left are no random sample"
        )

    def test_a_verdict_that_the_judge_failed_on_is_predicted_from_the_others(self) -> None:
        y, f, rest = sample(105, 295, 0.2)
        judged: dict[str, Score] = {**by_id([*f, *rest])}
        judged |= {"q0300": TIMEOUT, "q0301": Unscored(reason="budget"), "q0000": TIMEOUT}
        result = corrected_by([judged], by_id(y))
        assert (result.raw.n, result.raw.n_failed, result.raw.n_unscored) == (397, 2, 1)
        assert result.corrected.value == pytest.approx(corrected(105, 295).corrected.value, abs=0.01)


class TestHumanScores:
    @staticmethod
    def returned(verdicts: dict[str, int], *chunks: str) -> Observation:
        case = make_case("q", human_verdicts=verdicts, reference_answer="yes")
        return observe(results(*chunks), {"a": 1}, case=case)

    @staticmethod
    def first(verdicts: Any) -> float:
        """Tells ranks apart: 1, 1/2, 1/4 … for each."""
        return float(sum(verdict / 2**place for place, verdict in enumerate(verdicts)))

    def test_verdicts_are_read_in_rank_order(self) -> None:
        found = human_scores([self.returned({"a": 1, "b": 0, "c": 1}, "b", "c", "a")], self.first)
        assert found == {"q": 0.75}

    def test_a_repeated_chunk_counts_once(self) -> None:
        assert human_scores([self.returned({"a": 1, "b": 1}, "a", "a", "b")], self.first) == {"q": 1.5}

    def test_an_empty_result_scores_0(self) -> None:
        assert human_scores([self.returned({"a": 1})], self.first) == {"q": 0.0}

    def test_a_returned_chunk_without_verdict_leaves_the_query_unscored(self) -> None:
        found = human_scores([self.returned({"a": 1}, "a", "x", "y")], self.first)
        assert found == {"q": Unscored(reason="no human verdict on the returned chunk 'x'")}

    def test_queries_without_human_verdicts_have_no_human_score(self) -> None:
        assert human_scores([observe(results("a"), {"a": 1})], self.first) == {}
        assert human_scores([], self.first) == {}


def draws(
    rng: np.random.Generator, shape: tuple[int, int], false: float, missed: float, kind: str
) -> tuple[Floats, Floats]:
    """Human and judge scores of five chunks a query, useful at a rate of the query's own (2/3 on average)."""
    human = rng.random((*shape, 5)) < rng.beta(2, 1, shape)[..., None]
    chance = rng.random((*shape, 5))
    judge = np.where(human, chance >= missed, chance < false)
    return _score(human, kind), _score(judge, kind)


def _score(verdicts: NDArray[np.bool_], kind: str) -> Floats:
    if kind == "share":
        return np.asarray(verdicts.mean(axis=-1))
    precision = verdicts.cumsum(axis=-1) / np.arange(1, 6)
    return np.asarray((precision * verdicts).sum(axis=-1) / np.maximum(1, verdicts.sum(axis=-1)))


def coverage(n: int, total: int, samples: int, false: float, missed: float, kind: str) -> tuple[Floats, float]:
    """Share of intervals that hold the human mean (corrected, raw, people alone); corrected width over the last."""
    rng = np.random.default_rng(8)
    true = float(draws(rng, (1, 1_000_000), false, missed, kind)[0].mean())
    human, judge = draws(rng, (samples, total), false, missed, kind)
    covered, widths, alone = [], [], []
    for y, f in zip(human, judge, strict=True):
        result = corrected_by([by_id(f)], by_id(y[:n]))
        covered.append([_holds(each.interval, true) for each in (result.corrected, result.raw, result.labels_alone)])
        widths.append(_width(result.corrected.interval))
        alone.append(_width(result.labels_alone.interval))
    return np.mean(covered, axis=0), float(np.mean(widths) / np.mean(alone))


def test_fifteen_queries_hold_the_human_mean_in_a_few_draws() -> None:
    (ours, raw, _), _ = coverage(15, 120, 120, 0.25, 0.0, "ap")
    assert ours > 0.91 and raw < 0.3


@pytest.mark.slow
@pytest.mark.parametrize(("n", "total"), [(15, 60), (22, 225), (100, 400)])
@pytest.mark.parametrize(
    ("kind", "false", "missed", "biased"),
    [("ap", 0.25, 0.0, True), ("share", 0.2, 0.1, False)],
    ids=["lenient judge of average precision", "unbiased judge of shares"],
)
def test_covers_the_human_mean_with_a_biased_judge_and_an_unbiased_one(
    n: int, total: int, kind: str, false: float, missed: float, biased: bool
) -> None:
    (ours, raw, people), width = coverage(n, total, 800, false, missed, kind)
    assert 0.925 <= ours and 0.925 <= people
    assert raw < 0.75 if biased else 0.92 <= raw
    assert width < (1 if n == 15 else 0.97)  # of few residuals that were not seen count most


def _holds(interval: stats.Interval, value: float) -> bool:
    assert interval.low is not None and interval.high is not None
    return interval.low <= value <= interval.high


def _width(interval: stats.Interval) -> float:
    assert interval.low is not None and interval.high is not None
    return interval.high - interval.low

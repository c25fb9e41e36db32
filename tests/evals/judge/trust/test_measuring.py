"""Trust in the judges of a cascade: human verdicts correct the strongest that shares enough queries with them."""

from evals.collect.observations import Observation
from evals.judge.trust.measuring import measure
from evals.judge.verdicts import ChunkVerdict, Judging
from tests.support.judged import judging
from tests.support.observed import make_case, observe, results

CHUNKS = ("a", "b")


def observations(count: int) -> list[Observation]:
    """Queries whose first chunk people find useful, but for every third."""
    return [
        observe(
            results(*CHUNKS),
            {"a": 1},
            case=make_case(f"q{number:03}", reference_answer="r", human_verdicts={"a": int(number % 3 > 0), "b": 0}),
        )
        for number in range(count)
    ]


def verdicts(count: int, useful: int) -> dict[tuple[str, str], ChunkVerdict]:
    return {
        (f"q{number:03}", chunk): ChunkVerdict(verdict=useful if chunk == "a" else number % 2, reason="")
        for number in range(count)
        for chunk in CHUNKS
    }


def cascade(drawn: int) -> Judging:
    small = judging(model="small", verdicts=verdicts(130, 1))
    ids = frozenset(f"q{number:03}" for number in range(drawn))
    return judging(model="large", verdicts=verdicts(drawn, 0), drawn=ids, below=small)


def test_human_verdicts_correct_the_strong_judge_where_they_share_enough_queries() -> None:
    (correction,) = measure(cascade(110), observations(130), 0).corrections
    assert correction.corrected.value is not None and correction.raw.n == 110


def test_human_verdicts_correct_the_cheap_judge_where_the_strong_saw_too_few() -> None:
    (correction,) = measure(cascade(40), observations(130), 0).corrections
    assert correction.corrected.value is not None and correction.raw.n == 130


def test_too_few_human_verdicts_are_said_once() -> None:
    (correction,) = measure(cascade(40), observations(60), 0).corrections
    assert correction.corrected.value is None and "100 are needed" in correction.corrected.note


def test_agreement_is_between_neighbours() -> None:
    (agreement,) = measure(cascade(40), [], 0).tiers
    assert agreement is not None and (agreement.n_verdicts, agreement.accuracy.value) == (80, 0.5)

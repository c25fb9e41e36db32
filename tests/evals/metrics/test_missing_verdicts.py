"""Verdicts that fail on long chunks are named."""

from evals.collect.observations import Failure, Unscored
from evals.judge.verdicts import ChunkVerdict, Judging
from evals.metrics.notes import missing_by_length
from tests.support.results import hit, observation

FAILED = Failure(type="Timeout", message="too long")
GIVEN = ChunkVerdict(verdict=1, reason="It helps.")
LENGTHS = [100 + 10 * place for place in range(40)]
QUERY = observation("q", [hit(place + 1, 0.9, f"c{place}", text="x" * n) for place, n in enumerate(LENGTHS)], 40)


def judged(*outcomes: ChunkVerdict | Failure | Unscored) -> Judging:
    verdicts = {("q", f"c{place}"): outcome for place, outcome in enumerate(outcomes)}
    return Judging(model="m", verdicts=verdicts, scores={}, claims={})


def test_failures_on_the_longest_chunks_are_not_at_random() -> None:
    [note] = missing_by_length(judged(*[GIVEN] * 28, *[FAILED] * 12), [QUERY])
    assert note.startswith(
        "verdicts are missing not at random: the 12 chunks whose verdict failed are longer than the 28"
    )
    assert "(median 435 characters, 235)" in note
    [note] = missing_by_length(judged(*[FAILED] * 12, *[GIVEN] * 28), [QUERY])
    assert "are shorter than" in note


def test_failures_of_any_length_are_not_named() -> None:
    outcomes: list[ChunkVerdict | Failure] = [FAILED, GIVEN, GIVEN, GIVEN]
    assert not [*missing_by_length(judged(*outcomes * 10), [QUERY])]


def test_fewer_than_ten_say_nothing() -> None:
    assert not [*missing_by_length(judged(*[GIVEN] * 31, *[FAILED] * 9), [QUERY])]


def test_what_a_budget_did_not_buy_is_missing_at_random() -> None:
    unbought = Unscored(reason="the budget is spent", missing=True)
    assert not [*missing_by_length(judged(*[GIVEN] * 28, *[unbought] * 12), [QUERY])]

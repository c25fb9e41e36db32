"""The policy: how often, how long between, and never past the deadline; on a clock of our own."""

import logging
import random
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from retrievers.clock import Clock as RealClock
from retrievers.config import RetrieverConfig
from retrievers.errors import RetrievalError, SearchTimeoutError, StoreError, StoreTimeoutError, StoreUnreachableError
from retrievers.net import retry
from retrievers.net.deadline import bounded, searching, stage, time_left
from retrievers.net.patience import patient, working_time
from retrievers.net.retry import ATTEMPTS, PATIENCE, attempt
from tests.support.clock import Clock
from tests.support.collections import settings


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("retrievers.clock.CLOCK", clock.waiting())
    return clock


class Action:
    """Takes `lasts` seconds and raises `faults` one after another, the last one again and again; None is a success."""

    def __init__(self, clock: Clock, faults: Sequence[Callable[[], RetrievalError] | None], lasts: float = 0) -> None:
        self.clock, self.faults, self.lasts, self.calls = clock, faults, lasts, 0

    def __call__(self) -> str:
        self.clock.pass_by(self.lasts)
        fault = self.faults[min(self.calls, len(self.faults) - 1)]
        self.calls += 1
        if fault is not None:
            raise fault()
        return "done"


def passing() -> RetrievalError:
    return StoreError("busy").marked(transient=True)


def lasting() -> RetrievalError:
    return StoreError("refused")


def asking(seconds: float) -> Callable[[], RetrievalError]:
    return lambda: StoreError("busy").marked(transient=True, retry_after_s=seconds)


def tried(action: Action, timeout_s: float = 10, retried: bool = True) -> str:
    return attempt(action, name="store", timeout_s=timeout_s, collection="c", retried=retried)


@pytest.mark.parametrize("failures", range(ATTEMPTS))
def test_what_passes_in_time_is_a_success(clock: Clock, failures: int) -> None:
    action = Action(clock, [*[passing] * failures, None])
    assert tried(action) == "done"
    assert action.calls == failures + 1
    assert len(clock.waits) == failures


def test_a_transient_fault_is_tried_four_times_with_growing_waits(clock: Clock) -> None:
    action = Action(clock, [passing], lasts=0.25)
    with pytest.raises(StoreError) as caught:
        tried(action)
    assert (action.calls, clock.most) == (4, [0.5, 1.0, 2.0])
    assert str(caught.value) == "busy (4 attempts in 4.5 s)"  # 4 x 0.25 + 0.5 + 1 + 2
    assert (caught.value.attempts, caught.value.stage) == (4, "store")


def test_a_lasting_fault_is_tried_once_and_says_nothing_of_attempts(clock: Clock) -> None:
    action = Action(clock, [lasting])
    with pytest.raises(StoreError, match=r"^refused$"):
        tried(action)
    assert (action.calls, clock.waits) == (1, [])


def test_a_lasting_fault_after_a_transient_one_ends_it(clock: Clock) -> None:
    action = Action(clock, [passing, lasting])
    with pytest.raises(StoreError, match=r"^refused \(2 attempts in 0\.5 s\)$"):
        tried(action)


def test_what_may_not_be_repeated_is_tried_once(clock: Clock) -> None:
    action = Action(clock, [passing, None])
    with pytest.raises(StoreError, match=r"^busy \(1 attempt in 0\.0 s\)$"):
        tried(action, retried=False)
    assert action.calls == 1


def test_another_kind_of_error_is_not_ours_to_repeat(clock: Clock) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        attempt(fail, name="store", timeout_s=1)
    assert clock.waits == []


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_the_jitter_is_full(clock: Clock, share: float) -> None:
    clock.share = share
    with pytest.raises(StoreError):
        tried(Action(clock, [passing]))
    assert clock.waits == [share * most for most in (0.5, 1.0, 2.0)]


def test_a_seed_gives_the_same_waits_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def waits(seed: int) -> list[float]:
        clock = Clock()
        jitter = random.Random(seed).uniform
        monkeypatch.setattr(
            "retrievers.clock.CLOCK", RealClock(now=lambda: clock.time, sleep=clock.wait, jitter=jitter)
        )
        with pytest.raises(StoreError):
            tried(Action(clock, [passing]))
        return clock.waits

    assert waits(1) == waits(1) != waits(2)


def test_the_waits_are_capped(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "ATTEMPTS", 8)
    with pytest.raises(StoreError):
        tried(Action(clock, [passing]), timeout_s=1000)
    assert clock.most == [0.5, 1, 2, 4, 8, 8, 8]


# Retry-After


def test_retry_after_is_waited_out_before_a_short_jitter(clock: Clock) -> None:
    assert tried(Action(clock, [asking(7), asking(3), None])) == "done"
    assert clock.waits == [7.5, 3.5]


def test_to_wait_as_asked_is_no_failed_attempt(clock: Clock) -> None:
    action = Action(clock, [*[asking(1)] * 20, *[passing] * 3, None])
    assert tried(action) == "done"
    assert action.calls == 24


def test_a_longer_retry_after_than_is_left_is_not_waited_for(clock: Clock) -> None:
    action = Action(clock, [asking(7)], lasts=1)
    with searching(20, "c", "q"), pytest.raises(StoreError) as caught:
        tried(action)
    # 1 + 7.5, 1 + 7.5: at 17, after the third attempt at 18, 2 s are left
    assert (action.calls, clock.waits) == (3, [7.5, 7.5])
    assert str(caught.value) == "busy (3 attempts in 18.0 s; asked to wait 7 s, 2.0 s are left)"
    assert not caught.value.timed_out


# Patience


def gone() -> RetrievalError:
    return StoreUnreachableError("gone").marked(transient=True, away=True)


def restarted_after(clock: Clock, seconds: float) -> Callable[[], str]:
    back = clock.time + seconds

    def action() -> str:
        if clock.time < back:
            raise gone()
        return "done"

    return action


def test_a_patient_run_waits_for_a_store_that_is_away_and_says_so_once(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    with patient(60):
        assert attempt(restarted_after(clock, 5), name="store", timeout_s=10) == "done"
        assert attempt(restarted_after(clock, 50), name="store", timeout_s=10) == "done"
    assert caplog.messages == [
        "store: waiting up to 60 s for it (store.wait_s): gone",
        "store: the store answers again, after 5.5 s",
        "store: waiting up to 60 s for it (store.wait_s): gone",
        "store: the store answers again, after 51.5 s",
    ]


def test_an_applications_search_does_not_wait_for_a_store_that_is_away(clock: Clock) -> None:
    with searching(30, "c", "q"), pytest.raises(StoreUnreachableError, match=r"^gone \(4 attempts in 3\.5 s\)$"):
        attempt(restarted_after(clock, 5), name="store", timeout_s=10)


def test_patience_ends(clock: Clock) -> None:
    with patient(60), searching(2, "c", "q"), pytest.raises(StoreUnreachableError) as caught:
        attempt(restarted_after(clock, 100), name="store", timeout_s=1)
    assert 60 <= clock.time - 1_000 < 62
    assert str(caught.value).startswith("gone (33 attempts in 60.8 s)")


def test_a_patient_run_does_not_wait_for_a_store_that_fails(clock: Clock) -> None:
    action = Action(clock, [passing])
    with patient(60), pytest.raises(StoreError):
        tried(action)
    assert action.calls == 4


def test_what_may_not_be_repeated_is_not_repeated_with_patience_either(clock: Clock) -> None:
    action = Action(clock, [gone, None])
    with patient(60), pytest.raises(StoreUnreachableError):
        tried(action, retried=False)
    assert action.calls == 1


def test_what_a_patient_run_waited_is_no_working_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retrievers.clock.CLOCK", RealClock(jitter=lambda low, high: 0.05))
    for lost, scope in ((True, patient(60)), (False, searching(60, "c", "q"))):
        faults = iter([gone, gone, None])

        def action(faults: Iterator[Callable[[], RetrievalError] | None] = faults) -> None:
            time.sleep(0.02)
            if fault := next(faults):
                raise fault()

        with scope:
            before = working_time()
            attempt(action, name="store", timeout_s=10)
            took = working_time() - before
        assert (took < 0.1) == lost  # 3 x 0.02 + 2 x 0.05, of which 0.02 are work


# The deadline


def test_a_search_that_runs_out_of_time_is_a_timeout_with_its_cause(clock: Clock) -> None:
    action = Action(clock, [lambda: StoreTimeoutError("no answer").marked(transient=True, timed_out=True)], lasts=10)
    with searching(25, "c", "q"), stage("search"), pytest.raises(SearchTimeoutError) as caught:
        tried(action)
    assert str(caught.value) == (
        "the search did not end within 25 s (stage search: 3 attempts in 31.5 s: no answer); "
        "raise timeout_s, or find what is slow"
    )
    assert isinstance(caught.value.__cause__, StoreTimeoutError)
    assert (caught.value.timed_out, caught.value.stage, caught.value.attempts) == (True, "search", 3)


@pytest.mark.parametrize("timeout_s", [0.1, 0.4, 1, 2, 3.4, 30])
@pytest.mark.parametrize("asked", [0, 0.3, 1, 5])
def test_no_wait_goes_past_the_deadline(clock: Clock, timeout_s: float, asked: float) -> None:
    with searching(timeout_s, "c", "q"), pytest.raises(RetrievalError):
        tried(Action(clock, [asking(asked)]))
    assert sum(clock.waits) < timeout_s


def test_stages_share_the_deadline(clock: Clock) -> None:
    with searching(30, "c", "q"):
        with stage("embed"):
            clock.pass_by(20)
        with stage("search"):
            assert time_left(10) == 10
            clock.pass_by(7)
        with stage("rerank"):
            assert time_left(10) == pytest.approx(3)
            clock.pass_by(4)
        with pytest.raises(SearchTimeoutError, match=r"within 30 s \(stage rerank: not begun\)"), stage("rerank"):
            raise AssertionError


def test_nothing_is_sent_once_the_deadline_has_passed(clock: Clock) -> None:
    action = Action(clock, [None])
    with searching(1, "c", "q"):
        clock.pass_by(2)
        with pytest.raises(SearchTimeoutError, match="not begun"):
            tried(action)
    assert action.calls == 0


def test_a_result_that_came_late_is_still_a_result(clock: Clock) -> None:
    with searching(1, "c", "q"):
        assert tried(Action(clock, [None], lasts=5)) == "done"


def test_outside_a_search_a_request_has_its_own_deadline(clock: Clock) -> None:
    action = Action(clock, [passing], lasts=PATIENCE)
    with pytest.raises(StoreError, match=r"^busy \(1 attempt in 6\.0 s\)$"):
        tried(action, timeout_s=1)
    assert time_left(3) == 3


def test_a_search_within_a_search_has_the_outer_deadline(clock: Clock) -> None:
    with searching(5, "c", "q"), searching(500, "c", "q"):
        assert time_left(100) == pytest.approx(5)
    assert time_left(100) == 100


def test_a_batch_has_as_many_times_as_long(clock: Clock) -> None:
    class Retriever:
        settings: RetrieverConfig = settings(timeout_s=2)

        @bounded
        def left(self, queries: Sequence[str]) -> float:
            return time_left(1_000)

    asked: list[Sequence[str]] = ["one", ["one"], ["a", "b", "c"], []]
    assert [Retriever().left(queries) for queries in asked] == [2, 2, 6, 2]


# The log


def test_every_attempt_that_is_repeated_is_logged_once(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    with searching(60, "pages", "why?"), stage("embed"), pytest.raises(StoreError):
        tried(Action(clock, [passing]))
    known = [tuple(r.__dict__[k] for k in ("query", "stage", "collection", "attempt")) for r in caplog.records]
    assert known == [("why?", "embed", "pages", number) for number in (1, 2, 3)]
    assert {r.levelno for r in caplog.records} == {logging.WARNING}
    assert caplog.messages[0] == "embed: attempt 1 of 4 failed, trying again in 0.50 s: busy"


def test_what_ends_at_once_is_not_logged_here(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(StoreError):
        tried(Action(clock, [lasting]))
    assert caplog.records == []

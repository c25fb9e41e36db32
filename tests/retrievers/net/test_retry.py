"""The policy: how long, how long between, and who is waited for; on a clock of our own."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from retrievers.errors import RetrievalError, StoreError, StoreUnreachableError
from retrievers.net.retry import SEARCH_S, attempt, patient, working_time
from tests.support.clock import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock().rules(monkeypatch)


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


def tried(action: Callable[[], str], retried: bool = True) -> str:
    return attempt(action, name="store", collection="c", retried=retried)


@pytest.mark.parametrize("failures", range(6))
def test_what_passes_in_time_is_a_success(clock: Clock, failures: int) -> None:
    action = Action(clock, [*[passing] * failures, None])
    assert tried(action) == "done"
    assert action.calls == failures + 1
    assert clock.waits == [0.25, 0.5, 1, 2, 2][:failures]


def test_an_applications_search_tries_for_five_seconds(clock: Clock) -> None:
    action = Action(clock, [passing], lasts=0.25)
    with pytest.raises(StoreError) as caught:
        tried(action)
    assert clock.waits == [0.25, 0.5, 1.0, 2.0]
    assert str(caught.value) == "busy (5 attempts in 5.0 s)"  # 5 x 0.25 + 3.75
    assert (caught.value.attempts, caught.value.stage) == (5, "store")


def test_a_request_that_took_all_the_time_is_not_repeated(clock: Clock) -> None:
    action = Action(clock, [passing], lasts=SEARCH_S)
    with pytest.raises(StoreError, match=r"^busy$"):
        tried(action)
    assert (action.calls, clock.waits) == (1, [])


def test_a_lasting_fault_is_tried_once_and_says_nothing_of_attempts(clock: Clock) -> None:
    action = Action(clock, [lasting])
    with pytest.raises(StoreError, match=r"^refused$"):
        tried(action)
    assert (action.calls, clock.waits) == (1, [])


def test_a_lasting_fault_after_a_transient_one_ends_it(clock: Clock) -> None:
    with pytest.raises(StoreError, match=r"^refused \(2 attempts in 0\.2 s\)$"):
        tried(Action(clock, [passing, lasting]))


@pytest.mark.parametrize("wait_s", [None, 60])
def test_what_may_not_be_repeated_is_tried_once(clock: Clock, wait_s: float | None) -> None:
    action = Action(clock, [passing, None])
    with patient(wait_s or SEARCH_S), pytest.raises(StoreError, match=r"^busy$"):
        tried(action, retried=False)
    assert action.calls == 1


def test_another_kind_of_error_is_not_ours_to_repeat(clock: Clock) -> None:
    def fail() -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        tried(fail)
    assert clock.waits == []


def test_a_random_part_is_added_to_each_wait(clock: Clock) -> None:
    clock.share = 1
    with pytest.raises(StoreError):
        tried(Action(clock, [passing]))
    assert clock.waits == [0.5, 0.75, 1.25, 2, 2]


def test_the_error_keeps_its_cause(clock: Clock) -> None:
    origin = TimeoutError("no answer")

    def fail() -> str:
        raise passing() from origin

    with pytest.raises(StoreError) as caught:
        tried(fail)
    assert caught.value.__cause__ is origin


# Retry-After


@pytest.mark.parametrize("asked", [1, 5])
def test_who_asks_to_wait_is_waited_for(clock: Clock, asked: float) -> None:
    assert tried(Action(clock, [asking(asked), None])) == "done"
    assert clock.waits == [asked]


@pytest.mark.parametrize("asked", [0, 0.001])
def test_who_asks_to_come_at_once_is_not_pestered(clock: Clock, asked: float) -> None:
    assert tried(Action(clock, [asking(asked), asking(asked), None])) == "done"
    assert clock.waits == [0.25, 0.5]


def test_a_longer_wait_than_an_application_has_is_refused_at_once(clock: Clock) -> None:
    action = Action(clock, [asking(7), None])
    with pytest.raises(StoreError, match=r"^busy \(asked to wait 7 s, more than 5 s\)$"):
        tried(action)
    assert (action.calls, clock.waits) == (1, [])


def test_a_run_waits_as_long_as_its_setting_allows(clock: Clock) -> None:
    with patient(60):
        assert tried(Action(clock, [asking(60), None])) == "done"
        with pytest.raises(StoreError, match=r"^busy \(asked to wait 61 s, more than 60 s \(store\.wait_s\)\)$"):
            tried(Action(clock, [asking(61), None]))
    assert clock.waits == [60]


# Patience


def gone() -> RetrievalError:
    return StoreUnreachableError("gone").marked(transient=True)


def restarted_after(clock: Clock, seconds: float) -> Callable[[], str]:
    back = clock.time + seconds

    def action() -> str:
        if clock.time < back:
            raise gone()
        return "done"

    return action


@pytest.mark.parametrize("seconds", [5, 50])
def test_a_run_outlives_a_store_that_restarts_and_says_so_once(
    clock: Clock, seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    with patient(60):
        assert tried(restarted_after(clock, seconds)) == "done"
    warned = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert warned == ["store: trying again for up to 60 s (store.wait_s): gone"]


def test_patience_ends(clock: Clock) -> None:
    with patient(60), pytest.raises(StoreUnreachableError, match=r"^gone \(34 attempts in 61\.8 s\)$"):
        tried(restarted_after(clock, 100))


def test_a_run_without_patience_sends_each_request_once(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    with patient(0), pytest.raises(StoreUnreachableError, match=r"^gone$"):
        tried(restarted_after(clock, 1))
    assert caplog.records == []


def test_what_a_run_waited_is_no_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    for lost in (True, False):
        faults: Iterator[Callable[[], RetrievalError] | None] = iter([gone, gone, None])

        def action(faults: Iterator[Callable[[], RetrievalError] | None] = faults) -> str:
            time.sleep(0.05)
            if fault := next(faults):
                raise fault()
            return "done"

        before = working_time()
        if lost:
            with patient(60):
                tried(action)
        else:
            tried(action)
        took = working_time() - before
        assert took >= 0.05
        assert (took < 0.15) == lost  # 3 x 0.05, of which one is the latency


# The log


def test_the_first_fault_is_told_with_the_time_that_is_left_to_it(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(StoreError):
        tried(Action(clock, [passing]))
    assert caplog.messages == ["store: trying again for up to 5 s: busy"]
    told = [tuple(r.__dict__[k] for k in ("levelname", "stage", "collection", "attempt")) for r in caplog.records]
    assert told == [("WARNING", "store", "c", 1)]


def test_a_run_tells_once_that_it_is_asked_to_wait(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    with patient(60):
        for _ in range(3):
            tried(Action(clock, [asking(7), None]))
    warned = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert warned == ["store: waiting 7 s, as asked: busy"]


def test_what_ends_at_once_is_not_logged_here(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(StoreError):
        tried(Action(clock, [lasting]))
    assert caplog.records == []

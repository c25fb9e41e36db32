"""The pace that is learnt from a server's refusals, against servers that count, in time that costs nothing."""

import asyncio
from collections.abc import Callable

import pytest

from evals.config.judge import JudgeConfig
from evals.judge.ask.pacing import ConcurrencyLimit, LearntPace

Server = Callable[[float], float | None]
"""When a request comes, to the seconds that it asks to wait; None when it answers."""


class QuickLoop(asyncio.SelectorEventLoop):
    """A loop whose clock jumps to the next moment at which something is due."""

    def __init__(self) -> None:
        super().__init__()
        self.moment = 1000.0
        real = self._selector.select  # type: ignore[attr-defined]

        def select(timeout: float | None) -> object:
            ready = real(0)
            if not ready and timeout:
                self.moment += timeout
            return ready

        self._selector.select = select  # type: ignore[attr-defined]

    def time(self) -> float:
        return self.moment


def sliding(rate: int) -> Server:
    """At most so many in any second; asks to wait one."""
    sent: list[float] = []

    def asked(now: float) -> float | None:
        sent[:] = [moment for moment in sent if now - moment < 1]
        if len(sent) >= rate:
            return 1.0
        sent.append(now)
        return None

    return asked


def run(server: Server, prompts: int, at_once: int, latency: float) -> tuple[float, list[float]]:
    """Return the seconds that a server took for so many prompts, and its refusals, in seconds from the start."""
    loop = QuickLoop()
    refusals: list[float] = []

    async def all_of_them() -> float:
        gate = ConcurrencyLimit(JudgeConfig.model_validate({"max_concurrency": at_once}), now=loop.time)
        start, waiting = loop.time(), iter(range(prompts))

        async def work() -> None:
            for _ in waiting:
                while True:
                    async with gate.enter(1):
                        wait = server(loop.time())
                        await asyncio.sleep(latency if wait is None else 0.001)
                    if wait is None:
                        gate.succeeded()
                        break
                    refusals.append(loop.time() - start)
                    gate.limited(wait)

        await asyncio.gather(*(work() for _ in range(4 * at_once)))
        return loop.time() - start

    try:
        return loop.run_until_complete(all_of_them()), refusals
    finally:
        loop.close()


@pytest.mark.parametrize(("at_once", "latency"), [(1, 0.03), (16, 0.03), (16, 1.0)])
def test_a_server_of_ten_a_second_is_soon_asked_ten_a_second(at_once: int, latency: float) -> None:
    seconds, refusals = run(sliding(10), 124, at_once, latency)
    assert 12.3 <= seconds < 18
    assert len(refusals) <= 3 + at_once


def test_over_minutes_it_is_refused_a_few_times_a_minute() -> None:
    seconds, refusals = run(sliding(10), 3_000, 1, 0.03)
    assert 300 <= seconds < 360
    assert len(refusals) / (seconds / 60) < 4


def test_a_server_that_takes_few_at_once_is_not_taken_for_a_slow_one_for_long() -> None:
    gate_open: list[float] = []

    def busy_at_first(now: float) -> float | None:
        gate_open.append(now)
        return 1.0 if now < 1000.5 and len(gate_open) > 3 else None

    seconds, _ = run(busy_at_first, 500, 16, 0.01)
    assert seconds < 25


def test_the_pace_is_what_came_through_in_the_time_it_took_waits_included() -> None:
    pace = LearntPace()
    for _ in range(20):
        pace.came_through(now=100.0)
    pace.refused(now=101.0, until=102.0)
    assert pace.rate(102.0) == 10
    assert pace.rate(122.0) == pytest.approx(10 * 2.718281828)  # T is ten times the span of two seconds


def test_a_pace_at_which_nothing_came_through_is_halved_down_to_one_for_each_wait() -> None:
    pace = LearntPace()
    pace.came_through(now=0.0)
    pace.refused(now=0.1, until=0.25)
    rates = []
    for _ in range(5):
        pace.refused(now=0.25, until=1.25)
        rates.append(pace.rate(1.25))
    assert rates == [2, 1, 1, 1, 1]

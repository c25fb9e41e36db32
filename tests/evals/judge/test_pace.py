"""The pace of calls against servers that count, in time that costs nothing."""

import asyncio
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from evals.config.judge import JudgeConfig
from evals.judge.budget import Pace

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


@pytest.fixture
def loop() -> Iterator[QuickLoop]:
    made = QuickLoop()
    yield made
    made.close()


def windows(calls: int, seconds: float) -> Server:
    """So many in each window, which begins with its first; asks to wait for the next one, in whole seconds."""
    opened, sent = -math.inf, 0

    def asked(now: float) -> float | None:
        nonlocal opened, sent
        if now >= opened + seconds:
            opened, sent = now, 0
        sent += 1
        return None if sent <= calls else math.ceil(opened + seconds - now)

    return asked


def sliding(calls: int, seconds: float) -> Server:
    """At most so many in any span of seconds; asks to wait until the next may come."""
    sent: list[float] = []

    def asked(now: float) -> float | None:
        sent[:] = [moment for moment in sent if now - moment < seconds]
        if len(sent) >= calls:
            return sent[0] + seconds - now
        sent.append(now)
        return None

    return asked


def bucket(calls: int, seconds: float) -> Server:
    """A bucket of so many, filled evenly; asks to wait for the next one, in whole seconds."""
    held, since = float(calls), 0.0

    def asked(now: float) -> float | None:
        nonlocal held, since
        held, since = min(calls, held + (now - since) * calls / seconds), now
        if held < 1:
            return math.ceil((1 - held) * seconds / calls)
        held -= 1
        return None

    return asked


def run(loop: QuickLoop, server: Server, prompts: int, at_once: int, latency: float) -> tuple[float, int]:
    """Return the seconds that a server took for so many prompts, and its number of refusals."""
    refusals = 0

    async def all_of_them() -> float:
        nonlocal refusals
        pace = Pace(JudgeConfig.model_validate({"max_concurrency": at_once}))
        start, waiting = loop.time(), iter(range(prompts))

        async def work() -> None:
            nonlocal refusals
            for _ in waiting:
                while True:
                    async with pace.turn(1):
                        wait = server(loop.time())
                        await asyncio.sleep(latency if wait is None else 0.001)
                    if wait is None:
                        pace.succeeded()
                        break
                    refusals += 1
                    pace.refused(wait)

        await asyncio.gather(*(work() for _ in range(4 * at_once)))
        return loop.time() - start

    return loop.run_until_complete(all_of_them()), refusals


@pytest.mark.parametrize("server", [windows, sliding, bucket])
@pytest.mark.parametrize(("at_once", "latency"), [(1, 0.03), (4, 0.2), (16, 0.03), (16, 1.0)])
def test_sixty_a_minute_are_had_in_at_most_a_seventh_more_than_the_ideal(
    loop: QuickLoop, server: Callable[[int, float], Server], at_once: int, latency: float
) -> None:
    """The first minute's calls come at once, the others over the next minute."""
    seconds, refusals = run(loop, server(60, 60.0), 120, at_once, latency)
    assert 60 <= seconds <= 1.15 * 60 and refusals <= 100


@pytest.mark.parametrize(
    ("limits", "tokens", "moments"),
    [
        ({}, [5_000] * 4, [0, 0, 0, 0]),
        ({"requests_per_minute": 30}, [1] * 4, [0, 2, 4, 6]),
        ({"tokens_per_minute": 6_000}, [100, 500, 200, 1], [0, 1, 6, 8]),
    ],
)
def test_limits_a_minute_space_the_calls(
    loop: QuickLoop, limits: dict[str, Any], tokens: list[int], moments: list[float]
) -> None:
    async def one_by_one() -> list[float]:
        pace, start, entered = Pace(JudgeConfig.model_validate(limits)), loop.time(), []
        for one in tokens:
            async with pace.turn(one):
                entered.append(loop.time() - start)
        return entered

    assert loop.run_until_complete(one_by_one()) == pytest.approx(moments)


def test_places_are_given_in_the_order_of_asking_and_given_back_by_a_call_that_fails(loop: QuickLoop) -> None:
    inside, most, order = 0, 0, []

    async def call(pace: Pace, number: int) -> None:
        nonlocal inside, most
        async with pace.turn(1):
            order.append(number)
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.1)
            inside -= 1
            raise ZeroDivisionError

    async def all_of_them() -> None:
        pace = Pace(JudgeConfig.model_validate({"max_concurrency": 3}))
        await asyncio.gather(*(call(pace, number) for number in range(20)), return_exceptions=True)

    loop.run_until_complete(all_of_them())
    assert most == 3 and order == list(range(20))


def test_a_rate_limit_halves_the_places_once_for_all_that_it_hit_and_successes_open_them_again(loop: QuickLoop) -> None:
    async def refused() -> list[int]:
        pace, limits = Pace(JudgeConfig.model_validate({"max_concurrency": 16})), list[int]()
        for _ in range(6):
            for _ in range(5):  # calls that were in flight together
                pace.refused(1)
            limits.append(pace.limit)
            loop.moment += 1
        for _ in range(200):
            pace.succeeded()
        return [*limits, pace.limit]

    assert loop.run_until_complete(refused()) == [8, 4, 2, 1, 1, 1, 16]

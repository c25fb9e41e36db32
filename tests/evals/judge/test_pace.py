"""The pace of calls against servers that count, in time that costs nothing."""

import asyncio
import math
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from evals.config.judge import JudgeConfig
from evals.judge.budget import Pace

Server = Callable[[float], float | None]
"""When a request comes, to the seconds that it asks to wait; None when it answers."""
Result = TypeVar("Result")


class QuickLoop(asyncio.SelectorEventLoop):
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


def run(work: Coroutine[Any, Any, Result]) -> Result:
    with asyncio.Runner(loop_factory=QuickLoop) as runner:
        return runner.run(work)


def now() -> float:
    return asyncio.get_running_loop().time()


def pace(**limits: Any) -> Pace:
    return Pace(JudgeConfig.model_validate(limits), ended=lambda: False)


def windows(calls: int, seconds: float) -> Server:
    opened, sent = -math.inf, 0

    def asked(now: float) -> float | None:
        nonlocal opened, sent
        if now >= opened + seconds:
            opened, sent = now, 0
        sent += 1
        return None if sent <= calls else math.ceil(opened + seconds - now)

    return asked


def bucket(calls: int, seconds: float) -> Server:
    held, since = float(calls), 0.0

    def asked(now: float) -> float | None:
        nonlocal held, since
        held, since = min(calls, held + (now - since) * calls / seconds), now
        if held < 1:
            return math.ceil((1 - held) * seconds / calls)
        held -= 1
        return None

    return asked


@pytest.mark.parametrize("is_told", [True, False], ids=["told", "untold"])
@pytest.mark.parametrize("limited", [windows, bucket])
@pytest.mark.parametrize(("at_once", "latency"), [(1, 0.03), (4, 0.2), (16, 0.03), (16, 1.0)])
def test_sixty_a_minute_take_little_more_than_ideal(limited: Any, at_once: int, latency: float, is_told: bool) -> None:
    """The first minute's calls come at once, the others over the next minute.

    At most a seventh more where the server tells how long to wait, else a fifth.
    """
    server, refusals, waiting = limited(60, 60.0), [0], iter(range(120))

    async def work(pace: Pace) -> None:
        for _ in waiting:
            wait: float | None = 0.0
            while wait is not None:
                async with pace.turn(1):
                    wait = server(now())
                    await asyncio.sleep(latency if wait is None else 0.001)
                if wait is not None:
                    refusals[0] += 1
                    pace.refused(wait if is_told else None)
            pace.succeeded()

    async def all_of_them() -> float:
        shared, start = pace(max_concurrency=at_once), now()
        await asyncio.gather(*(work(shared) for _ in range(4 * at_once)))
        return now() - start

    assert 60 <= run(all_of_them()) <= (1.15 if is_told else 1.21) * 60 and refusals[0] <= 100


@pytest.mark.parametrize(
    ("limits", "tokens", "moments"),
    [
        ({}, [5_000] * 4, [0, 0, 0, 0]),
        ({"requests_per_minute": 30}, [1] * 4, [0, 2, 4, 6]),
        ({"tokens_per_minute": 6_000}, [100, 500, 200, 1], [0, 1, 6, 8]),
    ],
)
def test_limits_a_minute_space_the_calls(limits: dict[str, Any], tokens: list[int], moments: list[float]) -> None:
    async def one_by_one() -> list[float]:
        spaced, start, entered = pace(**limits), now(), []
        for one in tokens:
            async with spaced.turn(one):
                entered.append(now() - start)
        return entered

    assert run(one_by_one()) == pytest.approx(moments)


def test_a_rate_limit_leaves_one_that_tries_then_half_the_places_and_successes_open_them_again() -> None:
    async def refused() -> list[int]:
        shared, limits = pace(max_concurrency=16), list[int]()
        for refusals in (1, 3, 1, 1):
            for _ in range(refusals):  # while no call comes through
                for _ in range(5):  # calls that were in flight together
                    shared.refused(1)
                limits.append(shared.limit)
                await asyncio.sleep(1)
            shared.succeeded()
            limits.append(shared.limit)
        for _ in range(200):
            shared.succeeded()
        return [*limits, shared.limit]

    assert run(refused()) == [1, 8, 1, 1, 1, 4, 1, 2, 1, 2, 16]

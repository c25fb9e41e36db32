"""The gate, on a clock of its own: nothing here waits."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from evals.config.judge import JudgeConfig
from evals.judge.ask.pacing import ConcurrencyLimit


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


def made(clock: Clock, **settings: Any) -> ConcurrencyLimit:
    return ConcurrencyLimit(JudgeConfig.model_validate(settings), now=lambda: clock.now, sleep=clock.sleep)


def done(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


async def entered(gate: ConcurrencyLimit, clock: Clock, tokens: list[int]) -> list[float]:
    """When each call got in, in seconds from the start; all at once are let out again."""
    start, moments = clock.now, []
    for one in tokens:
        async with gate.enter(one):
            moments.append(clock.now - start)
    return moments


def test_without_limits_nobody_waits() -> None:
    clock = Clock()
    assert done(entered(made(clock), clock, [5_000] * 4)) == [0, 0, 0, 0]


def test_requests_a_minute_are_spaced_evenly() -> None:
    clock = Clock()
    assert done(entered(made(clock, requests_per_minute=30), clock, [1] * 4)) == pytest.approx([0, 2, 4, 6])


def test_tokens_a_minute_make_the_next_wait_for_what_the_last_took() -> None:
    clock = Clock()
    assert done(entered(made(clock, tokens_per_minute=6_000), clock, [100, 500, 200, 1])) == pytest.approx([0, 1, 6, 8])


def test_no_more_are_inside_than_allowed_and_they_come_in_the_order_of_asking() -> None:
    gate, inside, most, order = made(Clock(), max_concurrency=3), 0, 0, []

    async def call(number: int) -> None:
        nonlocal inside, most
        async with gate.enter(1):
            order.append(number)
            inside += 1
            most = max(most, inside)
            for _ in range(5):
                await asyncio.sleep(0)
            inside -= 1

    async def all_of_them() -> None:
        await asyncio.gather(*(call(number) for number in range(20)))

    done(all_of_them())
    assert most == 3 and order == list(range(20))


def test_a_rate_limit_closes_the_gate_and_halves_it_once_for_all_that_it_hit() -> None:
    clock = Clock()
    gate = made(clock, max_concurrency=16)
    for _ in range(5):  # calls that were in flight together and were all refused
        gate.limited(7)
    assert gate.limit == 8
    assert done(entered(gate, clock, [1, 1])) == pytest.approx([7, 7])
    gate.limited(1)
    assert gate.limit == 4


def test_it_never_closes_for_good() -> None:
    clock = Clock()
    gate = made(clock, max_concurrency=2)
    for _ in range(10):
        gate.limited(1)
        clock.now += 1
    assert gate.limit == 1


def test_successes_open_it_again_one_by_one_up_to_the_most() -> None:
    gate = made(Clock(), max_concurrency=8)
    gate.limited(0)
    limits = []
    for _ in range(40):
        gate.succeeded()
        limits.append(gate.limit)
    assert limits[:5] == [4, 4, 4, 4, 5] and limits[-1] == 8


def test_a_call_that_fails_leaves_its_place() -> None:
    gate = made(Clock(), max_concurrency=1)

    async def twice() -> None:
        with pytest.raises(ZeroDivisionError):
            async with gate.enter(1):
                raise ZeroDivisionError
        async with gate.enter(1):
            pass

    done(asyncio.wait_for(twice(), 5))
    assert gate.limit == 1

"""The pace of calls against servers that count, in time that costs nothing."""

import asyncio
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from evals.config.judge import JudgeConfig
from evals.judge.pace import Pace

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


def sliding(calls: int, seconds: float, *, rounded: bool = False) -> Server:
    """At most so many in any span of seconds; asks to wait until the next may come, or a whole number of seconds."""
    sent: list[float] = []

    def asked(now: float) -> float | None:
        sent[:] = [moment for moment in sent if now - moment < seconds]
        if len(sent) >= calls:
            return math.ceil(sent[0] + seconds - now) if rounded else sent[0] + seconds - now
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


def run(server: Server, prompts: int, at_once: int, latency: float) -> tuple[float, list[float]]:
    """Return the seconds that a server took for so many prompts, and its refusals, in seconds from the start."""
    loop = QuickLoop()
    refusals: list[float] = []

    async def all_of_them() -> float:
        gate = Pace(JudgeConfig.model_validate({"max_concurrency": at_once}), now=loop.time)
        start, waiting = loop.time(), iter(range(prompts))

        async def work() -> None:
            for _ in waiting:
                while True:
                    async with gate.turn(1):
                        wait = server(loop.time())
                        await asyncio.sleep(latency if wait is None else 0.001)
                    if wait is None:
                        gate.succeeded()
                        break
                    refusals.append(loop.time() - start)
                    gate.refused(wait)

        await asyncio.gather(*(work() for _ in range(4 * at_once)))
        return loop.time() - start

    try:
        return loop.run_until_complete(all_of_them()), refusals
    finally:
        loop.close()


@pytest.mark.parametrize("server", [windows, sliding, bucket])
@pytest.mark.parametrize(("at_once", "latency"), [(1, 0.03), (4, 0.2), (16, 0.03), (16, 1.0)])
def test_sixty_a_minute_are_had_in_at_most_a_seventh_more_than_the_ideal(
    server: Callable[[int, float], Server], at_once: int, latency: float
) -> None:
    """The first minute's calls come at once, the others over the next minute."""
    seconds, refusals = run(server(60, 60.0), 120, at_once, latency)
    assert 60 <= seconds <= 1.15 * 60
    assert len(refusals) <= 100


@pytest.mark.parametrize("at_once", [1, 16])
def test_ten_a_second_are_had_as_fast_as_the_server_asks(at_once: int) -> None:
    seconds, _ = run(sliding(10, 1.0), 1_000, at_once, 0.03)
    assert 99 <= seconds <= 1.15 * 99
    # A server that asks to wait a whole second is given it, with what came before.
    seconds, _ = run(sliding(10, 1.0, rounded=True), 1_000, at_once, 0.03)
    assert seconds <= 1.35 * 99


def test_a_server_that_takes_few_at_once_is_not_taken_for_a_slow_one_for_long() -> None:
    gate_open: list[float] = []

    def busy_at_first(now: float) -> float | None:
        gate_open.append(now)
        return 1.0 if now < 1000.5 and len(gate_open) > 3 else None

    seconds, _ = run(busy_at_first, 500, 16, 0.01)
    assert seconds < 25


# The gate alone


@pytest.fixture
def loop() -> Iterator[QuickLoop]:
    made = QuickLoop()
    yield made
    made.close()


def made(loop: QuickLoop, **settings: Any) -> Pace:
    return Pace(JudgeConfig.model_validate(settings), now=loop.time)


def entered(loop: QuickLoop, gate: Pace, tokens: list[int]) -> list[float]:
    """When each call got in, in seconds from the start; all at once are let out again."""

    async def one_by_one() -> list[float]:
        start, moments = loop.time(), []
        for one in tokens:
            async with gate.turn(one):
                moments.append(loop.time() - start)
        return moments

    return loop.run_until_complete(one_by_one())


def test_without_limits_nobody_waits(loop: QuickLoop) -> None:
    assert entered(loop, made(loop), [5_000] * 4) == [0, 0, 0, 0]


def test_requests_a_minute_are_spaced_evenly(loop: QuickLoop) -> None:
    assert entered(loop, made(loop, requests_per_minute=30), [1] * 4) == pytest.approx([0, 2, 4, 6])


def test_tokens_a_minute_make_the_next_wait_for_what_the_last_took(loop: QuickLoop) -> None:
    assert entered(loop, made(loop, tokens_per_minute=6_000), [100, 500, 200, 1]) == pytest.approx([0, 1, 6, 8])


def test_no_more_are_inside_than_allowed_and_they_come_in_the_order_of_asking(loop: QuickLoop) -> None:
    gate, inside, most, order = made(loop, max_concurrency=3), 0, 0, []

    async def call(number: int) -> None:
        nonlocal inside, most
        async with gate.turn(1):
            order.append(number)
            inside += 1
            most = max(most, inside)
            for _ in range(5):
                await asyncio.sleep(0)
            inside -= 1

    async def all_of_them() -> None:
        await asyncio.gather(*(call(number) for number in range(20)))

    loop.run_until_complete(all_of_them())
    assert most == 3 and order == list(range(20))


def test_a_rate_limit_closes_the_gate_and_halves_it_once_for_all_that_it_hit(loop: QuickLoop) -> None:
    gate = made(loop, max_concurrency=16)
    for _ in range(5):  # calls that were in flight together and were all refused
        gate.refused(7)
    assert gate.limit == 8
    assert entered(loop, gate, [1, 1]) == pytest.approx([7, 7])
    gate.refused(1)
    assert gate.limit == 4


def test_it_never_closes_for_good(loop: QuickLoop) -> None:
    gate = made(loop, max_concurrency=2)
    for _ in range(10):
        gate.refused(1)
        loop.moment += 1
    assert gate.limit == 1


def test_successes_open_it_again_one_by_one_up_to_the_most(loop: QuickLoop) -> None:
    gate = made(loop, max_concurrency=8)
    gate.refused(0)
    limits = []
    for _ in range(40):
        gate.succeeded()
        limits.append(gate.limit)
    assert limits[:5] == [4, 4, 4, 4, 5] and limits[-1] == 8


def test_a_call_that_fails_leaves_its_place(loop: QuickLoop) -> None:
    gate = made(loop, max_concurrency=1)

    async def twice() -> None:
        with pytest.raises(ZeroDivisionError):
            async with gate.turn(1):
                raise ZeroDivisionError
        async with gate.turn(1):
            pass

    loop.run_until_complete(asyncio.wait_for(twice(), 5))
    assert gate.limit == 1

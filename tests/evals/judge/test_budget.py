"""A budget is never exceeded by a server that keeps to its limits, and by others as little as can be."""

import asyncio
import random
from typing import Any

import pytest

from evals.config.judge import JudgeConfig, PriceConfig
from evals.judge.budget import TEMPLATE, Account, Budget, Tokens, Usage, cost

PRICE = PriceConfig(input=2.5, output=10.0)
PROMPT = "x" * 744
MODEL = "cohere:m"


def account(budget: Budget | None = None, **limits: float) -> Account:
    values: dict[str, Any] = {"model": MODEL, "max_output_tokens": 100, "prices": {MODEL: {"input": 1, "output": 1}}}
    config = JudgeConfig.model_validate({**values, "budget": limits})
    return Account(config, budget or Budget(config.budget))


async def call(book: Account, spent: Tokens | None, *, lasts: float = 0.0) -> bool:
    """Make a call that costs so much; return False where the budget does not hold it."""
    if not await book.reserve(PROMPT):
        return False
    await asyncio.sleep(lasts)
    book.settle(PROMPT, spent)
    return True


@pytest.mark.parametrize(("read", "written", "usd"), [(0, 0, 0.0), (1_000_000, 0, 2.5), (400_000, 100_000, 2.0)])
def test_tokens_cost_what_the_table_says_for_a_million(read: int, written: int, usd: float) -> None:
    assert cost(PRICE, read, written) == usd
    assert cost(None, read, written) is None


def test_what_was_spent_is_counted_not_what_was_set_aside() -> None:
    book = account()
    assert asyncio.run(call(book, (700, 30)))
    assert book.usage == Usage(calls=1, tokens_in=700, tokens_out=30, usd=730 / 1e6)


def test_calls_end_at_their_limit_and_the_reason_stays() -> None:
    book = account(calls=2)
    assert [asyncio.run(call(book, (1, 1))) for _ in range(4)] == [True, True, False, False]
    book.stop("something else")
    assert book.usage.calls == 2 and book.usage.stopped == "the budget of 2 calls is spent"


def test_dollars_end_before_a_call_that_could_exceed_them() -> None:
    book = account(usd=0.0025)
    assert [asyncio.run(call(book, (900, 50))) for _ in range(3)] == [True, True, False]
    assert book.usage.stopped == (
        "the budget of 0.0025 USD does not hold another call (0.0019 spent; a call may take 0.0011)"
    )


def test_a_call_that_may_have_been_billed_is_held_against_the_budget() -> None:
    book = account(usd=0.0025)
    assert [asyncio.run(call(book, None)) for _ in range(3)] == [True, True, False]
    assert (book.usage.unanswered, book.usage.tokens) == (2, 0)
    assert "at most 0.0022 by 2 requests without an answer" in book.usage.stopped


@pytest.mark.parametrize("seed", range(5))
def test_sixteen_at_once_end_without_exceeding_and_with_less_than_one_call_left(seed: int) -> None:
    """Sums of prices leave remainders, and nobody waits for ever."""
    draw, book = random.Random(seed), account(usd=0.05)

    async def one() -> bool:
        return await call(book, (draw.randint(1, 1000), draw.randint(1, 100)), lasts=draw.random() / 500)

    async def many() -> list[bool]:
        async with asyncio.timeout(20):
            return [made for _ in range(20) for made in await asyncio.gather(*(one() for _ in range(16)))]

    made = asyncio.run(many())
    assert not all(made) and book.usage.calls == sum(made)
    most = (len(PROMPT) + TEMPLATE + 100) / 1e6
    assert 0.05 - most < (book.usage.usd or 0) <= 0.05


def test_two_models_draw_on_one_budget() -> None:
    first = account(calls=3)
    second = account(first.budget)
    assert [asyncio.run(call(book, (1, 1))) for book in (first, second, first, second)] == [True, True, True, False]
    whole = first.budget.usage
    assert (whole.calls, whole.tokens, whole.stopped) == (3, 6, "the budget of 3 calls is spent")
    assert whole.usd == pytest.approx(6e-6)


def test_after_an_answer_over_its_limit_no_call_starts_before_the_reserve_is_what_was_seen() -> None:
    """A server that writes 200,000 tokens where 100 are allowed, with sixteen at once."""
    book, at_once, peak = account(usd=0.5), 0, 0

    async def one() -> bool:
        nonlocal at_once, peak
        if not await book.reserve(PROMPT):
            return False
        at_once += 1
        peak = max(peak, at_once)
        await asyncio.sleep(0.001)
        at_once -= 1
        book.settle(PROMPT, (1000, 200_000))
        return True

    async def many() -> list[bool]:
        return [await one(), *await asyncio.gather(*(one() for _ in range(16)))]

    assert asyncio.run(many()).count(True) == 2
    assert peak == 1 and (book.usage.usd or 0) <= 0.5


def test_calls_in_flight_are_held_at_what_was_seen() -> None:
    book = account(usd=1.0)

    async def overlapping() -> bool:
        for _ in range(4):
            await book.reserve(PROMPT)
        book.settle(PROMPT, (1000, 240_000))
        waiting = asyncio.ensure_future(book.reserve(PROMPT))
        await asyncio.sleep(0.01)
        started = waiting.done()
        for _ in range(3):
            book.settle(PROMPT, (1000, 100))
        assert await waiting
        return started

    assert not asyncio.run(overlapping())


def test_a_server_that_reads_more_than_a_token_a_byte_is_reserved_for_as_it_counts() -> None:
    book = account(usd=0.02)
    assert [asyncio.run(call(book, (8_000, 10))) for _ in range(4)] == [True, True, False, False]

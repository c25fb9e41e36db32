import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.judge.budget import Ledger, cost
from evals.judge.config import BudgetConfig, PriceConfig

PRICE = PriceConfig(input=2.5, output=10.0)


def ledger(price: PriceConfig | None = None, **limits: float) -> Ledger:
    return Ledger(BudgetConfig.model_validate(limits), price)


@pytest.mark.parametrize(("read", "written", "usd"), [(0, 0, 0.0), (1_000_000, 0, 2.5), (400_000, 100_000, 2.0)])
def test_tokens_cost_what_the_table_says_for_a_million(read: int, written: int, usd: float) -> None:
    assert cost(PRICE, read, written) == usd
    assert cost(None, read, written) is None


def test_what_was_spent_is_counted_not_what_was_estimated() -> None:
    book = ledger(PRICE)
    assert book.reserve(1000, 100)
    book.settle((1000, 100), (700, 300))
    assert (book.usage.calls, book.usage.tokens_in, book.usage.tokens_out) == (1, 700, 300)
    assert book.usage.usd == pytest.approx((700 * 2.5 + 300 * 10) / 1e6)


def test_calls_end_at_their_limit_and_the_reason_stays() -> None:
    book = ledger(calls=2)
    assert [book.reserve(1, 1) for _ in range(4)] == [True, True, False, False]
    assert book.usage.calls == 2 and book.usage.stopped == "the budget of 2 calls is spent"
    book.stop("something else")
    assert book.usage.stopped == "the budget of 2 calls is spent"


def test_calls_in_flight_count_against_the_limit_of_tokens() -> None:
    book = ledger(tokens=250)
    assert book.reserve(90, 10) and book.reserve(90, 10)
    assert not book.reserve(90, 10)
    assert "250 tokens" in book.usage.stopped and "(0 spent)" in book.usage.stopped


def test_a_call_that_cost_less_than_estimated_leaves_room_for_the_next() -> None:
    book = ledger(tokens=250)
    for _ in range(4):
        assert book.reserve(90, 10)
        book.settle((90, 10), (40, 10))
    assert book.usage.tokens == 200 and not book.reserve(90, 10)


def test_dollars_end_at_their_limit() -> None:
    book = ledger(PRICE, usd=0.01)
    assert book.reserve(2000, 400)
    book.settle((2000, 400), (2000, 400))
    assert not book.reserve(2000, 400)
    assert book.usage.stopped == "the budget of 0.01 USD does not hold another call (0.0090 spent)"


def test_a_budget_of_nothing_allows_nothing() -> None:
    assert not ledger(calls=0).reserve(1, 1)
    assert not ledger(tokens=0).reserve(1, 1)
    assert not ledger(PRICE, usd=0).reserve(1, 1)


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 100)), max_size=60), st.integers(0, 5_000))
def test_honest_estimates_never_overrun_a_limit(calls: list[tuple[int, int]], limit: int) -> None:
    book = ledger(tokens=limit)
    for tokens in calls:
        if book.reserve(*tokens):
            book.settle(tokens, tokens)
    assert book.usage.tokens <= limit

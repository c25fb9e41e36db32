import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.config.judge import BudgetConfig, PriceConfig
from evals.judge.ask.budget import Ledger, cost

PRICE = PriceConfig(input=2.5, output=10.0)


def ledger(price: PriceConfig | None = None, **limits: float) -> Ledger:
    return Ledger(BudgetConfig.model_validate(limits), price)


@pytest.mark.parametrize(("read", "written", "usd"), [(0, 0, 0.0), (1_000_000, 0, 2.5), (400_000, 100_000, 2.0)])
def test_tokens_cost_what_the_table_says_for_a_million(read: int, written: int, usd: float) -> None:
    assert cost(PRICE, read, written) == usd
    assert cost(None, read, written) is None


def test_what_was_spent_is_counted_not_what_was_set_aside() -> None:
    book = ledger(PRICE)
    assert book.reserve((1000, 100)) == "enough"
    book.settle((1000, 100), (700, 300))
    assert (book.usage.calls, book.usage.tokens_in, book.usage.tokens_out) == (1, 700, 300)
    assert book.usage.usd == pytest.approx((700 * 2.5 + 300 * 10) / 1e6)


def test_calls_end_at_their_limit_and_the_reason_stays() -> None:
    book = ledger(calls=2)
    assert [book.reserve((1, 1)) for _ in range(4)] == ["enough", "enough", "none", "none"]
    assert book.usage.calls == 2 and book.usage.stopped == "the budget of 2 calls is spent"
    book.stop("something else")
    assert book.usage.stopped == "the budget of 2 calls is spent"


def test_a_call_waits_while_those_in_flight_may_leave_it_room() -> None:
    book = ledger(tokens=250)
    assert book.reserve((90, 10)) == book.reserve((90, 10)) == "enough"
    assert book.reserve((90, 10)) == "in flight"
    book.settle((90, 10), (40, 10))
    assert book.reserve((90, 10)) == "enough"
    book.settle((90, 10), (90, 10))
    book.settle((90, 10), (90, 10))
    assert book.reserve((90, 10)) == "none"
    assert book.usage.stopped == (
        "the budget of 250 tokens does not hold another call (250 spent; a call may take 100)"
    )


def test_a_call_that_cost_less_than_it_might_leaves_room_for_the_next() -> None:
    book = ledger(tokens=250)
    for _ in range(4):
        assert book.reserve((90, 10)) == "enough"
        book.settle((90, 10), (40, 10))
    assert book.usage.tokens == 200 and book.reserve((90, 10)) == "none"


def test_dollars_end_at_their_limit() -> None:
    book = ledger(PRICE, usd=0.01)
    assert book.reserve((2000, 400)) == "enough"
    book.settle((2000, 400), (2000, 400))
    assert book.reserve((2000, 400)) == "none"
    assert book.usage.stopped == (
        "the budget of 0.01 USD does not hold another call (0.0090 spent; a call may take 0.0090)"
    )


def test_a_call_without_an_answer_is_held_at_its_most_and_not_said_to_be_spent() -> None:
    book = ledger(tokens=250)
    assert book.reserve((90, 60)) == "enough"
    book.settle((90, 60), None)
    assert (book.usage.tokens, book.usage.unanswered) == (0, 1)
    assert book.reserve((90, 60)) == "none"
    assert "(0 spent, at most 150 by 1 requests without an answer; a call may take 150)" in book.usage.stopped


def test_a_budget_of_nothing_allows_nothing() -> None:
    assert ledger(calls=0).reserve((1, 1)) == "none"
    assert ledger(tokens=0).reserve((1, 1)) == "none"
    assert ledger(PRICE, usd=0).reserve((1, 1)) == "none"


CALLS = st.lists(st.tuples(st.integers(0, 500), st.integers(0, 100), st.floats(0, 1), st.booleans()), max_size=60)


@given(CALLS, st.integers(0, 5_000), st.integers(1, 8))
def test_no_limit_is_passed_and_less_than_one_call_is_left(
    calls: list[tuple[int, int, float, bool]], limit: int, at_once: int
) -> None:
    """Calls that cost a share of the most they may, so many of them in flight, settled in the order of sending."""
    book, flying = ledger(tokens=limit), list[tuple[tuple[int, int], tuple[int, int]]]()
    refused: tuple[int, int] | None = None
    for read, written, share, _ in calls:
        most = read, written
        if len(flying) == at_once:
            book.settle(*flying.pop(0))
        while (room := book.reserve(most)) == "in flight":
            book.settle(*flying.pop(0))
        if room == "none":
            refused = most
            break
        flying.append((most, (int(read * share), int(written * share))))
    for one in flying:
        book.settle(*one)
    assert book.usage.tokens <= limit
    assert refused is None or book.usage.tokens + sum(refused) > limit


@pytest.mark.parametrize(
    ("limits", "room"), [({"calls": 1}, "none"), ({"tokens": 1099}, "none"), ({"usd": 0.0044}, "none"), ({}, "enough")]
)
def test_a_budget_is_for_all_models_at_their_own_prices(limits: dict[str, float], room: str) -> None:
    first = ledger(PRICE, **limits)
    assert first.reserve((900, 100)) == "enough"
    first.settle((900, 100), (900, 100))
    second = Ledger(BudgetConfig.model_validate(limits), PriceConfig(input=12.5, output=12.5), first)
    # 0.00325 USD were spent, and 100 tokens of the second model cost 0.00125.
    assert second.reserve((90, 10)) == room
    second.stop("over")
    assert (first.usage.calls, second.whole.calls, first.whole.stopped != "") == (1, 1 + (room == "enough"), True)
    assert first.whole.usd == pytest.approx(0.00325)


def test_the_price_of_all_models_is_known_where_each_is() -> None:
    first = ledger(PRICE)
    assert Ledger(BudgetConfig.model_validate({}), None, first).whole.usd is None

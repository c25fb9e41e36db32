from evals.config.judge import BudgetConfig
from evals.judge.ask.budget import Ledger
from evals.judge.ask.faults import Fault
from evals.judge.ask.health import IN_A_ROW, Health

REVOKED = Fault(kind="hopeless", type="Unauthorized", message="status 401")
DOWN = Fault(kind="transient", type="ConnectError", message="nobody listens")
ODD = Fault(kind="refused", type="BadRequest", message="status 400")
TOO_LONG = Fault(kind="refused", type="BadRequest", message="too long", of_prompt=True)


def health(at_once: int = 4, *, proved: bool = True, judged: bool = True) -> tuple[Health, Ledger]:
    ledger = Ledger(BudgetConfig.model_validate({}), None)
    if judged:
        ledger.settle((0, 0), (1, 1))
    made = Health("x:y", at_once, ledger)
    made.proved = proved
    return made, ledger


def test_the_first_call_decides_unless_its_prompt_is_to_blame() -> None:
    for fault, said in ((DOWN, "cannot be reached: m (8 attempts)"), (ODD, "failed at the first call: m (8 attempts)")):
        made, ledger = health(proved=False, judged=False)
        made.failed(fault, "m (8 attempts)")
        assert str(made.fatal) == ledger.usage.stopped == f"the judge x:y {said}"
    made, ledger = health(proved=False, judged=False)
    made.refused(REVOKED)
    assert str(made.fatal) == "the judge x:y refuses every call: status 401"
    made, ledger = health(proved=False, judged=False)
    made.failed(TOO_LONG, "too long")
    assert made.fatal is None and not ledger.usage.stopped


def test_as_many_refusals_as_calls_in_flight_end_nothing_and_two_more_do() -> None:
    made, ledger = health(at_once=4)
    for _ in range(5):
        made.refused(REVOKED)
    made.judged()
    for _ in range(5):
        made.refused(REVOKED)
    assert not ledger.usage.stopped
    made.refused(REVOKED)
    assert "refuses every call" in ledger.usage.stopped and made.fatal is None


def test_failures_of_every_kind_are_counted_together_until_a_verdict() -> None:
    made, ledger = health()
    for _ in range(IN_A_ROW // 2 - 1):
        made.malformed("Refusal: no")
        made.failed(DOWN, "down")
    made.judged()
    for _ in range(IN_A_ROW // 2 - 1):
        made.failed(DOWN, "down")
        made.malformed("Refusal: no")
    assert not str(ledger.usage.stopped)
    made.malformed("Refusal: no")
    made.malformed("Refusal: no")
    assert str(ledger.usage.stopped) == "the judge x:y failed 32 times in a row, at last: Refusal: no"
    assert made.fatal is None


def test_without_a_single_verdict_it_is_an_error() -> None:
    made, _ = health(judged=False)
    for _ in range(IN_A_ROW):
        made.malformed("EmptyAnswer: the answer is empty")
    assert "failed 32 times in a row, at last: EmptyAnswer" in str(made.fatal)


def test_with_many_calls_at_once_more_may_fail() -> None:
    made, ledger = health(at_once=100)
    for _ in range(199):
        made.malformed("x")
    assert not ledger.usage.stopped
    made.malformed("x")
    assert ledger.usage.stopped


def test_a_server_that_lets_nothing_through_ends_judging() -> None:
    made, ledger = health()
    made.limited(181, "status 429")
    assert ledger.usage.stopped == "the judge x:y let no call through for 181 s (judge.deadline_s): status 429"

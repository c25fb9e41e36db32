import json
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import pytest

from tests.support.chat_faults import FAULTS, SPOKEN, Planned, When, said, too_many

RIGHT = json.dumps({"reason": "r", "classifications": [{"attributed": 1}], "verdict": 0, "rating": 2})
PROMPTS = [f"prompt {number}" for number in range(2000)]


def hits(when: When) -> list[int]:
    planned = Planned(fault=FAULTS["500"], when=when)
    for prompt in PROMPTS:
        planned.falls_due(prompt)
    assert planned.requests == len(PROMPTS)
    return planned.hits


def test_falls_due_by_number() -> None:
    assert hits(When(calls=range(3, 6))) == [3, 4, 5]
    assert hits(When(calls={1})) == [1]
    assert hits(When()) == list(range(1, len(PROMPTS) + 1))


@pytest.mark.parametrize("by_prompt", [True, False])
def test_falls_due_by_share(by_prompt: bool) -> None:
    struck = hits(When(share=0.1, by_prompt=by_prompt))
    assert len(struck) == pytest.approx(200, abs=45)
    assert struck == hits(When(share=0.1, by_prompt=by_prompt))
    assert struck != hits(When(share=0.1, by_prompt=by_prompt, seed=1))


def test_a_repeated_prompt_fails_again_only_if_it_is_drawn_by_prompt() -> None:
    assert len({When(share=0.5, by_prompt=True).due(number, "p") for number in range(50)}) == 1
    assert len({When(share=0.5).due(number, "p") for number in range(50)}) == 2


def test_a_date_lies_as_many_seconds_ahead() -> None:
    after = parsedate_to_datetime(too_many(5, as_date=True).headers()["Retry-After"]) - datetime.now(UTC)
    assert 4.9 <= after.total_seconds() <= 6
    assert too_many(2.5).headers() == {"Retry-After": "2.5"}
    assert too_many().headers() == {}


@pytest.mark.parametrize("name", SPOKEN)
def test_what_the_model_says_is_not_what_is_right(name: str) -> None:
    assert said(name, RIGHT) != RIGHT


def test_what_the_model_says() -> None:
    wrong = {"reason": "r", "classifications": [{"attributed": 7}], "verdict": 7, "rating": 7}
    assert json.loads(said("verdict 7", RIGHT)) == wrong
    assert said("cut", RIGHT) == RIGHT[: len(RIGHT) // 2]
    assert said("fenced", RIGHT) == f"```json\n{RIGHT}\n```"
    assert RIGHT in said("prose around", RIGHT)
    assert said("empty", RIGHT) == ""

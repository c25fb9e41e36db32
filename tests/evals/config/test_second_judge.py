"""The settings of a second judge: what it takes over from the first, and combinations that are refused."""

from typing import Any

import pytest
from pydantic import ValidationError

from evals.config.judge import JudgeConfig

SECOND = {"model": "cohere:large", "sample": 0.1}


def judge(**values: Any) -> JudgeConfig:
    return JudgeConfig.model_validate({"model": "cohere:small", **values})


def test_it_takes_over_what_fits_its_provider() -> None:
    where = {"base_url": "http://localhost:1/v1", "api_key_env": "KEY"}
    first, second = judge(second=SECOND, **where, identity="mine", max_output_tokens=100, temperature=0.5).by_tier
    assert (first.model, first.sample, first.identity) == ("cohere:small", "all", "mine")
    assert (first.base_url, first.api_key_env) == tuple(where.values())
    assert (second.model, second.sample, second.base_url, second.api_key_env) == ("cohere:large", 0.1, *where.values())
    assert (second.identity, second.temperature, second.max_output_tokens) == (None, 0.5, 100)
    assert first.second.model is None and second.second.model is None
    _, other = judge(second={"model": "openai:largest", "sample": "0.05"}, **where).by_tier
    assert (other.sample, other.base_url, other.api_key_env) == (0.05, None, None)


@pytest.mark.parametrize("sample", ["all", 0.5])
def test_in_rounds_it_may_come_to_judge_everything(sample: Any) -> None:
    config = judge(second={"model": "cohere:large", "sample": sample}, stop={"margin": 0.03}, rejudge=3)
    assert [one.sample for one in config.by_tier] == ["all", sample]
    assert [one.stop.margin for one in config.by_tier] == [None, 0.03]
    assert [one.rejudge for one in config.by_tier] == [0, 3]


def test_without_it_the_judge_is_the_only_one() -> None:
    assert judge().by_tier == (judge(),)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"second": {"model": "cohere:large"}}, "cohere:large judges every query, so that no other is needed"),
        (
            {"second": SECOND, "sample": 0.5},
            "cohere:small judges everything that cohere:large could be asked, and what it says corrects the mean; "
            "write sample: 0.5 into judge.second",
        ),
        ({"second": SECOND, "model": None}, "expected the judge that judges everything in judge.model"),
        ({"second": {"sample": 0.1}}, "second.sample is 0.1, but second.model names no stronger judge"),
        ({"second": {"model": "large", "sample": 0.1}}, "expected provider:model"),
        (
            {"second": SECOND, "budget": {"usd": 1}, "prices": {"cohere:small": {"input": 1, "output": 1}}},
            "prices has no entry for 'cohere:large'",
        ),
    ],
)
def test_what_cannot_be_is_refused(values: dict[str, Any], text: str) -> None:
    with pytest.raises(ValidationError) as caught:
        judge(**values)
    assert text in str(caught.value)

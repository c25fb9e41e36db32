"""The settings of a cascade: what a tier takes over from the judge, and combinations that are refused."""

from typing import Any

import pytest
from pydantic import ValidationError

from evals.config.judge import JudgeConfig

SMALL, LARGE = {"model": "cohere:small"}, {"model": "cohere:large", "sample": 0.1}


def judge(**values: Any) -> JudgeConfig:
    return JudgeConfig.model_validate(values)


def test_the_first_tier_is_the_judge_and_the_others_take_over_what_fits_their_provider() -> None:
    config = judge(
        tiers=[SMALL, {**LARGE, "temperature": 0.5}],
        base_url="http://localhost:1/v1",
        api_key_env="KEY",
        identity="mine",
        max_output_tokens=100,
    )
    first, second = config.by_tier
    assert config.model == first.model == "cohere:small"
    assert (first.sample, first.base_url, first.identity) == ("all", "http://localhost:1/v1", "mine")
    assert (second.sample, second.base_url, second.identity, second.temperature) == (0.1, first.base_url, None, 0.5)
    assert all(not tier.tiers for tier in config.by_tier)
    assert judge(tiers=[SMALL, {"model": "cohere:large"}], sample="auto").by_tier[1].sample == "auto"
    _, other = judge(tiers=[SMALL, {"model": "openai:largest", "sample": "0.05"}], api_key_env="KEY").by_tier
    assert (other.sample, other.base_url, other.api_key_env) == (0.05, None, None)


@pytest.mark.parametrize("sample", ["all", 0.5])
def test_in_rounds_the_last_tier_may_come_to_judge_everything(sample: Any) -> None:
    config = judge(tiers=[SMALL, {"model": "cohere:large", "sample": sample}], stop={"margin": 0.03})
    assert [tier.sample for tier in config.by_tier] == ["all", sample]
    assert config.by_tier[-1].stop.margin == 0.03


def test_without_tiers_the_judge_is_the_only_one() -> None:
    config = judge(model="cohere:small")
    assert config.by_tier == (config,)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"tiers": [SMALL, LARGE, LARGE]}, "expected two judges, the cheap one first, got 3"),
        ({"tiers": [SMALL]}, "expected two judges, the cheap one first, got 1"),
        ({"tiers": [SMALL, {"model": "cohere:large"}]}, "cohere:large judges every query"),
        (
            {"tiers": [{**SMALL, "sample": 0.5}, LARGE]},
            "cohere:small judges everything that cohere:large could be asked, and what it says corrects the mean; "
            "leave out its sample, got 0.5",
        ),
        ({"tiers": [SMALL, LARGE], "model": "cohere:other"}, "the first of tiers is 'cohere:small'"),
        ({"tiers": [SMALL, {"model": "large", "sample": 0.1}]}, "expected provider:model"),
        (
            {"tiers": [{**SMALL, "sample": 0.5}, LARGE], "stop": {"margin": 0.03}},
            "leave out its sample, got 0.5",
        ),
        (
            {"tiers": [SMALL, LARGE], "budget": {"usd": 1}, "prices": {"cohere:small": {"input": 1, "output": 1}}},
            "prices has no entry for 'cohere:large'",
        ),
    ],
)
def test_what_is_no_cascade_is_refused(values: dict[str, Any], text: str) -> None:
    with pytest.raises(ValidationError) as caught:
        judge(**values)
    assert text in str(caught.value)

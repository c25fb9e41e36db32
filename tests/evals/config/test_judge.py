from typing import Any

import pytest
from pydantic import ValidationError

from evals.config.judge import JudgeConfig


def config(**values: Any) -> JudgeConfig:
    return JudgeConfig.model_validate(values)


def test_without_a_model_there_is_no_judge() -> None:
    assert config(model="").model is None
    assert config().model is None and config().provider == config().name == "" and config().price is None


@pytest.mark.parametrize(
    ("model", "provider", "name"),
    [
        ("cohere:command-a-03-2025", "cohere", "command-a-03-2025"),
        ("ollama:llama3:8b", "ollama", "llama3:8b"),
        ("python:pkg.module:make", "python", "pkg.module:make"),
    ],
)
def test_a_model_is_provider_and_name(model: str, provider: str, name: str) -> None:
    assert (config(model=model).provider, config(model=model).name) == (provider, name)


@pytest.mark.parametrize("model", ["command-a", "cohere:", ":command", "python:module"])
def test_anything_else_is_refused(model: str) -> None:
    with pytest.raises(ValidationError, match="expected p"):
        config(model=model)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -1), ("max_concurrency", 0), ("requests_per_minute", 0), ("rejudge", -1),
        ("base_url", "localhost:8000"), ("base_url", "http://user:secret@host"),
        ("budget", {"calls": -1}), ("budget", {"dollars": 1}), ("prices", {"m": {"input": -1, "output": 0}}),
    ],
)  # fmt: skip
def test_values_out_of_range_are_refused(field: str, value: Any) -> None:
    with pytest.raises(ValidationError):
        config(**{field: value})


def test_a_budget_in_dollars_needs_a_price() -> None:
    with pytest.raises(ValidationError, match=r"prices has no entry for 'cohere:c'.*cohere:c: \{input: 2.5"):
        config(model="cohere:c", budget={"usd": 1})
    priced = config(model="cohere:c", budget={"usd": 1}, prices={"cohere:c": {"input": 2.5, "output": 10}})
    assert priced.price is not None and priced.price.output == 10

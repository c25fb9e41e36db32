import os
from collections.abc import Iterator
from typing import Any

import pytest
from langsmith import utils

from evals.config.telemetry import OFFLINE, SILENCED, silence


def forget() -> None:
    """Let LangSmith read the environment again."""
    read: Any = utils.get_env_var
    read.cache_clear()


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in (*SILENCED, *OFFLINE):
        monkeypatch.setenv(name, "as the user has it")
    forget()
    yield
    forget()


def test_what_phones_home_is_switched_off_whatever_the_environment_says() -> None:
    silence(hub=False)
    assert {name: os.environ[name] for name in SILENCED | OFFLINE} == SILENCED | OFFLINE


def test_the_hub_stays_reachable_for_who_asks_for_it() -> None:
    silence(hub=True)
    assert {name: os.environ[name] for name in SILENCED} == SILENCED
    assert {os.environ[name] for name in OFFLINE} == {"as the user has it"}


@pytest.mark.parametrize(
    "name", ["LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING", "LANGCHAIN_TRACING_V2"]
)
def test_langsmith_does_not_trace(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for other in SILENCED:
        monkeypatch.delenv(other)
    monkeypatch.setenv(name, "true")
    assert utils.tracing_is_enabled()
    forget()
    silence(hub=False)
    assert not utils.tracing_is_enabled()

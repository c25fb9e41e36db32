"""Verdicts are kept for the model that gave them, and for no other of the same name."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from evals.config.judge import JudgeConfig
from evals.judge.judge import Judge
from evals.judge.tasks import PRECISION
from evals.judge.verdicts import ChunkVerdict
from tests.support.judged import observe, oracle
from tests.support.openai_server import OpenAIChatServer

FACTORY = """
import os
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

class Silent(FakeListChatModel):
    @property
    def _identifying_params(self):
        return {}

def answers():
    return [os.environ["SAID"]]

def telling():
    return FakeListChatModel(responses=answers())

def silent():
    return Silent(responses=answers())
"""
USEFUL, USELESS = '{"reason": "", "verdict": 1}', '{"reason": "", "verdict": 0}'
RUN = [observe("pose", ["forward"])]


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "two_judges.py").write_text(FACTORY)
    monkeypatch.syspath_prepend(tmp_path)


def judged(tmp_path: Path, env: Mapping[str, str] | None = None, **values: Any) -> tuple[int, int]:
    """The verdict, and how many calls it took."""
    config = JudgeConfig.model_validate({"cache_path": tmp_path / "verdicts.sqlite", **values})
    judge = Judge.open(config, env or {})
    try:
        said = judge.judge([PRECISION], RUN)
    finally:
        judge.close()
    verdict = said.verdicts["pose", "forward"]
    assert isinstance(verdict, ChunkVerdict)
    return verdict.verdict, said.usage.calls


def test_a_factory_that_returns_another_model_is_asked_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = "python:two_judges:telling"
    for said, expected in ((USEFUL, (1, 1)), (USELESS, (0, 1)), (USEFUL, (1, 0))):
        monkeypatch.setenv("SAID", said)
        assert judged(tmp_path, model=model) == expected


def test_a_model_that_tells_nothing_is_not_cached_and_that_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SAID", USEFUL)
    with caplog.at_level(logging.WARNING):
        assert judged(tmp_path, model="python:two_judges:silent") == (1, 1)
    assert [record.message for record in caplog.records] == [
        "the verdicts of judge.model 'python:two_judges:silent' are not kept, and are bought again by every run: its "
        "class Silent does not tell its parameters (_identifying_params). Set judge.identity to a name of your own, "
        "and to another when the model changes"
    ]
    assert judged(tmp_path, model="python:two_judges:silent") == (1, 1)
    assert not (tmp_path / "verdicts.sqlite").exists()


def test_a_name_of_the_users_stands_for_such_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {"model": "python:two_judges:silent"}
    monkeypatch.setenv("SAID", USEFUL)
    assert judged(tmp_path, **asked, identity="a") == (1, 1)
    monkeypatch.setenv("SAID", USELESS)
    assert judged(tmp_path, **asked, identity="a") == (1, 0)
    assert judged(tmp_path, **asked, identity="b") == (0, 1)


@pytest.mark.parametrize("name", ["OPENAI_API_BASE", "OPENAI_BASE_URL"])
def test_another_address_in_the_environment_is_another_judge(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with OpenAIChatServer(oracle()) as right, OpenAIChatServer(oracle(false_useless=1.0)) as wrong:
        for server, expected in ((right, (1, 1)), (wrong, (0, 1)), (right, (1, 0))):
            monkeypatch.setattr(server, "models", ("m",))
            monkeypatch.setenv(name, server.base_url)
            assert judged(tmp_path, {"OPENAI_API_KEY": server.key}, model="openai:m") == expected

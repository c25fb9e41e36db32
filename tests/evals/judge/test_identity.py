from typing import Any

import pytest
from langchain_cohere import ChatCohere
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.outputs import ChatResult
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from evals.judge.chat import identity


class Silent(BaseChatModel):
    """Says nothing of itself."""

    which: str = "a"

    @property
    def _llm_type(self) -> str:
        return "silent"

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError


class Telling(Silent):
    said: Any = None
    endpoint: str = "https://me:secret@host:1/v1/?key=secret"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"which": self.which, "said": self.said, "api_key": "secret"}


class Other(Telling):
    pass


def openai(model: str = "m", **values: Any) -> ChatOpenAI:
    return ChatOpenAI(model=model, api_key=SecretStr("sk-1"), **values)


def test_class_name_parameters_and_address_tell_models_apart() -> None:
    models = [
        openai(),
        openai("n"),
        openai(temperature=0.5),
        openai(top_p=0.5),
        openai(base_url="http://localhost:1/v1"),
        ChatCohere(model="m", cohere_api_key=SecretStr("k")),
        ChatCohere(model="m", cohere_api_key=SecretStr("k"), base_url="http://localhost:1"),
        FakeListChatModel(responses=["a"]),
        FakeListChatModel(responses=["b"]),
        Telling(),
        Telling(which="b"),
        Telling(endpoint="http://host:2"),
        Other(),
    ]
    known = [identity(model) for model in models]
    assert None not in known and len({str(one) for one in known}) == len(models)


def test_the_same_model_built_twice_is_the_same() -> None:
    assert identity(openai()) == identity(openai())
    assert identity(Telling(said=[1, {"b": 2}])) == identity(Telling(said=[1, {"b": 2}]))


@pytest.mark.parametrize("name", ["OPENAI_API_BASE", "OPENAI_BASE_URL"])
def test_an_address_of_the_environment_is_that_of_the_model(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "http://localhost:1/v1")
    known = identity(openai())
    assert known is not None and known["address"] == "http://localhost:1/v1"


def test_a_class_that_does_not_tell_its_parameters_is_not_known() -> None:
    assert identity(Silent()) is None
    assert identity(Telling(said=object())) is None


def test_secrets_are_no_part_of_it() -> None:
    assert identity(openai()) == identity(ChatOpenAI(model="m", api_key=SecretStr("sk-2")))
    known = identity(Telling())
    assert known is not None and known["address"] == "https://host:1/v1" and "secret" not in str(known)
    assert identity(Telling(said={"max_tokens": 1, "token": "x"})) == identity(Telling(said={"max_tokens": 1}))
    assert identity(Telling(said={"max_tokens": 1})) != identity(Telling(said={"max_tokens": 2}))

"""Embeddings of every provider: what is sent, what comes back, and every fault as an EmbeddingError without the key."""

import logging
import math
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from langchain_core.embeddings import Embeddings

from retrievers.config import EMBEDDING_PROVIDERS, EmbeddingConfig
from retrievers.embedding import models, tokens
from retrievers.embedding.models import CheckedEmbeddings, StaticEmbeddings, checked, make_embeddings
from retrievers.embedding.tokens import count_tokens, token_parts, tokenizer
from retrievers.errors import ConfigError, EmbeddingError, MissingKeyError
from tests.support import cohere_server, openai_embedding_server
from tests.support.child import ROOT
from tests.support.clock import ATTEMPTS, patient
from tests.support.cohere_server import CohereServer, vector
from tests.support.collections import TableEmbeddings
from tests.support.loopback import Fault, Reply, free_port
from tests.support.openai_embedding_server import OpenAIEmbeddingServer

HELLO = [0.6, 0.8]


def config(**values: Any) -> EmbeddingConfig:
    return EmbeddingConfig.model_validate(values)


# The packaged model


def test_the_packaged_model_makes_unit_vectors_of_256_of_any_characters() -> None:
    packaged = make_embeddings(config(), {})
    one, other = packaged.embed_documents(["robots walk", "a topic is a bus"])
    assert math.hypot(*one) == pytest.approx(1, abs=1e-5)
    assert one == packaged.embed_query("robots walk") == packaged.embed_queries(["robots walk"])[0] != other
    texts = ["日本語", "🤖", "\x00", "\u200b", "a" * 20_000, "é", "e\u0301"]
    assert {len(v) for v in packaged.embed_documents(texts)} == {256} == {len(one)}
    assert packaged.embed_documents([]) == packaged.embed_queries([]) == []
    with pytest.raises(EmbeddingError, match=r"wordllama:l2_supercat_256 made no finite vector for ''"):
        packaged.embed_documents(["robots", ""])
    with pytest.raises(EmbeddingError):
        packaged.embed_query("\ud800")


def test_a_text_of_megabytes_is_counted_and_embedded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = sorted((ROOT / "datasets/physical_ai_handbook/docs").rglob("*.md"))[:6]
    text = "\n\n".join(file.read_text(encoding="utf-8") for file in pages)
    for module in (tokens, models):
        monkeypatch.setattr(module, "PART", 500)
    parts = token_parts(text)
    assert " ".join(parts) == text and max(map(len, parts)) < 1_000 < len(text)
    assert count_tokens(text) == len(tokenizer().encode(text, add_special_tokens=False).ids)
    model = StaticEmbeddings()
    assert np.allclose(model.embed_documents(["arm", text])[1], model._model.embed([text], norm=True)[0], atol=1e-6)
    assert "".join(token_parts("x" * 100_000)) == "x" * 100_000
    assert [count_tokens(text) for text in ("", "robot", "hello world", "a b c d")] == [0, 1, 2, 4]


@pytest.mark.slow
def test_loading_the_packaged_model_leaves_the_root_logger_alone() -> None:
    code = "import logging; from retrievers.embedding.models import StaticEmbeddings; StaticEmbeddings(); "
    code += "print(logging.getLogger().level == logging.WARNING, logging.getLogger().handlers)"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout == b"True []\n"


# Any model, checked, and the user's own


class Broken(Embeddings):
    """A user's model that returns or raises what it was told."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def embed_documents(self, texts: list[str]) -> Any:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    def embed_query(self, text: str) -> Any:
        return self.embed_documents([text])[0]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ([HELLO], "mine returned 1 vectors of [2] dimensions for 2 texts, expected one for each"),
        ([HELLO] * 3, "mine returned 3 vectors of [2] dimensions for 2 texts"),
        ([[1.0, 0.0], [1.0]], "mine returned 2 vectors of [1, 2] dimensions for 2 texts"),
        ([[1.0, 0.0], [math.nan, 0.0]], "mine made no finite vector for 'b': "),
        (RuntimeError("out of\nmemory"), "mine failed to embed: RuntimeError, out of"),
        (TimeoutError(), "mine failed to embed: TimeoutError, no answer in time"),
        (EmbeddingError("said already"), "said already"),
    ],
)
def test_every_fault_of_a_model_is_an_embedding_error(result: Any, message: str) -> None:
    with pytest.raises(EmbeddingError) as caught:
        CheckedEmbeddings(Broken(result), "mine").embed_documents(["a", "b"])
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def make_hello() -> Embeddings:
    return TableEmbeddings({"hello": HELLO})


def make_nothing() -> None:
    return None


def fail() -> None:
    raise RuntimeError("no GPU")


def test_a_users_own_class_is_loaded_by_name_and_checked_once() -> None:
    own = make_embeddings(config(provider="python", model=f"{__name__}:make_hello"), {})
    assert own.embed_query("hello") == own.embed_queries(["hello"])[0] == HELLO
    assert (own.name, checked(own, config())) == (f"python:{__name__}:make_hello", own)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("no_such_module:make", "cannot be loaded: ModuleNotFoundError, No module named 'no_such_module'"),
        (f"{__name__}:no_such_name", "expected a function or class of "),
        (f"{__name__}:fail", "cannot be loaded: RuntimeError, no GPU"),
        (f"{__name__}:make_nothing", "expected a LangChain Embeddings, got NoneType"),
    ],
)
def test_a_class_that_cannot_be_loaded_is_named(target: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_embeddings(config(provider="python", model=target), {})
    assert str(caught.value).startswith(f"embedding.model {target!r}") and message in str(caught.value)


# Providers on a server: the real clients against the loopback


class Hosted:
    """A provider's double and its embeddings."""

    def __init__(self, provider: str, server: Any) -> None:
        self.provider, self.server = provider, server
        self.double: Any = cohere_server if provider == "cohere" else openai_embedding_server
        self.label = f"{provider}:{'embed-english-v3.0' if provider == 'cohere' else 'text-embedding-3-small'}"

    def made(self, key: str | None = None, **values: Any) -> CheckedEmbeddings:
        url = self.server.url + ("/v1" if self.provider == "openai" else "")
        settings = config(**{"provider": self.provider, "base_url": url} | values)
        return make_embeddings(settings, {settings.declared.key_env or "": key or self.double.KEY})

    @property
    def sent(self) -> list[list[str]]:
        return [request.body["texts" if self.provider == "cohere" else "input"] for request in self.server.requests]


@pytest.fixture(params=["cohere", "openai"])
def hosted(request: pytest.FixtureRequest) -> Iterator[Hosted]:
    with CohereServer() if request.param == "cohere" else OpenAIEmbeddingServer() as server:
        yield Hosted(request.param, server)


def test_texts_and_queries_go_in_batches_of_96_with_prefixes_and_keep_their_order(hosted: Hosted) -> None:
    embeddings = hosted.made(document_prefix="p: ", query_prefix="q: ")
    texts = [f"text {number}" for number in range(100)]
    assert embeddings.embed_documents(texts) == [pytest.approx(vector(f"p: {text}")) for text in texts]
    assert embeddings.embed_queries(texts) == [pytest.approx(vector(f"q: {text}")) for text in texts]
    assert embeddings.embed_query("where?") == pytest.approx(vector("q: where?"))
    assert [len(sent) for sent in hosted.sent] == [96, 4, 96, 4, 1]
    first = hosted.server.requests[0]
    assert first.body["model"] == hosted.label.partition(":")[2]
    assert first.headers["authorization"] == f"Bearer {hosted.double.KEY}"
    kinds = [request.body.get("input_type") for request in hosted.server.requests]
    assert kinds == (["search_document"] * 2 + ["search_query"] * 3 if hosted.provider == "cohere" else [None] * 5)


@pytest.mark.parametrize(
    ("fault", "message", "requests"),
    [
        ("401", "status 401, the API key was refused", 1),
        ("404", "status 404, ", 1),
        ("429", "status 429, the rate limit was hit", ATTEMPTS),
        ("500", "status 500, ", ATTEMPTS),
        ("slow", "no answer in time", ATTEMPTS),
        ("truncated", "", 1),
        ("html", "", 1),
        ("too few", "returned 1 vectors of ", 1),
        ("ragged", "dimensions for 2 texts, expected one for each, of one number of dimensions", 1),
    ],
)
def test_every_fault_is_told_after_a_bounded_number_of_requests_without_the_key(
    hosted: Hosted,
    fault: str,
    message: str,
    requests: int,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(models, "TIMEOUT_S", 0.3 if fault == "slow" else 30.0)
    with hosted.server.failing(hosted.double.FAULTS[fault]), pytest.raises(EmbeddingError) as caught:
        hosted.made().embed_documents(["a", "b"])
    assert str(caught.value).startswith(hosted.label) and message in str(caught.value)
    assert len(hosted.server.requests) == requests
    assert (f"({ATTEMPTS} attempts in " in str(caught.value)) == (requests == ATTEMPTS)
    error: BaseException | None = caught.value
    while error is not None:
        assert hosted.double.KEY not in f"{error} {error!r}"
        error = error.__cause__
    assert "SECRET" in hosted.double.KEY and "SECRET" not in caplog.text + str(caught.value)


def test_a_fault_that_passes_is_got_over_and_who_asks_to_wait_is_waited_for(
    hosted: Hosted, caplog: pytest.LogCaptureFixture
) -> None:
    busy = Reply.json({"message": "busy"}, 429, **{"Retry-After": "7"})
    with hosted.server.failing(Fault(reply=busy, times=1)), patient(60):
        assert hosted.made().embed_query("a") == pytest.approx(vector("a"))
    assert "embed: waiting 7 s, as asked: " in caplog.text
    assert len(hosted.server.requests) == 2


def test_the_key_stands_in_the_variable_of_the_provider(hosted: Hosted) -> None:
    assert len(hosted.made(f"{hosted.double.KEY}\n").embed_query("a")) == len(vector("a"))
    default = EMBEDDING_PROVIDERS[hosted.provider].key_env
    for env in ({}, {"CO_API_KEY": "x"}, {str(default): " "}):
        with pytest.raises(MissingKeyError, match=rf"expected it in {default}, which is not set.*provider wordllama\)"):
            make_embeddings(config(provider=hosted.provider), env)
    for key in ("SECRET\nKEY", "SECRETé"):
        with pytest.raises(ConfigError) as caught:
            hosted.made(key)
        assert "SECRET" not in str(caught.value)


def test_nobody_listening_is_an_embedding_error() -> None:
    nobody = config(provider="cohere", base_url=f"http://127.0.0.1:{free_port()}")
    with pytest.raises(EmbeddingError, match="failed to embed: ConnectError, "):
        make_embeddings(nobody, {"COHERE_API_KEY": "k"}).embed_query("a")


def test_dimensions_are_asked_for_and_checked_and_a_server_of_ones_own_needs_no_key() -> None:
    with OpenAIEmbeddingServer() as server:
        own = Hosted("openai", server)
        assert own.made(dimensions=4).embed_query("where?") == pytest.approx(vector("where?")[:4])
        assert server.requests[0].body["dimensions"] == 4
        with server.failing(own.double.FAULTS["too few"]), pytest.raises(EmbeddingError, match="of 4 dimensions"):
            own.made(dimensions=4).embed_query("a")
        settings = config(provider="openai", base_url=f"{server.url}/v1")
        with pytest.raises(EmbeddingError, match="status 401"):
            make_embeddings(settings, {}).embed_query("a")
        assert server.requests[-1].headers["authorization"] == "Bearer none"


def test_the_environment_does_not_move_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_BASE", "http://elsewhere.example/v1")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere.example/v1")
    made: Any = make_embeddings(config(provider="openai"), {"OPENAI_API_KEY": "k"})
    assert str(made.inner.client._client.base_url) == "https://api.openai.com/v1/"


def test_options_reach_the_class_of_langchain_and_its_refusal_is_told() -> None:
    azure = {"model": "azure_openai:deployed"}
    options = {"azure_endpoint": "https://mine.openai.azure.com", "api_version": "2024-10-21"}
    env = {"AZURE_OPENAI_API_KEY": "SECRET"}
    made: Any = make_embeddings(config(**azure, options=options), env)
    assert (made.inner.openai_api_version, made.inner.azure_endpoint) == ("2024-10-21", options["azure_endpoint"])
    with pytest.raises(ConfigError, match="cannot be built: chunk_size: Input should be a valid integer") as caught:
        make_embeddings(config(**azure, options=options | {"chunk_size": "many"}), env)
    assert "SECRET" not in str(caught.value)


def test_the_providers_are_those_of_langchain_and_a_missing_package_is_named() -> None:
    from langchain.embeddings.base import _BUILTIN_PROVIDERS

    assert {*EMBEDDING_PROVIDERS} == {*_BUILTIN_PROVIDERS, "wordllama", "python"}
    with pytest.raises(ConfigError, match=r"'bedrock:titan' cannot be built: .*pip install langchain-aws"):
        make_embeddings(config(model="bedrock:titan"), {})

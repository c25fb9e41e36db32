"""OpenAI's real client against a loopback server: what is sent, what comes back, every fault as an EmbeddingError."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings

from retrievers.config import EmbeddingConfig
from retrievers.embedding.models import make_embeddings
from retrievers.errors import ConfigError, EmbeddingError, MissingKeyError
from tests.support.clock import ATTEMPTS, patient
from tests.support.cohere_server import DIMENSION, vector
from tests.support.openai_embedding_server import FAULTS, KEY, OpenAIEmbeddingServer, refused

MODEL = "openai:text-embedding-3-small"


@pytest.fixture
def server() -> Iterator[OpenAIEmbeddingServer]:
    with OpenAIEmbeddingServer() as one:
        yield one


def of_openai(server: OpenAIEmbeddingServer, key: str = KEY, **values: Any) -> Embeddings:
    config = EmbeddingConfig.model_validate({"model": MODEL, "base_url": f"{server.url}/v1", **values})
    return make_embeddings(config, {"OPENAI_API_KEY": key})


def test_texts_and_queries_are_sent_in_batches_and_keep_their_order(server: OpenAIEmbeddingServer) -> None:
    embeddings: Any = of_openai(server)
    texts = [f"text {number}" for number in range(100)]
    assert embeddings.embed_documents(texts) == [pytest.approx(vector(text)) for text in texts]
    assert embeddings.embed_queries(texts) == [pytest.approx(vector(text)) for text in texts]
    assert [len(request.body["input"]) for request in server.requests] == [96, 4, 96, 4]
    sent = server.requests[0]
    assert (sent.path, sent.body["model"]) == ("/v1/embeddings", "text-embedding-3-small")
    assert "dimensions" not in sent.body


def test_prefixes_and_dimensions_are_sent(server: OpenAIEmbeddingServer) -> None:
    embeddings = of_openai(server, query_prefix="query: ", document_prefix="passage: ", dimensions=4)
    assert embeddings.embed_query("where?") == pytest.approx(vector("query: where?")[:4])
    embeddings.embed_documents(["there"])
    assert [request.body["input"] for request in server.requests] == [["query: where?"], ["passage: there"]]
    assert server.requests[0].body["dimensions"] == 4


def test_a_server_that_ignores_the_dimensions_is_refused(server: OpenAIEmbeddingServer) -> None:
    with (
        server.failing(FAULTS["too few"]),
        pytest.raises(EmbeddingError, match=rf"of {DIMENSION} dimensions, but embedding\.dimensions asks for 4"),
    ):
        of_openai(server, dimensions=4).embed_query("a")


def test_a_text_is_cut_to_what_the_model_takes(server: OpenAIEmbeddingServer, caplog: pytest.LogCaptureFixture) -> None:
    of_openai(server, max_tokens=5, document_prefix="p: ").embed_documents(["one two three four five six seven", "one"])
    assert server.requests[0].body["input"] == ["p: one two three", "p: one"]
    assert "1 of 2 texts have more than 5 tokens" in caplog.text


@pytest.mark.parametrize(
    ("fault", "message", "requests"),
    [
        ("401", "AuthenticationError, status 401, the API key was refused", 1),
        ("404", "NotFoundError, status 404, The model `nope` does not exist", 1),
        ("429", "RateLimitError, status 429, the rate limit was hit", ATTEMPTS),
        ("500", "InternalServerError, status 500, The server had an error", ATTEMPTS),
        ("slow", "APITimeoutError, no answer in time; embedding.timeout_s sets how long to wait", ATTEMPTS),
        ("torn", "APIConnectionError, Connection error.", ATTEMPTS),
        ("truncated", "JSONDecodeError, ", 1),
        ("html", "", 1),
        ("nothing", "ValueError, No embedding data received", 1),
    ],
)
def test_every_fault_is_told_after_a_bounded_number_of_requests(
    server: OpenAIEmbeddingServer,
    fault: str,
    message: str,
    requests: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    patience = 0.2 if fault == "slow" else 30
    with server.failing(FAULTS[fault]), pytest.raises(EmbeddingError) as caught:
        of_openai(server, timeout_s=patience).embed_documents(["a", "b"])
    assert str(caught.value).startswith(f"{MODEL} failed to embed: {message}")
    assert len(server.requests) == requests
    assert "SECRET" not in str(caught.value) + caplog.text


@pytest.mark.parametrize(
    ("fault", "message"),
    [("too few", "returned 1 vectors for 2 texts"), ("ragged", "returned vectors of different lengths")],
)
def test_vectors_that_cannot_be_used_are_refused(server: OpenAIEmbeddingServer, fault: str, message: str) -> None:
    with server.failing(FAULTS[fault]), pytest.raises(EmbeddingError, match=f"{MODEL} {message}"):
        of_openai(server).embed_documents(["a", "b"])


def test_a_server_that_asks_to_wait_is_waited_for(
    server: OpenAIEmbeddingServer, caplog: pytest.LogCaptureFixture
) -> None:
    busy = refused(429, "Rate limit reached", **{"Retry-After": "7"})
    with server.failing(type(busy)(reply=busy.reply, times=1)), patient(60):
        assert of_openai(server).embed_query("a") == pytest.approx(vector("a"))
    assert "embed: waiting 7 s, as asked: " in caplog.text
    assert len(server.requests) == 2


def test_a_refused_key_costs_one_request_however_many_texts_there_are(server: OpenAIEmbeddingServer) -> None:
    embeddings: Any = of_openai(server, key="sk-other")
    for embed in (embeddings.embed_documents, embeddings.embed_queries):
        server.requests.clear()
        with pytest.raises(EmbeddingError, match="status 401, the API key was refused"):
            embed([f"text {number}" for number in range(300)])
        assert len(server.requests) == 1


def test_a_server_of_ones_own_needs_no_key_and_openai_does(server: OpenAIEmbeddingServer) -> None:
    config = EmbeddingConfig.model_validate({"model": MODEL})
    with pytest.raises(MissingKeyError, match="OpenAI needs an API key: expected it in OPENAI_API_KEY"):
        make_embeddings(config, {})
    own = config.model_copy(update={"base_url": f"{server.url}/v1"})
    with pytest.raises(EmbeddingError, match="status 401"):
        make_embeddings(own, {}).embed_query("a")
    assert server.requests[0].headers["authorization"] == "Bearer none"


def test_the_environment_does_not_move_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_BASE", "http://elsewhere.example/v1")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere.example/v1")
    made: Any = make_embeddings(EmbeddingConfig.model_validate({"model": MODEL}), {"OPENAI_API_KEY": KEY})
    assert str(made.inner.client._client.base_url) == "https://api.openai.com/v1/"


def test_azure_asks_for_its_address_and_options_reach_its_class() -> None:
    azure = {"model": "azure_openai:deployed"}
    env = {"AZURE_OPENAI_API_KEY": KEY}
    with pytest.raises(ConfigError, match=r"needs embedding\.base_url, https://NAME\.openai\.azure\.com"):
        make_embeddings(EmbeddingConfig.model_validate(azure), env)
    there = {**azure, "base_url": "https://mine.openai.azure.com"}
    versioned = EmbeddingConfig.model_validate({**there, "options": {"api_version": "2024-10-21"}})
    made: Any = make_embeddings(versioned, env)
    assert made.inner.openai_api_version == "2024-10-21"
    refused_option = EmbeddingConfig.model_validate({**there, "options": {"chunk_size": "many"}})
    with pytest.raises(ConfigError, match="cannot be built: chunk_size: Input should be a valid integer") as caught:
        make_embeddings(refused_option, env)
    assert "SECRET" not in str(caught.value)

"""Embeddings of every provider: what is sent, what comes back, and every fault as an EmbeddingError without the key."""

import logging
import math
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings

from retrievers.config import EmbeddingConfig
from retrievers.embedding.models import CheckedEmbeddings, checked, make_embeddings
from retrievers.errors import ConfigError, EmbeddingError, MissingKeyError
from tests.support import cohere_server
from tests.support.clock import ATTEMPTS
from tests.support.cohere_server import DIMENSION, FAULTS, KEY, CohereServer, refused, vector
from tests.support.collections import TableEmbeddings
from tests.support.loopback import Fault, free_port

HELLO = [0.6, 0.8]


def config(**values: Any) -> EmbeddingConfig:
    return EmbeddingConfig.model_validate(values)


@pytest.fixture
def cohere() -> Iterator[CohereServer]:
    with CohereServer() as server:
        yield server


def of_cohere(server: CohereServer, key: str = KEY, **values: Any) -> Embeddings:
    return make_embeddings(config(provider="cohere", base_url=server.url, **values), {"COHERE_API_KEY": key})


def patience(fault: str) -> float:
    return 0.3 if fault == "slow" else 30


# The packaged model


def test_the_packaged_model_makes_unit_vectors_of_256() -> None:
    packaged = make_embeddings(config(), {})
    one, other = packaged.embed_documents(["robots walk", "a topic is a bus"])
    assert (len(one), len(other)) == (256, 256)
    assert math.hypot(*one) == pytest.approx(1, abs=1e-5)
    assert one == packaged.embed_query("robots walk") == make_embeddings(config(), {}).embed_query("robots walk")
    assert one != other


def test_nothing_embeds_to_nothing() -> None:
    assert make_embeddings(config(), {}).embed_documents([]) == []


def test_an_empty_text_has_no_vector() -> None:
    with pytest.raises(EmbeddingError, match=r"wordllama:l2_supercat_256 made no finite vector for ''"):
        make_embeddings(config(), {}).embed_documents(["robots", ""])


def test_any_characters_can_be_embedded() -> None:
    texts = ["日本語", "🤖", "\x00", "\u200b", "a" * 20_000, "é", "e\u0301"]
    assert {len(v) for v in make_embeddings(config(), {}).embed_documents(texts)} == {256}


def test_half_a_character_is_an_embedding_error() -> None:
    with pytest.raises(EmbeddingError):
        make_embeddings(config(), {}).embed_query("\ud800")


@pytest.mark.slow
def test_loading_the_packaged_model_leaves_the_root_logger_alone() -> None:
    code = """
import logging
from retrievers.embedding.static import StaticEmbeddings
StaticEmbeddings()
print(logging.getLogger().level == logging.WARNING, logging.getLogger().handlers)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "True []\n"


# Any model, checked


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
        ([HELLO], "mine returned 1 vectors for 2 texts"),
        ([HELLO] * 3, "mine returned 3 vectors for 2 texts"),
        ([], "mine returned 0 vectors for 2 texts"),
        ([[1.0, 0.0], [1.0]], "mine returned vectors of different lengths"),
        ([[1.0, 0.0], [math.nan, 0.0]], "mine made no finite vector for 'b': "),
        ([[math.inf, 0.0], [1.0, 0.0]], "mine made no finite vector for 'a': "),
        (RuntimeError("out of\nmemory"), "mine failed to embed: RuntimeError, out of"),
        (TimeoutError(), "mine failed to embed: TimeoutError, no answer in time; embedding.timeout_s sets how long"),
    ],
)
def test_every_fault_of_a_model_is_an_embedding_error(result: Any, message: str) -> None:
    with pytest.raises(EmbeddingError) as caught:
        CheckedEmbeddings(Broken(result), "mine").embed_documents(["a", "b"])
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_no_texts_are_not_sent_to_the_model() -> None:
    assert CheckedEmbeddings(Broken(RuntimeError("called")), "mine").embed_documents([]) == []


def test_an_embedding_error_is_passed_on_as_it_is() -> None:
    error = EmbeddingError("said already")
    with pytest.raises(EmbeddingError) as caught:
        CheckedEmbeddings(Broken(error), "mine").embed_query("a")
    assert caught.value is error


def test_a_model_is_checked_once_and_known_by_its_settings() -> None:
    once = checked(TableEmbeddings({"a": HELLO}), config(provider="python", model="m:f"))
    assert (once.name, checked(once, config())) == ("python:m:f", once)


# The user's own class


def make_hello() -> Embeddings:
    return TableEmbeddings({"hello": HELLO})


def make_nothing() -> None:
    return None


def fail() -> None:
    raise RuntimeError("no GPU")


def test_a_users_own_class_is_loaded_by_name() -> None:
    own = make_embeddings(config(provider="python", model=f"{__name__}:make_hello"), {})
    assert own.embed_query("hello") == HELLO


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("no_such_module:make", "cannot be loaded: ModuleNotFoundError, No module named 'no_such_module'"),
        (f"{__name__}:no_such_name", "cannot be loaded: AttributeError, "),
        (f"{__name__}:fail", "cannot be loaded: RuntimeError, no GPU"),
        (f"{__name__}:make_nothing", "expected a LangChain Embeddings, got NoneType"),
        (f"{__name__}:", "cannot be loaded: AttributeError"),
        (":make", "cannot be loaded: ValueError"),
    ],
)
def test_a_class_that_cannot_be_loaded_is_named(target: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_embeddings(config(provider="python", model=target), {})
    assert str(caught.value).startswith(f"embedding.model {target!r}")
    assert message in str(caught.value)


# Cohere


def test_a_query_is_sent_as_a_query_and_texts_as_documents(cohere: CohereServer) -> None:
    embeddings = of_cohere(cohere)
    assert embeddings.embed_query("where to?") == pytest.approx(vector("where to?"))
    assert embeddings.embed_documents(["one", "two"]) == [pytest.approx(vector("one")), pytest.approx(vector("two"))]
    assert cohere.inputs == [("search_query", ["where to?"]), ("search_document", ["one", "two"])]
    (request, _) = cohere.requests
    assert (request.body["model"], request.body["embedding_types"]) == ("embed-english-v3.0", ["float"])
    assert request.headers["authorization"] == f"Bearer {KEY}"


def test_another_model_is_sent_by_its_name(cohere: CohereServer) -> None:
    of_cohere(cohere, model="embed-english-light-v3.0").embed_query("a")
    assert cohere.requests[0].body["model"] == "embed-english-light-v3.0"


@pytest.mark.parametrize(("count", "batches"), [(1, [1]), (96, [96]), (97, [1, 96]), (250, [58, 96, 96])])
def test_batches_of_96_keep_the_order(cohere: CohereServer, count: int, batches: list[int]) -> None:
    texts = [f"text {number}" for number in range(count)]
    vectors = of_cohere(cohere).embed_documents(texts)
    assert sorted(len(sent) for _, sent in cohere.inputs) == batches
    assert vectors == [pytest.approx(vector(text)) for text in texts]


def test_no_texts_are_not_sent_to_cohere(cohere: CohereServer) -> None:
    assert of_cohere(cohere).embed_documents([]) == []
    assert cohere.requests == []


@pytest.mark.parametrize(
    ("fault", "message", "requests"),
    [
        ("401", "UnauthorizedError, status 401, the API key was refused", 1),
        ("404", "NotFoundError, status 404, model 'nope' not found", 1),
        ("429", "TooManyRequestsError, status 429, the rate limit was hit", ATTEMPTS),
        ("500", "InternalServerError, status 500, internal error", ATTEMPTS),
        ("slow", "ReadTimeout, no answer in time; embedding.timeout_s sets how long to wait", ATTEMPTS),
        ("truncated", "ApiError, status 200, the answer is not the provider's; is embedding.base_url right?", 1),
        ("html", "ApiError, status 200, the answer is not the provider's; is embedding.base_url right?", 1),
    ],
)
def test_every_fault_is_told_after_a_bounded_number_of_requests(
    cohere: CohereServer, fault: str, message: str, requests: int
) -> None:
    with cohere.failing(FAULTS[fault]), pytest.raises(EmbeddingError) as caught:
        of_cohere(cohere, timeout_s=patience(fault)).embed_documents(["a", "b"])
    said, _, tried = str(caught.value).partition(" (")
    assert said == f"cohere:embed-english-v3.0 failed to embed: {message}"
    assert tried.startswith(f"{ATTEMPTS} attempts in ") == (requests == ATTEMPTS)
    assert len(cohere.requests) == requests


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("too few", "returned 1 vectors for 2 texts"),
        ("none", "returned 0 vectors for 2 texts"),
        ("ragged", "returned vectors of different lengths"),
        ("nan", "made no finite vector for 'b': "),
    ],
)
def test_vectors_that_cannot_be_used_are_refused(cohere: CohereServer, fault: str, message: str) -> None:
    with cohere.failing(FAULTS[fault]), pytest.raises(EmbeddingError) as caught:
        of_cohere(cohere).embed_documents(["a", "b"])
    assert str(caught.value).startswith(f"cohere:embed-english-v3.0 {message}")


def test_a_fault_that_passes_is_got_over(cohere: CohereServer) -> None:
    reply = refused(429).reply
    with cohere.failing(Fault(reply=reply, times=3)):
        assert of_cohere(cohere).embed_query("a") == pytest.approx(vector("a"))
    assert len(cohere.requests) == 4


def test_nobody_listening_is_an_embedding_error() -> None:
    nobody = config(provider="cohere", base_url=f"http://127.0.0.1:{free_port()}")
    with pytest.raises(EmbeddingError, match="failed to embed: ConnectError, "):
        make_embeddings(nobody, {"COHERE_API_KEY": KEY}).embed_query("a")


@pytest.mark.parametrize("fault", sorted(FAULTS))
@pytest.mark.slow
def test_the_key_is_in_no_message_and_no_log(
    cohere: CohereServer, fault: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    with cohere.failing(FAULTS[fault]), pytest.raises(EmbeddingError) as caught:
        of_cohere(cohere, timeout_s=patience(fault)).embed_documents(["a", "b"])
    shown = capsys.readouterr()
    chain: list[str] = []
    error: BaseException | None = caught.value
    while error is not None:
        chain.append(f"{error} {error!r}")
        error = error.__cause__
    assert "SECRET" in KEY
    assert "SECRET" not in "".join([*chain, caplog.text, shown.out, shown.err])


def test_a_key_that_was_read_from_a_file_loses_its_line_break(cohere: CohereServer) -> None:
    assert len(of_cohere(cohere, key=f"{KEY}\n").embed_query("a")) == DIMENSION


@pytest.mark.parametrize("key", [KEY[:5] + "\n" + KEY[5:], KEY + "é"])
def test_a_key_that_no_header_can_carry_is_not_shown(cohere: CohereServer, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        of_cohere(cohere, key=key)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("env", [{}, {"COHERE_API_KEY": ""}, {"COHERE_API_KEY": " "}, {"CO_API_KEY": KEY}])
def test_no_key_names_the_variable_and_the_way_without(env: dict[str, str]) -> None:
    with pytest.raises(MissingKeyError) as caught:
        make_embeddings(config(provider="cohere"), env)
    assert "expected it in COHERE_API_KEY, which is not set" in str(caught.value)
    assert "(--embedding.provider wordllama)" in str(caught.value)


def test_the_variable_of_the_key_is_a_setting(cohere: CohereServer) -> None:
    own = config(provider="cohere", base_url=cohere.url, api_key_env="TEAM_KEY")
    assert len(make_embeddings(own, {"TEAM_KEY": KEY}).embed_query("a")) == DIMENSION
    with pytest.raises(MissingKeyError, match="expected it in TEAM_KEY"):
        make_embeddings(own, {"COHERE_API_KEY": KEY})


def test_the_doubles_vectors_are_near_for_texts_with_common_words() -> None:
    one, near, far = (cohere_server.vector(text) for text in ("red robot", "red robots", "blue sea"))
    assert sum(a * b for a, b in zip(one, near, strict=True)) > sum(a * b for a, b in zip(one, far, strict=True))

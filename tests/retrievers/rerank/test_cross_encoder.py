"""Rerankers: the real Cohere class against a loopback server, and a user's own of every kind."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from retrievers.config import CrossEncoderConfig
from retrievers.errors import ConfigError, MissingKeyError, RerankError
from retrievers.rerank.cross_encoder import CrossEncoder, make_cross_encoder
from tests.support.clock import ATTEMPTS
from tests.support.cohere_server import KEY
from tests.support.loopback import free_port
from tests.support.rerank_server import FAULTS, RerankServer, relevance

QUERY = "red robot arm"
TEXTS = ["blue sea", "a red robot", "red robot arm", "arm"]
OWN = "tests.support.rerankers:"


@pytest.fixture(scope="module")
def running() -> Iterator[RerankServer]:
    with RerankServer() as server:
        yield server


@pytest.fixture
def cohere(running: RerankServer) -> RerankServer:
    running.requests.clear()
    return running


def config(**values: Any) -> CrossEncoderConfig:
    return CrossEncoderConfig.model_validate(values)


def of_cohere(server: RerankServer, **values: Any) -> CrossEncoder:
    return make_cross_encoder(config(base_url=server.url, **values), {"COHERE_API_KEY": KEY})


def own(name: str) -> CrossEncoder:
    return make_cross_encoder(config(provider="python", model=OWN + name), {})


# Cohere


def test_cohere_is_asked_for_all_texts_in_one_request(cohere: RerankServer) -> None:
    order = of_cohere(cohere)(QUERY, TEXTS)
    assert order == [(2, 1.0), (1, 0.5), (3, pytest.approx(1 / 3, abs=1e-6)), (0, 0.0)]
    (request,) = cohere.requests
    assert (request.path, request.headers["authorization"]) == ("/v2/rerank", f"Bearer {KEY}")
    body = {key: value for key, value in request.body.items() if value is not None}
    assert body == {"model": "rerank-v3.5", "query": QUERY, "documents": TEXTS}


def test_another_model_is_sent_by_its_name(cohere: RerankServer) -> None:
    of_cohere(cohere, model="rerank-multilingual-v3.0")(QUERY, TEXTS)
    assert cohere.requests[0].body["model"] == "rerank-multilingual-v3.0"


def test_nothing_is_not_sent(cohere: RerankServer) -> None:
    assert of_cohere(cohere)(QUERY, []) == []
    assert cohere.requests == []


@pytest.mark.parametrize(
    ("fault", "said", "requests"),
    [
        ("401", "failed to rerank 2 texts: UnauthorizedError, status 401, the API key was refused", 1),
        ("403", "failed to rerank 2 texts: ForbiddenError, status 403, the API key may not do this", 1),
        ("404", "failed to rerank 2 texts: NotFoundError, status 404, model 'nope' not found", 1),
        ("429", "failed to rerank 2 texts: TooManyRequestsError, status 429, the rate limit was hit", ATTEMPTS),
        ("500", "failed to rerank 2 texts: InternalServerError, status 500, internal error", ATTEMPTS),
        ("502 HTML", "failed to rerank 2 texts: ApiError, status 502", ATTEMPTS),
        ("reset", "failed to rerank 2 texts: ", ATTEMPTS),
        ("slow", "ReadTimeout, no answer in time; cross_encoder.timeout_s sets how long to wait", ATTEMPTS),
        ("html", "status 200, the answer is not the provider's; is cross_encoder.base_url right?", 1),
        ("truncated", "status 200, the answer is not the provider's; is cross_encoder.base_url right?", 1),
        ("index too high", "failed to rerank 2 texts: IndexError", 1),
        ("index twice", "returned an order that is not one of the 2 texts it was given", 1),
        ("too few", "returned 1 scores for 2 texts", 1),
        ("too many", "returned 3 scores for 2 texts", 1),
        ("nan", "returned a score that is not a number", 1),
    ],
)
def test_every_fault_is_told_after_a_bounded_number_of_requests(
    cohere: RerankServer, fault: str, said: str, requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retrievers.rerank.cross_encoder.TIMEOUT_S", 0.1 if fault == "slow" else 30.0)
    reranker = of_cohere(cohere)
    with cohere.failing(FAULTS[fault]), pytest.raises(RerankError) as caught:
        reranker("q", ["a", "b"])
    assert str(caught.value).startswith("cohere:rerank-v3.5 ")
    assert said in str(caught.value)
    assert KEY not in f"{caught.value}{caught.value.__cause__!r}"
    assert len(cohere.requests) == requests


def test_nobody_listening_is_a_rerank_error() -> None:
    nobody = config(base_url=f"http://127.0.0.1:{free_port()}")
    with pytest.raises(RerankError, match=r"failed to rerank 1 texts: ConnectError, "):
        make_cross_encoder(nobody, {"COHERE_API_KEY": KEY})("q", ["a"])


@pytest.mark.parametrize("env", [{}, {"COHERE_API_KEY": " "}, {"CO_API_KEY": KEY}])
def test_no_key_names_the_variable_and_the_ways_without(env: dict[str, str]) -> None:
    with pytest.raises(MissingKeyError) as caught:
        make_cross_encoder(config(), env)
    assert str(caught.value).startswith(
        "Cohere Rerank needs an API key: expected it in COHERE_API_KEY, which is not set; "
    )
    assert "rerank by mmr, or not at all (--rerank none)" in str(caught.value)


def test_the_variable_of_the_key_is_a_setting(cohere: RerankServer) -> None:
    own_key = config(base_url=cohere.url, api_key_env="TEAM_KEY")
    assert make_cross_encoder(own_key, {"TEAM_KEY": KEY})(QUERY, TEXTS)[0] == (2, 1.0)
    with pytest.raises(MissingKeyError, match="expected it in TEAM_KEY"):
        make_cross_encoder(own_key, {"COHERE_API_KEY": KEY})


# A user's own


@pytest.mark.parametrize("name", ["Scorer", "Predictor", "ScoringCompressor"])
def test_every_kind_of_scoring_reranker_gives_the_same(name: str) -> None:
    assert own(name)(QUERY, TEXTS) == [(2, 1.0), (1, pytest.approx(2 / 3)), (3, pytest.approx(1 / 3)), (0, 0.0)]


def test_a_compressor_may_give_only_an_order() -> None:
    assert own("ReversingCompressor")(QUERY, TEXTS) == [(3, None), (2, None), (1, None), (0, None)]


def test_a_compressor_may_leave_texts_out() -> None:
    assert own("FilteringCompressor")(QUERY, TEXTS) == [(1, None), (2, None), (3, None)]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Failing", "failed to rerank 4 texts: RuntimeError, CUDA out of memory"),
        ("Short", "returned 3 scores for 4 texts"),
        ("NotANumber", "returned a score that is not a number"),
        ("Wordy", "failed to rerank 4 texts: ValueError, could not convert string to float"),
        ("ForgetfulCompressor", "failed to rerank 4 texts: KeyError"),
        ("RepeatingCompressor", "returned an order that is not one of the 4 texts it was given"),
        ("SilentCompressor", "failed to rerank 4 texts: TypeError"),
    ],
)
def test_a_reranker_that_misbehaves_is_a_rerank_error(name: str, said: str) -> None:
    reranker = own(name)
    with pytest.raises(RerankError) as caught:
        reranker(QUERY, TEXTS)
    assert str(caught.value).startswith(f"python:{OWN}{name} {said}")
    assert "\n" not in str(caught.value)
    assert reranker(QUERY, []) == []


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("no_such_module:make", "cannot be loaded: ModuleNotFoundError, No module named 'no_such_module'"),
        (f"{OWN}no_such_name", "cannot be loaded: AttributeError, "),
        (f"{OWN}fail", "cannot be loaded: RuntimeError, no GPU"),
        (f"{OWN}make_nothing", "expected a LangChain document compressor or an object with score(pairs), got NoneType"),
        ("builtins:dict", "expected a LangChain document compressor or an object with score(pairs), got dict"),
        (":make", "cannot be loaded: ValueError"),
    ],
)
def test_a_reranker_that_cannot_be_loaded_is_named(target: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_cross_encoder(config(provider="python", model=target), {})
    assert str(caught.value).startswith("cross_encoder") and target in str(caught.value)
    assert said in str(caught.value)


# sentence-transformers, which is an extra


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of that name, whose CrossEncoder is yet to be written."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "sentence_transformers", raising=False)
    yield tmp_path / "sentence_transformers.py"
    sys.modules.pop("sentence_transformers", None)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ConfigError, match=r"needs an extra: pip install 'retrieval-evals\[rerank\]'"):
        make_cross_encoder(config(provider="sentence-transformers"), {})


def test_a_local_model_is_built_by_its_name_and_predicts(installed: Path) -> None:
    installed.write_text(
        "import numpy\n"
        "class CrossEncoder:\n"
        "    def __init__(self, name):\n"
        "        assert name == 'cross-encoder/ms-marco-MiniLM-L6-v2'\n"
        "    def predict(self, pairs):\n"
        "        return numpy.array([len(text) for query, text in pairs], dtype='float32')\n"
    )
    reranker = make_cross_encoder(config(provider="sentence-transformers"), {})
    assert reranker(QUERY, ["a", "abc", "ab"]) == [(1, 3.0), (2, 2.0), (0, 1.0)]


def test_a_local_model_that_cannot_be_loaded_is_named(installed: Path) -> None:
    installed.write_text("def CrossEncoder(name):\n    raise OSError(f'no connection to the hub for {name}')\n")
    with pytest.raises(ConfigError) as caught:
        make_cross_encoder(config(provider="sentence-transformers", model="own/model"), {})
    assert str(caught.value) == (
        "cross_encoder.model 'own/model' cannot be loaded: OSError, no connection to the hub for own/model"
    )


def test_the_doubles_relevance_is_by_hand() -> None:
    assert [relevance(QUERY, text) for text in TEXTS] == [0.0, 0.5, 1.0, 0.333333]

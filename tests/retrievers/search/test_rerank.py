"""Rerankers: maximal marginal relevance by its definition, Cohere against a loopback server, a user's of every kind."""

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from syrupy.assertion import SnapshotAssertion

from retrievers.config import RetrieverConfig
from retrievers.errors import ConfigError, MissingKeyError, RerankError
from retrievers.search.rerank import RerankInput, cross_encoder, mmr_order
from tests.support.cohere_server import KEY, RerankServer, relevance
from tests.support.cohere_server import RERANK_FAULTS as FAULTS

QUERY = "red robot arm"
TEXTS = ("blue sea", "a red robot", "red robot arm", "arm")
OWN = "python:tests.support.rerankers:"
Order = list[tuple[int, float | None]]


def encoder(env: dict[str, str] | None = None, **values: Any) -> Callable[[str, Sequence[str]], Order]:
    """Make the cross-encoder of the settings, as a function of a query and texts."""
    settings = RetrieverConfig.model_validate({"rerank": "cross-encoder", "cross_encoder": values})
    rerank = cross_encoder(settings, env or {})

    def order(query: str, texts: Sequence[str]) -> Order:
        places, scores = rerank(RerankInput(query=query, vector=(), texts=texts, stored=np.empty((0, 0))))
        return [(place, scores[rank] if scores else None) for rank, place in enumerate(places)]

    return order


# Maximal marginal relevance


def by_definition(relevance: Sequence[float], vectors: NDArray[np.float64], lambda_: float) -> list[int]:
    def likeness(one: int, other: int) -> float:
        a, b = vectors[one], vectors[other]
        return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))

    picked: list[int] = []
    while len(picked) < len(relevance):
        left = [i for i in range(len(relevance)) if i not in picked]
        nearest = {i: max([likeness(i, one) for one in picked], default=0.0) for i in left}
        picked.append(max(left, key=lambda i: (lambda_ * relevance[i] - (1 - lambda_) * nearest[i], -i)))
    return picked


@given(
    st.lists(st.sampled_from([0.0, 0.2, 0.5, 0.55, 0.9]), max_size=9).map(lambda values: sorted(values, reverse=True)),
    st.integers(0, 10_000),
    st.sampled_from([0.0, 0.3, 0.5, 0.7, 1.0]),
)
def test_mmr_is_its_definition(relevance: list[float], seed: int, lambda_: float) -> None:
    vectors = np.random.default_rng(seed).normal(size=(len(relevance), 3))
    assert mmr_order(np.asarray(relevance), vectors, lambda_) == by_definition(relevance, vectors, lambda_)


# Cohere


@pytest.fixture(scope="module")
def running() -> Iterator[RerankServer]:
    with RerankServer() as server:
        yield server


@pytest.fixture
def cohere(running: RerankServer) -> RerankServer:
    running.requests.clear()
    return running


@pytest.mark.parametrize(("values", "model"), [({}, "rerank-v3.5"), ({"model": "cohere:rerank-v4.0"}, "rerank-v4.0")])
def test_cohere_is_asked_for_all_texts_in_one_request(cohere: RerankServer, values: dict[str, str], model: str) -> None:
    order = encoder({"COHERE_API_KEY": KEY}, base_url=cohere.url, **values)(QUERY, TEXTS)
    assert order == [(2, 1.0), (1, 0.5), (3, pytest.approx(1 / 3, abs=1e-6)), (0, 0.0)]
    assert [relevance(QUERY, text) for text in TEXTS] == [0.0, 0.5, 1.0, 0.333333]
    [request] = cohere.requests
    assert (request.path, request.headers["authorization"]) == ("/v2/rerank", f"Bearer {KEY}")
    body = {key: value for key, value in request.body.items() if value is not None}
    assert body == {"model": model, "query": QUERY, "documents": [*TEXTS]}


@pytest.mark.parametrize("fault", ["index too high", "index twice", "too few", "too many", "nan"])
def test_an_answer_that_fits_no_texts_is_told(cohere: RerankServer, fault: str, snapshot: SnapshotAssertion) -> None:
    """Answers that are none are in `tests/faults/test_clients.py`."""
    rerank = encoder({"COHERE_API_KEY": KEY}, base_url=cohere.url)
    with cohere.failing(FAULTS[fault]), pytest.raises(RerankError) as caught:
        rerank("q", ["a", "b"])
    assert str(caught.value) == snapshot and len(cohere.requests) == 1


@pytest.mark.parametrize("env", [{"COHERE_API_KEY": " "}, {"CO_API_KEY": KEY}])
def test_no_key_is_told(env: dict[str, str]) -> None:
    with pytest.raises(MissingKeyError, match=r"expected it in COHERE_API_KEY, .* rerank by mmr, or not at all"):
        encoder(env)


# A user's own


@pytest.mark.parametrize("name", ["Scorer", "Predictor", "ScoringCompressor"])
def test_every_kind_of_reranker_is_taken(name: str) -> None:
    found = encoder(model=OWN + name)(QUERY, TEXTS)
    assert found == [(2, 1.0), (1, pytest.approx(2 / 3)), (3, pytest.approx(1 / 3)), (0, 0.0)]


@pytest.mark.parametrize(
    ("name", "order"),
    [("ReversingCompressor", [3, 2, 1, 0]), ("FilteringCompressor", [1, 2, 3])],  # which may leave texts out
)
def test_a_compressor_may_give_its_order_alone(name: str, order: list[int]) -> None:
    assert encoder(model=OWN + name)(QUERY, TEXTS) == [(place, None) for place in order]


MISBEHAVING = (
    "Failing Short NotANumber Wordy ForgetfulCompressor RepeatingCompressor SilentCompressor fail make_nothing"
)


@pytest.mark.parametrize(
    "target", [*(OWN + name for name in MISBEHAVING.split()), "python:no_such_module:make", "python:builtins:dict"]
)
def test_a_reranker_that_fails_is_named(target: str, snapshot: SnapshotAssertion) -> None:
    """One that cannot be loaded is a fault of the settings, and told when it is made."""
    with pytest.raises((ConfigError, RerankError)) as caught:
        encoder(model=target)(QUERY, TEXTS)
    assert f"{caught.type.__name__}: {caught.value}".replace(str(Path.cwd()), "FOLDER") == snapshot
    assert "\n" not in str(caught.value)


def test_sentence_transformers_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    own: Any = {"model": "sentence-transformers:own/model"}
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ConfigError, match=r"needs an extra: pip install 'retrieval-evals\[rerank\]'"):
        encoder(**own)
    package = SimpleNamespace(CrossEncoder=lambda name: SimpleNamespace(predict=lambda pairs: [*map(len, pairs)]))
    monkeypatch.setitem(sys.modules, "sentence_transformers", package)
    assert encoder(**own)("q", ["a"]) == [(0, 2.0)]
    package.CrossEncoder = lambda name: 1 / 0
    with pytest.raises(ConfigError, match="'sentence-transformers:own/model' cannot be loaded: ZeroDivisionError"):
        encoder(**own)

"""Collecting, timing and repeating, with the real retriever over a small embedded collection."""

from collections.abc import Iterator
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import pytest
from langchain_core.embeddings import Embeddings

from evals.cases.case import Case
from evals.collect.passes import WARMUP, collect, measure_latency, repeat
from evals.config.experiment import LatencyConfig
from retrievers import QdrantRetriever
from retrievers.config import EmbeddingConfig
from retrievers.embedding.models import CheckedEmbeddings, make_embeddings
from retrievers.errors import EmbeddingError, ForeignRetrieverError, RetrievalError
from retrievers.retriever.opened import open_retriever
from retrievers.search.candidates import Candidates
from tests.support.experiment import Experiment, silent
from tests.support.experiment import settings as settings_of
from tests.support.foreign import settings
from tests.support.observed import make_case

QUERIES = ("forward kinematics of an arm", "joint angles for a pose", "named channel", "reliable publisher")
CASES = [make_case(f"q{number}", query=query) for number, query in enumerate(QUERIES)]
BAD = make_case("bad", query="nowhere")


class Model(Embeddings):
    """The model of the collection; fails on a query, and after so many is another one."""

    def __init__(self) -> None:
        self.inner = make_embeddings(EmbeddingConfig(), {})
        self.asked, self.most = 0, inf

    def embed_query(self, text: str) -> list[float]:
        if text == BAD.query:
            raise TimeoutError("it does not answer")
        self.asked += 1
        vector = self.inner.embed_query(text)
        return vector if self.asked <= self.most else vector[::-1]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


class Told(list[tuple[str, int, int]]):
    """Progress, remembered."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        self.append((stage, done, total))


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def retriever(indexed: Experiment, model: Model) -> Iterator[QdrantRetriever]:
    config = settings_of(indexed, retriever__trust_embedding=True, retriever__threshold=0).retriever
    with QdrantRetriever.open(config, env={}, embeddings=CheckedEmbeddings(model, "model")) as opened:
        yield opened


def measure(retriever: QdrantRetriever, cases: list[Case] = CASES, **settings: Any) -> Any:
    config = LatencyConfig.model_validate({"repeats": 1, "concurrency": (1,), **settings})
    return measure_latency(retriever, cases, config, silent)


def test_a_failure_keeps_its_type_and_names_the_cases(retriever: QdrantRetriever) -> None:
    """A retriever of the user's own is asked query by query, so that a fault names its case."""
    with pytest.raises(EmbeddingError, match=r"^cases 'q0' to 'bad': .*model failed to embed: TimeoutError"):
        collect(retriever, [*CASES, BAD], silent)
    told, asked = Told(), [make_case(name, query=query) for name, query in (("fine", "arm"), ("bad", "a channel"))]
    with (
        open_retriever(settings("raises_in_the_middle"), env={}) as own,
        pytest.raises(ForeignRetrieverError, match=r"^case 'bad': python .* failed: ConnectionError, the index"),
    ):
        collect(own, [*asked, make_case("never", query="arm")], told)
    assert told == [("retrieving", 1, 3)]


@pytest.mark.parametrize(("repeats", "levels"), [(1, (1,)), (2, (1, 4)), (3, (1, 2, 8))])
def test_every_call_is_a_search_of_its_own_after_warm_up(
    retriever: QdrantRetriever, model: Model, repeats: int, levels: tuple[int, ...]
) -> None:
    passes = measure(retriever, repeats=repeats, concurrency=levels)
    assert [len(p.timings) for p in passes] == [repeats * len(CASES)] * len(levels)
    assert model.asked == WARMUP + repeats * len(CASES) * len(levels)


@pytest.mark.parametrize("concurrency", [(1,), (1, 4)])
def test_a_call_that_fails_stops_the_measurement_and_names_the_query(
    retriever: QdrantRetriever, concurrency: tuple[int, ...]
) -> None:
    with pytest.raises(RetrievalError, match="query 'nowhere': model failed to embed"):
        measure(retriever, [*CASES, BAD], concurrency=concurrency)


def test_the_same_comes_again(retriever: QdrantRetriever, model: Model) -> None:
    told = Told()
    first = collect(retriever, CASES, silent)
    found = repeat(retriever, CASES, first, told)
    assert found.query_ids == tuple(case.id for case in CASES for _ in range(2))
    assert (set(found.changed), set(found.score_deltas)) == ({False}, {0.0})
    assert told == [("repeating", n, 4) for n in (1, 2, 3, 4)]
    assert model.asked == len(CASES) * 3, "every repetition embeds anew"


def test_a_repetition_differs_by_a_chunk_by_its_place_and_by_a_score_beyond_rounding(
    retriever: QdrantRetriever,
) -> None:
    """Ours never differ in places, for the order is total: that is of a store. Several threads differ by 6e-8."""
    whole = collect(retriever, CASES, silent)
    scores = whole.columns["score"]

    def moved(delta: float) -> Candidates:
        return replace(whole, columns={**whole.columns, "score": scores + delta})

    one_came = whole.at(np.tile([1, 2, 3, 4], (4, 1))), True, np.repeat(scores[:, 0], 2)
    two_swapped = whole.at(np.tile([1, 0, 2, 3, 4], (4, 1))), True, np.zeros(8)
    by_scores = ((moved(delta), abs(delta) > 1e-6, np.full(8, abs(delta))) for delta in (6e-8, -9e-7, 2e-6))
    for first, is_changed, deltas in (one_came, two_swapped, *by_scores):
        found = repeat(retriever, CASES, first, silent)
        assert set(found.changed) == {is_changed}
        assert found.score_deltas == pytest.approx(deltas, rel=1e-3, abs=1e-9)

"""Collecting, timing and repeating, with the real retriever over an embedded collection on a circle."""

from collections.abc import Iterator
from dataclasses import replace
from math import cos, radians
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evals.cases.case import Case
from evals.collect.observations import Observed
from evals.collect.passes import WARMUP, collect, measure_latency, repeat
from evals.config.experiment import LatencyConfig
from evals.metrics.timing import max_score_delta, rate, stage_statistic
from retrievers import QdrantRetriever
from retrievers.errors import EmbeddingError, ForeignRetrieverError, RetrievalError
from retrievers.retriever.opened import open_retriever as open_settings
from retrievers.search.candidates import Hits
from tests.support.collections import writable
from tests.support.compass import Compass, Drifting, cosines, make_store, open_retriever, upsert
from tests.support.experiment import silent
from tests.support.foreign import settings
from tests.support.observed import make_case, make_context

BY_ANGLE = {
    0: ["east", "near", "tie-a", "tie-b", "half", "north"],
    20: ["near", "east", "tie-a", "tie-b", "half", "north"],
    45: ["tie-a", "tie-b", "half", "near", "east", "north"],
    80: ["north", "half", "tie-a", "tie-b", "near", "east"],
}
"""Chunks by their angle to the query; of the two with one vector the lower id is first, though inserted later."""
CASES = [make_case(f"q{angle}", query=f"towards {angle} degrees") for angle in BY_ANGLE]
BAD = make_case("bad", query="nowhere")


class Told(list[tuple[str, int, int]]):
    """Progress, remembered."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        self.append((stage, done, total))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("circle") / "store")


@pytest.fixture
def retriever(store: Path) -> Iterator[QdrantRetriever]:
    with open_retriever(store, Compass()) as opened:
        yield opened


def asked(retriever: QdrantRetriever) -> int:
    """Return the number of queries that the model has embedded."""
    count: int = retriever.vector_store.embeddings.inner.asked
    return count


def measure(retriever: QdrantRetriever, cases: list[Case] = CASES, **settings: Any) -> Any:
    config = LatencyConfig.model_validate({"repeats": 1, "concurrency": (1,), **settings})
    return measure_latency(retriever, cases, config, silent)


# Collecting


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 6])
def test_everything_is_found_in_order_and_a_tie_at_the_edge_is_cut_by_chunk_id(
    retriever: QdrantRetriever, store: Path, depth: int
) -> None:
    """Of another variant, too, which shares the chunks."""
    whole = collect(retriever, CASES, silent)
    with open_retriever(store, Compass(), top_k=1, candidates=depth) as shallow:
        cut = collect(shallow, CASES, silent, whole.chunks)
    assert cut.chunks is whole.chunks
    for (angle, expected), found, shorter in zip(BY_ANGLE.items(), whole, cut, strict=True):
        assert (list(found.chunk_ids), list(shorter.chunk_ids)) == (expected, expected[:depth])
        assert found.column("score") == pytest.approx(cosines(angle, expected), abs=1e-6)
        assert found.facts.text == f"towards {angle} degrees"


def test_it_tells_how_far_it_is_in_batches(retriever: QdrantRetriever) -> None:
    told, many = Told(), [make_case(f"case-{n}", query=f"towards {n} degrees") for n in range(70)]
    assert len(collect(retriever, many, told)) == 70
    assert told == [("retrieving", 32, 70), ("retrieving", 64, 70), ("retrieving", 70, 70)]


def test_a_failure_keeps_its_type_and_names_the_cases(retriever: QdrantRetriever) -> None:
    """A retriever of the user's own is asked query by query, so that a fault names its case."""
    with pytest.raises(EmbeddingError, match=r"^cases 'q0' to 'bad': .*compass failed to embed: TimeoutError"):
        collect(retriever, [*CASES, BAD], silent)
    told, asked = Told(), [make_case(name, query=query) for name, query in (("fine", "arm"), ("bad", "a channel"))]
    with (
        open_settings(settings("raises_in_the_middle"), env={}) as own,
        pytest.raises(ForeignRetrieverError, match=r"^case 'bad': python .* failed: ConnectionError, the index"),
    ):
        collect(own, [*asked, make_case("never", query="arm")], told)
    assert told == [("retrieving", 1, 3)]


# Timing


@pytest.mark.parametrize(("repeats", "levels"), [(1, (1,)), (2, (1, 4)), (3, (1, 2, 8))])
def test_every_call_is_a_search_of_its_own_after_warm_up(
    retriever: QdrantRetriever, repeats: int, levels: tuple[int, ...]
) -> None:
    passes = measure(retriever, repeats=repeats, concurrency=levels)
    assert [len(p.timings) for p in passes] == [repeats * len(CASES)] * len(levels)
    assert asked(retriever) == WARMUP + repeats * len(CASES) * len(levels)


def test_a_model_that_changes_between_the_passes_leaves_no_figure_for_the_second(store: Path) -> None:
    with open_retriever(store, Drifting(after=WARMUP + len(CASES), degrees=5)) as drifting:
        passes = measure(drifting, concurrency=(1, 4))
    assert [p.differing for p in passes] == [(), tuple(case.id for case in CASES)]
    observed, of_calls = Observed(observations=(), latency=passes), {"stage": "total", "statistic": "p50"}
    serial, at_once = (stage_statistic(observed, make_context(), **of_calls, concurrency=n) for n in (1, 4))
    assert serial.value is not None and serial.n == len(CASES)
    assert (at_once.value, at_once.n_failed) == (None, len(CASES))


@pytest.mark.parametrize("concurrency", [(1,), (1, 4)])
def test_a_call_that_fails_stops_the_measurement_and_names_the_query(
    retriever: QdrantRetriever, concurrency: tuple[int, ...]
) -> None:
    with pytest.raises(RetrievalError, match="query 'nowhere': compass failed to embed"):
        measure(retriever, [*CASES, BAD], concurrency=concurrency)


# Repeating


def test_the_same_comes_again_even_where_scores_tie(retriever: QdrantRetriever) -> None:
    told = Told()
    first = collect(retriever, CASES, silent)
    found = repeat(retriever, CASES, first, repeats=3, progress=told)
    assert found.query_ids == tuple(case.id for case in CASES for _ in range(3))
    assert (set(found.changed), set(found.score_deltas)) == ({False}, {0.0})
    assert told == [("repeating", n, 4) for n in (1, 2, 3, 4)]
    assert asked(retriever) == len(CASES) * 4, "every repetition embeds anew"


@pytest.mark.parametrize(("name", "delta"), [("plain", None), ("dense", 0.0), ("hybrid", 0.0)])
def test_the_same_comes_again_of_a_retriever_of_the_users_own(name: str, delta: float | None) -> None:
    cases = [make_case("q", query="the joint of an arm")]
    with open_settings(settings(name), env={}) as retriever:
        found = repeat(retriever, cases, collect(retriever, cases, silent), repeats=2, progress=silent)
    assert (found.changed, found.score_deltas) == ((False, False), (delta, delta))


def test_a_chunk_that_came_is_a_change_by_its_whole_score(tmp_path: Path) -> None:
    with open_retriever(make_store(tmp_path / "store"), Compass()) as retriever:
        first = collect(retriever, CASES, silent)
        upsert(writable(retriever.settings.store), "circle", {"new": 5})
        found = repeat(retriever, CASES, first, repeats=1, progress=silent)
    assert set(found.changed) == {True}
    expected = [max(0.0, cos(radians(angle - 5))) for angle in BY_ANGLE]
    assert found.score_deltas == pytest.approx(expected, abs=1e-6)
    observed = Observed(observations=(), repetitions=found)
    assert rate(observed, make_context()).value == 0.0
    assert max_score_delta(observed, make_context()).value == pytest.approx(max(expected), abs=1e-6)


def test_chunks_of_equal_score_that_changed_places_are_a_change(retriever: QdrantRetriever) -> None:
    """Ours never do, for the order is total; here the first result is one of a store that had them swapped."""

    def with_ties_swapped(found: Hits) -> list[int]:
        order, ids = {"tie-a": 1, "tie-b": 0}, found.chunk_ids
        return sorted(range(len(found)), key=lambda at: (-found.column("score")[at], order.get(ids[at], 2)))

    whole = collect(retriever, CASES, silent)
    first = whole.at(np.asarray([with_ties_swapped(hits) for hits in whole]))
    found = repeat(retriever, CASES, first, repeats=1, progress=silent)
    assert (found.changed, found.score_deltas) == ((True,) * 4, (0.0,) * 4)


@pytest.mark.parametrize(("delta", "identical"), [(6e-8, True), (-9e-7, True), (2e-6, False)])
def test_scores_may_differ_by_rounding(retriever: QdrantRetriever, delta: float, identical: bool) -> None:
    """A model on several threads gives scores that differ by 6e-8."""
    first = collect(retriever, CASES[:1], silent)
    moved = replace(first, columns={**first.columns, "score": first.columns["score"] + delta})
    found = repeat(retriever, CASES[:1], moved, repeats=1, progress=silent)
    assert (found.changed == (False,)) == identical
    assert found.score_deltas[0] == pytest.approx(abs(delta), rel=1e-3)

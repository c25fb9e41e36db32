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
from tests.support.compass import Compass, Drifting, cosines, make_store, open_retriever, upsert
from tests.support.foreign import settings
from tests.support.observed import make_case, make_context
from tests.support.writable import writable

CASES = [make_case(f"q{angle}", query=f"towards {angle} degrees") for angle in (0, 20, 45, 80)]
BY_ANGLE = {
    0: ["east", "near", "tie-a", "tie-b", "half", "north"],
    20: ["near", "east", "tie-a", "tie-b", "half", "north"],
    45: ["tie-a", "tie-b", "half", "near", "east", "north"],
    80: ["north", "half", "tie-a", "tie-b", "near", "east"],
}
"""Chunks by their angle to the query; of the two with one vector the lower id is first, though inserted later."""


class Told:
    """Progress, remembered."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, int]] = []

    def __call__(self, stage: str, done: int, total: int) -> None:
        self.calls.append((stage, done, total))


def silent(stage: str, done: int, total: int) -> None:
    pass


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


class TestCollect:
    def test_finds_everything_in_order_by_case(self, retriever: QdrantRetriever) -> None:
        found = collect(retriever, CASES, silent)
        for (angle, expected), one in zip(BY_ANGLE.items(), found, strict=True):
            assert list(one.chunk_ids) == expected
            assert one.column("score") == pytest.approx(cosines(angle, expected), abs=1e-6)
            assert one.facts.text == f"towards {angle} degrees"

    @pytest.mark.parametrize("depth", [1, 2, 3, 4, 6])
    def test_a_tie_at_the_edge_is_cut_by_chunk_id(self, store: Path, depth: int) -> None:
        with open_retriever(store, Compass(), top_k=1, candidates=depth) as shallow:
            found = collect(shallow, CASES, silent)
        for expected, candidates in zip(BY_ANGLE.values(), found, strict=True):
            assert [c.chunk.chunk_id for c in candidates] == expected[:depth]

    def test_tells_how_far_it_is_in_batches(self, retriever: QdrantRetriever) -> None:
        told = Told()
        many = [make_case(f"case-{n}", query=f"towards {n} degrees") for n in range(70)]
        found = collect(retriever, many, told)
        assert told.calls == [("retrieving", 32, 70), ("retrieving", 64, 70), ("retrieving", 70, 70)]
        assert len(found) == 70

    def test_a_failure_keeps_its_type_and_names_the_cases(self, retriever: QdrantRetriever) -> None:
        with pytest.raises(EmbeddingError, match=r"^cases 'q0' to 'bad': .*compass failed to embed: TimeoutError"):
            collect(retriever, [*CASES, make_case("bad", query="nowhere")], silent)

    def test_another_variant_shares_the_chunks(self, retriever: QdrantRetriever, store: Path) -> None:
        first = collect(retriever, CASES, silent)
        with open_retriever(store, Compass(), top_k=1, candidates=2) as narrow:
            found = collect(narrow, CASES, silent, first.chunks)
        assert found.chunks is first.chunks
        assert [one.chunk_ids for one in found] == [one.chunk_ids[:2] for one in first]


def measure(retriever: QdrantRetriever, cases: list[Case] = CASES, **settings: Any) -> Any:
    config = LatencyConfig.model_validate({"repeats": 1, "concurrency": (1,), **settings})
    return measure_latency(retriever, cases, config, silent)


class TestLatency:
    @pytest.mark.parametrize(("repeats", "levels"), [(1, (1,)), (2, (1, 4)), (3, (1, 2, 8))])
    def test_every_call_is_a_search_of_its_own_after_warm_up(
        self, retriever: QdrantRetriever, repeats: int, levels: tuple[int, ...]
    ) -> None:
        passes = measure(retriever, repeats=repeats, concurrency=levels)
        assert [len(p.timings) for p in passes] == [repeats * len(CASES)] * len(levels)
        assert asked(retriever) == WARMUP + repeats * len(CASES) * len(levels)

    def test_a_model_that_changes_between_the_passes_leaves_no_figure_for_the_second(self, store: Path) -> None:
        with open_retriever(store, Drifting(after=WARMUP + len(CASES), degrees=5)) as drifting:
            passes = measure(drifting, concurrency=(1, 4))
        assert [p.differing for p in passes] == [(), tuple(case.id for case in CASES)]
        figures = [
            stage_statistic(
                Observed(observations=(), latency=passes), make_context(), stage="total", statistic="p50", concurrency=n
            )
            for n in (1, 4)
        ]
        assert figures[0].value is not None and figures[0].n == len(CASES)
        assert (figures[1].value, figures[1].n_failed) == (None, len(CASES))

    @pytest.mark.parametrize("concurrency", [(1,), (1, 4)])
    def test_a_call_that_fails_stops_the_measurement_and_names_the_query(
        self, retriever: QdrantRetriever, concurrency: tuple[int, ...]
    ) -> None:
        with pytest.raises(RetrievalError, match="query 'nowhere': compass failed to embed"):
            measure(retriever, [*CASES, make_case("bad", query="nowhere")], concurrency=concurrency)


class TestRepeat:
    def test_the_same_again_even_where_scores_tie(self, retriever: QdrantRetriever) -> None:
        told = Told()
        first = collect(retriever, CASES, silent)
        found = repeat(retriever, CASES, first, repeats=3, progress=told)
        ids = tuple(case.id for case in CASES for _ in range(3))
        assert found.query_ids == ids
        assert (set(found.changed), set(found.score_deltas)) == ({False}, {0.0})
        assert told.calls == [("repeating", n, 4) for n in (1, 2, 3, 4)]
        assert asked(retriever) == len(CASES) * 4, "every repetition embeds anew"

    def test_a_chunk_that_came_is_a_change_by_its_whole_score(self, tmp_path: Path) -> None:
        with open_retriever(make_store(tmp_path / "store"), Compass()) as retriever:
            first = collect(retriever, CASES, silent)
            upsert(writable(retriever.settings.store), "circle", {"new": 5})
            found = repeat(retriever, CASES, first, repeats=1, progress=silent)
        assert set(found.changed) == {True}
        for delta, angle in zip(found.score_deltas, BY_ANGLE, strict=True):
            assert delta == pytest.approx(max(0.0, cos(radians(angle - 5))), abs=1e-6)
        observed = Observed(observations=(), repetitions=found)
        assert rate(observed, make_context()).value == 0.0
        assert max_score_delta(observed, make_context()).value == max(delta or 0.0 for delta in found.score_deltas)

    def test_chunks_of_equal_score_that_changed_places_are_a_change(self, retriever: QdrantRetriever) -> None:
        """Ours never do, for the order is total; here the first result is one of a store that had them swapped."""
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


def with_ties_swapped(found: Hits) -> list[int]:
    order, ids = {"tie-a": 1, "tie-b": 0}, found.chunk_ids
    return sorted(range(len(found)), key=lambda at: (-found.column("score")[at], order.get(ids[at], 2)))


class TestForeign:
    def test_is_asked_query_by_query_so_that_a_fault_names_its_case(self) -> None:
        told = Told()
        cases = [make_case("fine", query="arm"), make_case("bad", query="a channel"), make_case("never", query="arm")]
        with (
            open_settings(settings("raises_in_the_middle"), env={}) as retriever,
            pytest.raises(ForeignRetrieverError, match=r"^case 'bad': python .* failed: ConnectionError, the index"),
        ):
            collect(retriever, cases, told)
        assert told.calls == [("retrieving", 1, 3)]

    @pytest.mark.parametrize(("name", "delta"), [("plain", None), ("dense", 0.0), ("hybrid", 0.0)])
    def test_the_same_again(self, name: str, delta: float | None) -> None:
        cases = [make_case("q", query="the joint of an arm")]
        with open_settings(settings(name), env={}) as retriever:
            first = collect(retriever, cases, silent)
            found = repeat(retriever, cases, first, repeats=2, progress=silent)
        assert (found.changed, found.score_deltas) == ((False, False), (delta, delta))

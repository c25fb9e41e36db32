"""Collecting, timing and repeating, with the real retriever over an embedded collection on a circle."""

from collections.abc import Callable, Iterator
from itertools import chain
from itertools import repeat as repeat_value
from math import cos, radians
from pathlib import Path
from typing import Any

import pytest

from evals.cases.case import Case
from evals.collect import passes
from evals.collect.observations import Observed
from evals.collect.passes import Ranked, collect, measure_latency, ranked, repeat
from evals.errors import EvaluationError
from evals.metrics.timing import max_score_delta, rate, stage_statistic
from retrievers import QdrantRetriever
from retrievers.errors import EmbeddingError, ForeignRetrieverError, RetrievalError
from retrievers.records import StageTimings
from retrievers.retriever.opened import open_retriever as open_settings
from retrievers.search.candidates import Candidates, table_of
from tests.support import distances
from tests.support.collections import settings as collection_settings
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
    count: int = retriever.embeddings.inner.asked
    return count


class TestCollect:
    def test_finds_everything_in_order_by_case(self, retriever: QdrantRetriever) -> None:
        found = collect(retriever, CASES, silent)
        assert [one.text for one in found] == [case.query for case in CASES]
        for (angle, expected), one in zip(BY_ANGLE.items(), found, strict=True):
            assert list(one.chunk_ids) == expected
            assert one.column("score") == pytest.approx(cosines(angle, expected), abs=1e-6)
            assert one.text == f"towards {angle} degrees"

    def test_goes_to_full_depth_whatever_top_k_and_threshold(self, store: Path) -> None:
        with open_retriever(store, Compass(), top_k=1, threshold=0.99, candidates=4) as narrow:
            found = collect(narrow, CASES, silent)
        assert {len(candidates) for candidates in found} == {4}

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

    def test_another_variant_shares_chunks_and_equal_vectors(self, retriever: QdrantRetriever, store: Path) -> None:
        many = [make_case(f"case-{n}", query=f"towards {n} degrees") for n in range(40)]
        other = [*many[:-1], make_case("other", query="towards 80 degrees")]
        like = collect(retriever, many, silent)
        with open_retriever(store, Compass(), top_k=1, candidates=2) as narrow:
            alone, found = collect(narrow, other, silent), collect(narrow, other, silent, like)
        assert found.chunks is like.chunks
        shared = [vector is known for vector, known in zip(found.vectors, like.vectors, strict=True)]
        assert shared == [True] * 39 + [False], "a query of another text has another vector"
        for row, known in zip(found, alone, strict=True):
            assert row.text == known.text
            assert row.vector is not None and known.vector is not None
            assert row.vector.tolist() == known.vector.tolist()
        assert [one.chunk_ids for one in found] == [one.chunk_ids for one in alone]

    def test_no_cases_give_nothing(self, retriever: QdrantRetriever) -> None:
        assert not len(collect(retriever, [], silent))

    @pytest.mark.parametrize(
        ("query", "error", "message"),
        [
            ("nowhere", EmbeddingError, "compass failed to embed: TimeoutError, no answer in time"),
        ],
    )
    def test_a_failure_keeps_its_type_and_names_the_cases(
        self, retriever: QdrantRetriever, query: str, error: type[RetrievalError], message: str
    ) -> None:
        with pytest.raises(error) as caught:
            collect(retriever, [*CASES, make_case("bad", query=query)], silent)
        assert str(caught.value).startswith("cases 'q0' to 'bad': ")
        assert message in str(caught.value)
        assert not isinstance(caught.value, EvaluationError)


def measure(retriever: QdrantRetriever, cases: list[Case] = CASES, **settings: Any) -> Any:
    values: dict[str, Any] = {"warmup": 0, "repeats": 1, "concurrency": (1,), "progress": silent, **settings}
    return measure_latency(retriever, cases, **values)


class TestLatency:
    def test_calls_every_query_in_turn_at_every_concurrency(self, retriever: QdrantRetriever) -> None:
        passes = measure(retriever, repeats=3, concurrency=(1, 4))
        assert [p.concurrency for p in passes] == [1, 4]
        for timed in passes:
            assert list(timed.query_ids) == [case.id for case in CASES] * 3
            assert all(t.embed_ms and t.search_ms and t.total_ms and t.rerank_ms is None for t in timed.timings)

    @pytest.mark.parametrize(("warmup", "repeats", "levels"), [(0, 1, (1,)), (5, 2, (1, 4)), (1, 3, (1, 2, 8))])
    def test_every_call_is_a_search_of_its_own_after_warm_up(
        self, retriever: QdrantRetriever, warmup: int, repeats: int, levels: tuple[int, ...]
    ) -> None:
        passes = measure(retriever, warmup=warmup, repeats=repeats, concurrency=levels)
        assert [len(p.timings) for p in passes] == [repeats * len(CASES)] * len(levels)
        assert asked(retriever) == warmup + repeats * len(CASES) * len(levels)

    def test_results_under_concurrency_equal_the_serial_ones(self, retriever: QdrantRetriever) -> None:
        many = [make_case(f"case-{n}", query=f"towards {n} degrees") for n in range(60)]
        serial, concurrent = measure(retriever, many, concurrency=(1, 4))
        assert serial.differing == concurrent.differing == ()

    def test_tells_how_far_it_is(self, retriever: QdrantRetriever) -> None:
        told = Told()
        measure(retriever, CASES[:2], concurrency=(1, 4), warmup=3, progress=told)
        assert told.calls == [("timing", 1, 2), ("timing", 2, 2), ("timing ×4", 1, 2), ("timing ×4", 2, 2)]

    def test_a_model_that_changes_between_the_passes_leaves_no_figure_for_the_second(self, store: Path) -> None:
        with open_retriever(store, Drifting(after=len(CASES), degrees=5)) as drifting:
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

    def test_a_model_that_changes_within_the_serial_pass_is_seen(self, store: Path) -> None:
        """The second and last of three repetitions differ from the first: each query is named once."""
        with open_retriever(store, Drifting(after=len(CASES), degrees=5)) as drifting:
            (serial,) = measure(drifting, repeats=3)
        assert serial.differing == tuple(case.id for case in CASES)

    @pytest.mark.parametrize("concurrency", [(1,), (1, 4)])
    @pytest.mark.parametrize("warmup", [0, 5])
    def test_a_call_that_fails_stops_the_measurement_and_names_the_query(
        self, retriever: QdrantRetriever, concurrency: tuple[int, ...], warmup: int
    ) -> None:
        with pytest.raises(RetrievalError, match="query 'nowhere': compass failed to embed"):
            measure(retriever, [*CASES, make_case("bad", query="nowhere")], warmup=warmup, concurrency=concurrency)


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

    def test_another_vector_for_the_same_query_is_a_change(self, store: Path) -> None:
        with open_retriever(store, Drifting(after=len(CASES), degrees=5)) as drifting:
            first = collect(drifting, CASES, silent)
            found = repeat(drifting, CASES, first, repeats=1, progress=silent)
        assert found.changed == (True,) * 4
        for delta, angle in zip(found.score_deltas, BY_ANGLE, strict=True):
            before, after = cosines(angle, BY_ANGLE[angle]), cosines(angle + 5, BY_ANGLE[angle])
            expected = max(abs(a - b) for a, b in zip(before, after, strict=True))
            assert delta == pytest.approx(expected, abs=1e-6)

    def test_a_collection_that_changed_is_a_change(self, tmp_path: Path) -> None:
        """`north` moves from 90 to 65 degrees."""
        with open_retriever(make_store(tmp_path / "store"), Compass()) as retriever:
            first = collect(retriever, CASES, silent)
            upsert(writable(retriever.settings.store), "circle", {"north": 65})
            found = repeat(retriever, CASES, first, repeats=1, progress=silent)
        assert found.changed == (True,) * 4
        assert found.score_deltas[1] == pytest.approx(cos(radians(65 - 20)) - cos(radians(90 - 20)), abs=1e-6)

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
        first = table_of([with_ties_swapped(found) for found in collect(retriever, CASES, silent)])
        found = repeat(retriever, CASES, first, repeats=1, progress=silent)
        assert (found.changed, found.score_deltas) == ((True,) * 4, (0.0,) * 4)

    def test_a_query_that_fails_the_second_time_raises(self, retriever: QdrantRetriever) -> None:
        first = collect(retriever, CASES[:1], silent)
        changed = make_case(CASES[0].id, query="nowhere")
        with pytest.raises(EmbeddingError, match="compass failed to embed: TimeoutError, no answer in time"):
            repeat(retriever, [changed], first, repeats=1, progress=silent)


@pytest.mark.parametrize(("delta", "identical"), [(6e-8, True), (-9e-7, True), (2e-6, False)])
def test_scores_may_differ_by_rounding(
    retriever: QdrantRetriever, monkeypatch: pytest.MonkeyPatch, delta: float, identical: bool
) -> None:
    """A model on several threads gives scores that differ by 6e-8."""
    first = collect(retriever, CASES[:1], silent)
    monkeypatch.setattr(passes, "ranked", moved_by(delta))
    found = repeat(retriever, CASES[:1], first, repeats=1, progress=silent)
    assert (found.changed == (False,)) == identical
    assert found.score_deltas[0] == pytest.approx(abs(delta), rel=1e-3)


def moved_by(delta: float) -> Callable[[Candidates], Ranked]:
    """Return `ranked` that moves all scores after its first call."""
    deltas = chain([0.0], repeat_value(delta))
    return lambda found: tuple((i, (score or 0.0) + moved) for moved in [next(deltas)] for i, score in ranked(found))


def with_ties_swapped(found: Candidates) -> Candidates:
    order = {"tie-a": 1, "tie-b": 0}
    ids = found.chunk_ids
    return found.at(sorted(range(len(found)), key=lambda at: (-found.column("score")[at], order.get(ids[at], 2))))


A, B, C = ("a", 0.9), ("b", 0.5), ("c", 0.5)


def test_ranked_is_ids_with_scores_in_order(retriever: QdrantRetriever) -> None:
    found = retriever.search("towards 0 degrees")
    assert [chunk_id for chunk_id, _ in ranked(found.chunks)] == BY_ANGLE[0][:5]
    assert ranked(found.chunks)[0] == ("east", 1.0)


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

    def test_another_order_is_a_change(self) -> None:
        cases = [make_case("q")]
        with open_settings(settings("turning"), env={}) as retriever:
            first = collect(retriever, cases, silent)
            found = repeat(retriever, cases, first, repeats=1, progress=silent)
        assert (found.changed, found.score_deltas) == ((True,), (None,))

    def test_a_fault_at_the_second_time_names_its_case(self) -> None:
        cases = [make_case("bad", query="arm")]
        with open_settings(settings("raises_in_the_middle"), env={}) as retriever:
            first = collect(retriever, cases, silent)
            with pytest.raises(ForeignRetrieverError, match=r"^case 'bad': python"):
                repeat(retriever, [make_case("bad", query="a channel")], first, repeats=1, progress=silent)

    @pytest.mark.parametrize("name", ["plain", "asynchronous", "sparse"])
    def test_only_the_whole_call_is_timed(self, name: str) -> None:
        cases = [make_case("q", query="the joint of an arm")]
        with open_settings(settings(name), env={}) as retriever:
            passes = measure_latency(retriever, cases, warmup=1, repeats=3, concurrency=(1, 4), progress=silent)
        assert all(t == StageTimings(total_ms=t.total_ms) for timed in passes for t in timed.timings)
        observed = Observed(observations=(), latency=passes)
        for stage in ("embed", "search", "rerank"):
            figure = stage_statistic(observed, make_context(), stage=stage, statistic="p50", concurrency=1)
            assert (figure.value, figure.note) == (None, f"no {stage} stage ran")


@pytest.mark.parametrize("distance", distances.DISTANCES)
def test_candidates_in_a_table_are_ranked_as_the_chunks_one_by_one(distance: str, tmp_path: Path) -> None:
    own = {"collection": "mine", "distance": distance, "metadata": {"required": []}, "candidates": 20}
    with distances.collection("edge", distance, tmp_path) as store:
        config = collection_settings(store=store, embedding={"provider": "python", "model": "mine:make"}, **own)
        with QdrantRetriever.open(config, embeddings=distances.EMBEDDINGS) as retriever:
            for candidates in retriever.candidates(distances.QUERIES):
                assert len(candidates) == 20
                assert ranked(candidates) == ranked(tuple(candidates))

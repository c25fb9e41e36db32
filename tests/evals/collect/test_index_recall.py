"""Recall of the index: the arithmetic by hand, and whole runs over a server whose index misses points."""

from collections.abc import Iterator
from typing import Any

import pytest

from evals.collect.index_recall import recall
from evals.report.head import head
from evals.report.html import render_page
from evals.report.terminal import description, render
from retrievers.search.candidates import Candidates
from tests.support.candidates import found_candidates
from tests.support.collections import index_pages
from tests.support.experiment import Experiment, make_experiment, settings
from tests.support.grid_world import Bench
from tests.support.lossy_server import LossyServer
from tests.support.results import report, result


def points(scores: dict[int, float]) -> Candidates:
    return found_candidates([*scores], [*scores.values()])


NEAREST = {1: 0.9, 2: 0.8, 3: 0.7, 4: 0.7, 5: 0.6}


@pytest.mark.parametrize(
    ("found", "k", "share"),
    [
        (NEAREST, 3, 1.0),
        ({1: 0.9, 2: 0.8, 4: 0.7}, 3, 1.0),  # as near as 3
        ({1: 0.9, 3: 0.7, 5: 0.6}, 3, 2 / 3),
        ({1: 0.9, 2: 0.8, 5: 0.6, 3: 0.6}, 3, 2 / 3),  # the fourth does not count
        ({7: 0.9, 8: 0.8}, 2, 0.0),
        ({}, 2, 0.0),
        ({1: 0.9}, 3, 1 / 3),
        # Scores of quantised vectors: they order what was found, and are not compared with the exact ones.
        ({5: 0.99, 1: 0.5, 2: 0.4}, 2, 1 / 2),
        (NEAREST, 100, 1.0),
    ],
)
def test_recall_by_hand(found: dict[int, float], k: int, share: float) -> None:
    assert recall(points(NEAREST), points(found), k) == pytest.approx(share)


@pytest.fixture(scope="module")
def server() -> Iterator[LossyServer]:
    with LossyServer() as running:
        yield running


@pytest.fixture(scope="module")
def world(server: LossyServer, tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    made = make_experiment(tmp_path_factory.mktemp("lossy"))
    remote = settings(made, retriever__store={"url": server.url}, index__collection=None).retriever
    index_pages(remote, made.docs)
    return made


@pytest.fixture(scope="module")
def base(world: Experiment, server: LossyServer) -> dict[str, Any]:
    return {"retriever__store": {"url": server.url}, "index__collection": None, "retriever__candidates": 5}


@pytest.fixture(scope="module")
def bench(world: Experiment, base: dict[str, Any]) -> Bench:
    return Bench(settings(world, **base), {})


def test_a_built_index_is_measured_unasked_and_named_at_the_head(
    bench: Bench, world: Experiment, base: dict[str, Any]
) -> None:
    config = settings(world, **base, metrics=["*"])
    found = bench.run(config, config.retriever)
    (summary,) = [s for s in found.summaries if s.metric.startswith("index/")]
    # Every second of the first five of ten: 3 of 5.
    assert (summary.metric, summary.n) == ("index/ann_recall_at_5", 6)
    assert summary.value == pytest.approx(0.6)
    assert found.scores["index/ann_recall_at_5"] == {o.case.id: 0.6 for o in found.observed.observations}
    line = (
        "The index, not the model, loses near chunks: its search found 0.600 of the exact 5 nearest. See "
        "docs/search.md."
    )
    assert head(found, []).index == line
    made = report(found)
    assert made.plain()["scores"]["index/ann_recall_at_5"][0] == 0.6
    assert line in " ".join(render(made, width=120, color=False).split())
    assert f"**{line}**" in description(made)
    assert line in render_page(made)


def test_an_index_that_finds_all_is_not_named(bench: Bench, world: Experiment, base: dict[str, Any]) -> None:
    config = settings(world, **base, metrics=["index/*"], retriever__search_params={"hnsw_ef": 64})
    found = bench.run(config, config.retriever)
    assert [s.value for s in found.summaries if s.metric.startswith("index/")] == [1.0]
    assert head(found, []).index == ""
    assert head(result(), []).index == ""


@pytest.mark.parametrize("changes", [{"retriever__mode": "keyword"}, {"retriever__search_params": {"exact": True}}])
def test_where_nothing_can_be_missed_it_is_measured_by_name_alone(
    bench: Bench, world: Experiment, base: dict[str, Any], changes: dict[str, Any]
) -> None:
    config = settings(world, **base, **changes, metrics=["*"])
    assert not [s for s in bench.run(config, config.retriever).summaries if s.metric.startswith("index/")]
    named = settings(world, **base, **changes, metrics=["index/*"])
    (value,) = [s.value for s in bench.run(named, named.retriever).summaries if s.metric.startswith("index/")]
    assert value == (1.0 if "retriever__search_params" in changes else None)


def test_a_server_that_allows_no_exact_search_is_not_asked_for_one(
    bench: Bench, server: LossyServer, world: Experiment, base: dict[str, Any]
) -> None:
    server.rules.strict = {"search_allow_exact": False}
    try:
        config = settings(world, **base, metrics=["index/*"])
        (summary,) = [s for s in bench.run(config, config.retriever).summaries if s.metric.startswith("index/")]
        assert (summary.value, summary.n_unscored) == (None, 6)
        everything = settings(world, **base, metrics=["*"])
        assert not [s for s in bench.run(everything, config.retriever).summaries if s.metric.startswith("index/")]
    finally:
        server.rules.strict = None

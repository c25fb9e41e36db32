"""Runs and grids over collections of every distance: cell by cell against single runs and brute force."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evals import Evaluation, Experiment, Outputs, evaluate, sweep
from evals.collect.saved import read
from retrievers.records import Distance
from tests.support.distances import QUERIES, chunk_id, collection, ranked, semantic

RELEVANT = {number: ranked(semantic("dot", number))[1:8:3] for number in range(len(QUERIES))}
GOLDEN = [
    {
        "id": f"q{number}",
        "query": query,
        "in_scope": number < 2,
        **({"relevant_ids": {chunk_id(n): 1 for n in RELEVANT[number]}} if number < 2 else {}),
    }
    for number, query in enumerate(QUERIES)
]
METRICS = ("ranking/*", "scope/*", "queries/*")


@pytest.fixture(params=["dot"], scope="module")
def made(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Distance, dict[str, Any]]]:
    with collection("edge", request.param, tmp_path_factory.mktemp(request.param)) as store:
        yield request.param, store


def experiment(store: dict[str, Any], values: dict[str, Any], **others: Any) -> Experiment:
    own = {
        "store": store,
        "collection": "mine",
        "embedding": {"provider": "python", "model": "tests.support.distances:embeddings"},
        "metadata": {"required": []},
        "candidates": 20,
    }
    return Experiment.model_validate({"retriever": {**own, **values}, **{"metrics": METRICS, **others}})


def figures(run: Evaluation) -> dict[str, float | None]:
    return {name: summary.value for name, summary in run.metrics.items()}


def best_of(distance: Distance) -> list[float]:
    return [float(semantic(distance, n).max()) for n in range(len(QUERIES))]


def test_a_run_scores_what_a_raw_threshold_keeps(made: tuple[Distance, dict[str, Any]], tmp_path: Path) -> None:
    distance, store = made
    threshold = float(np.quantile(semantic(distance, 0), 0.8))
    run = evaluate(golden=GOLDEN, experiment=experiment(store, {"threshold": threshold}))
    for number, row in enumerate(run.report.queries):
        scores = semantic(distance, number)
        keeps = scores >= threshold
        kept = [n for n in ranked(scores) if keeps[n]][:5]
        assert [hit.chunk_id for hit in row.retrieved] == [chunk_id(n) for n in kept]
        assert [hit.score for hit in row.retrieved] == pytest.approx([scores[n] for n in kept], abs=1e-5)
        assert {hit.scale for hit in row.retrieved} <= {distance}
        assert row.top_score == pytest.approx(best_of(distance)[number], abs=1e-5)
    inside, outside = best_of(distance)[:2], best_of(distance)[2]
    wins = [score > outside for score in inside]
    assert figures(run)["scope/auroc"] == np.mean(wins)
    assert figures(run)["scope/max_out_of_scope_score"] is None
    assert figures(run)["scope/relevant_above_half"] is None
    assert f"distance {distance}" in run.report.settings
    page = run.save(tmp_path / "page.html").read_text()
    assert f'<th class="num">best {distance}<' in page and "best cosine" not in page
    assert '"scale": "dot product"' in page


def test_every_cell_of_a_grid_is_a_run_of_its_own(made: tuple[Distance, dict[str, Any]], tmp_path: Path) -> None:
    distance, store = made
    thresholds = [round(float(np.quantile(semantic(distance, 0), share)), 3) for share in (0.05, 0.3, 0.6, 1)]
    axes = {"mode": ["semantic", "keyword", "hybrid"], "top_k": [1, 4], "threshold": thresholds}
    grid = sweep(experiment(store, {"fusion": "rrf"}, sweep=axes), golden=GOLDEN)
    assert len(grid.cells) == 3 * 2 * 4
    for _, cell in grid.cells.iterrows():
        values = {"fusion": "rrf", "mode": cell["mode"], "top_k": int(cell["top_k"])}
        alone = evaluate(golden=GOLDEN, experiment=experiment(store, {**values, "threshold": cell["threshold"]}))
        for name, value in figures(alone).items():
            if name in grid.cells and value is not None:
                assert cell[name] == pytest.approx(value, abs=1e-12), (name, dict(values))
    assert "separates in scope from out of scope" in grid.swept.abstaining.separation
    assert f"distance {distance}" in grid.save(tmp_path / "page.html").read_text(encoding="utf-8")


def test_among_equal_cells_the_laxest_threshold_is_recommended(made: tuple[Distance, dict[str, Any]]) -> None:
    _, store = made
    ends = (-60.0, -50.0)
    axes = {"threshold": list(ends), "top_k": [3]}
    grid = sweep(experiment(store, {}, sweep=axes), golden=GOLDEN)
    assert grid.recommended is not None
    assert grid.recommended.threshold == ends[0]
    assert f"--retriever.threshold {ends[0]}" in grid.report.next_flags


def test_the_distance_is_read_where_none_is_named(made: tuple[Distance, dict[str, Any]]) -> None:
    distance, store = made
    run = evaluate(golden=GOLDEN, experiment=experiment(store, {}))
    assert [len(row.retrieved) for row in run.report.queries] == [5, 5, 5]
    assert run.report.facts.collection is not None
    assert run.report.facts.collection.content["distance"] == distance
    assert run.report.config["retriever"]["threshold"] is None
    grid = sweep(experiment(store, {}, sweep={"top_k": [1, 2]}), golden=GOLDEN)
    assert grid.cells["threshold"].isna().all() if "threshold" in grid.cells else True


def test_a_saved_retrieval_keeps_scores_and_direction(made: tuple[Distance, dict[str, Any]], tmp_path: Path) -> None:
    distance, store = made
    whole, file = experiment(store, {}), tmp_path / "saved"
    first = evaluate(golden=GOLDEN, experiment=whole, outputs=Outputs(retrieval=file))
    assert (read(file).origin.collection or {})["content"]["distance"] == distance
    again = evaluate(golden=GOLDEN, experiment=whole, from_retrieval=file)
    assert [row.retrieved for row in again.report.queries] == [row.retrieved for row in first.report.queries]
    assert figures(again)["scope/auroc"] == figures(first)["scope/auroc"]


def test_what_is_repeated_is_compared_as_it_is_shown(made: tuple[Distance, dict[str, Any]]) -> None:
    _, store = made
    whole = experiment(store, {}, metrics=("determinism/*", "latency/*"))
    run = evaluate(golden=GOLDEN, experiment=whole)
    assert figures(run)["determinism/rate"] == 1
    assert figures(run)["determinism/max_score_delta"] == pytest.approx(0, abs=1e-6)

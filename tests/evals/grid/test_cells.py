"""The results that cells keep against the selection of a single search, and their means against one cell at a time."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evals.cases.relevance import Relevance
from evals.collect.observations import Failure, Unscored
from evals.collect.pool import Pool
from evals.grid import cells
from evals.grid.axes import Plan, Variant
from evals.grid.cells import Grid, lay_out, score_cells
from evals.metrics.declaration import Context, QueryMetric, Scope, summarise
from evals.metrics.results import Results, Values
from retrievers.config import RetrieverConfig
from retrievers.records import Chunk, RetrievedChunk
from retrievers.search.candidates import ChunkList, joined
from retrievers.search.selection import select
from tests.support.observed import found_candidates, make_case, make_chunk, make_context

SCORES = [0.0, 0.25, 0.3, 0.5, 0.75, 1.0]
CHUNKS = [make_chunk(f"c{number}", module=module) for number, module in enumerate([None, "a", "a", "b", "b", None])]
# A chunk, its cosine and its final score: all of them repeat.
Found = tuple[Chunk, float, float]
FOUND = st.lists(st.tuples(st.sampled_from(CHUNKS), st.sampled_from(SCORES), st.sampled_from(SCORES)), max_size=8)
SETTINGS = st.fixed_dictionaries(
    {
        "mode": st.just("hybrid"),
        "threshold_on": st.sampled_from(["each", "best", "final"]),
        "group_by": st.sampled_from([None, "module"]),
    }
)


@st.composite
def grids(draw: st.DrawFn) -> Grid:
    """Return one to three configurations, each with its candidates; thresholds and cuts in any order."""
    chunks, queries = ChunkList(), draw(st.integers(1, 3))
    # With dot products and no threshold set, none is in force.
    options: st.SearchStrategy[dict[str, object]] = draw(st.sampled_from([SETTINGS, st.just({"threshold": None})]))
    thresholds = draw(st.lists(st.sampled_from(SCORES), unique=True, min_size=1, max_size=4))
    thresholds = thresholds if options is SETTINGS else [0.0]
    tables, variants = [], []
    for number in range(draw(st.integers(1, 3))):
        found = draw(st.lists(FOUND, min_size=queries, max_size=queries))
        tables.append(joined([found_candidates(hits(each), chunks) for each in found]))
        cut: dict[str, object] = {"top_k": 8, "candidates": 8, "threshold": min(thresholds)}
        config = RetrieverConfig.model_validate({**cut, **draw(options)})
        config = config if options is SETTINGS else config.compared_by("dot")
        variants.append(Variant(name=str(number), parameters={}, settings=config, thresholds=tuple(thresholds)))
    cases = tuple(make_case(f"q{query}", in_scope=query != 1) for query in range(queries))
    top_ks = tuple(draw(st.lists(st.integers(1, 8), unique=True, min_size=1, max_size=4)))
    return Grid(
        plan=Plan(variants=tuple(variants), top_ks=top_ks),
        pool=Pool(
            cases=cases, tables=tuple(tables), relevance=tuple(tuple(Relevance() for _ in cases) for _ in tables)
        ),
    )


def hits(found: list[Found]) -> list[RetrievedChunk]:
    return [
        RetrievedChunk(rank=rank, score=final, score_scale="weighted", scores={"semantic": cosine}, chunk=chunk)
        for rank, (chunk, cosine, final) in enumerate(found, 1)
    ]


@settings(max_examples=100)
@given(grids())
def test_every_cell_keeps_what_a_search_with_its_settings_returns_and_each_result_is_laid_out_once(grid: Grid) -> None:
    lists, queries = grid.pool.lists(range(len(grid.variants))), range(len(grid.pool.cases))
    results, row_of = lay_out(lists, grid.variants, grid.top_ks)
    assert row_of.shape == (len(grid), len(queries))
    for cell in [*map(grid.cell, range(len(grid)))]:
        expected = [select(grid.pool.tables[cell.variant][query], grid.settings(cell.index))[0] for query in queries]
        kept = results.at(row_of[cell.index])
        assert lists.variant[kept.list_of].tolist() == [cell.variant] * len(queries)
        assert lists.query[kept.list_of].tolist() == list(queries)
        for each in (kept, grid.results(cell.index)):
            assert [[place for place in places if place >= 0] for places in each.places.tolist()] == expected
    assert {*row_of.ravel().tolist()} == {*range(len(results))}
    if all(list(each.thresholds) == sorted(each.thresholds) for each in grid.variants):
        laid = [(number, *places) for number, places in zip(results.list_of, results.places.tolist(), strict=True)]
        assert len(laid) == len(set(laid))


ISSUES = (Failure(type="Timeout", message=""), Unscored(reason="no reference"))


def some_score(r: Results, _: Context) -> Values:
    """Return a share by what was kept; every fifth kind of result has failed, every fifth has no score."""
    asked = r.lists.query[r.list_of] + r.lists.variant[r.list_of]
    kinds = (asked + (r.places + 1) @ (3 ** np.arange(r.places.shape[1]))) % 5
    return Values.of(kinds / 4, (kinds == 0, ISSUES[0]), (kinds == 1, ISSUES[1]))


@pytest.mark.parametrize("block", [1, cells.BLOCK])
@pytest.mark.parametrize("scope", ["all", "in_scope"])
@given(grid=grids())
def test_means_and_counts_of_a_cell_are_those_of_its_results_alone(block: int, scope: Scope, grid: Grid) -> None:
    metric = QueryMetric(name="m", about="some", scope=scope, score=some_score)
    context = make_context()
    with mock.patch.object(cells, "BLOCK", block):
        found = score_cells(grid, {"m": metric}, context)["m"]
        matrix = grid.matrix(metric, context)
    inside = [query for query, case in enumerate(grid.pool.cases) if scope == "all" or case.in_scope]
    columns = []
    for cell in [*map(grid.cell, range(len(grid)))]:
        values = metric.values(grid.results(cell.index), context)
        columns.append([values[query] for query in inside])
        alone = summarise(metric, columns[-1])
        assert (found.n[cell.index], found.n_failed[cell.index]) == (alone.n, alone.n_failed)
        expected = np.nan if alone.value is None else alone.value
        np.testing.assert_allclose(found.mean[cell.index], expected, atol=1e-12)
    scored = np.asarray([[score if isinstance(score, float) else np.nan for score in each] for each in columns]).T
    np.testing.assert_allclose(matrix, scored, atol=1e-12)
    common = scored[~np.isnan(scored).any(axis=1)]
    assert found.n_common == len(common)
    np.testing.assert_allclose(found.common, common.mean(axis=0) if len(common) else np.nan, atol=1e-12)
    never = [all(isinstance(score, Unscored) for score in each) for each in zip(*columns, strict=True)]
    assert found.n_dropped == len(inside) - len(common) - sum(never)

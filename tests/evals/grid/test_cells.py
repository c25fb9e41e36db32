"""What cells keep, against selecting one by one; every result is laid out once."""

import random
from typing import Any

import numpy as np
import pytest

from evals.collect.observations import Observed
from evals.collect.pool import Pool
from evals.golden.evidence import Relevance
from evals.grid.cells import Configuration, Grid, lay_out
from retrievers.config import RetrieverConfig
from retrievers.search.candidate_table import CandidateTable
from retrievers.search.chunk_list import ChunkList
from retrievers.search.selection import select
from retrievers.search.table_builder import TableBuilder, table_of_hits
from tests.support.observed import make_case, make_chunk, results


def table(rng: random.Random, chunks: ChunkList, queries: int) -> CandidateTable:
    builder = TableBuilder(chunks)
    known = [make_chunk(f"c{n}", module=rng.choice(["a", "b", None])) for n in range(30)]
    for _ in range(queries):
        found = rng.sample(known, rng.choice([0, 1, 7, 12]))
        scores = [rng.choice([0.1, 0.3, 0.30001, 0.5, 0.9]) for _ in found]  # in no order, with ties
        builder.extend(table_of_hits(results(*found, scores=scores), chunks=chunks))
    return builder.table()


@pytest.mark.parametrize("changes", [{}, {"group_by": "module"}, {"threshold_on": "best"}])
@pytest.mark.parametrize("thresholds", [(0.0, 0.3, 0.4, 0.95), (0.5, 0.1, 0.3)])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_cell_keeps_what_its_settings_select(seed: int, thresholds: tuple[float, ...], changes: Any) -> None:
    rng, chunks, top_ks, queries = random.Random(seed), ChunkList(), (1, 3, 8), 9
    tables = tuple(table(rng, chunks, queries) for _ in range(2))
    cases = tuple(make_case(f"q{n}") for n in range(queries))
    pool = Pool(cases=cases, tables=tables, relevance=((Relevance(),) * queries,) * 2)
    settings = RetrieverConfig.model_validate({"top_k": 8, "threshold": min(thresholds), "candidates": 12, **changes})
    grid = Grid(
        axes={},
        top_ks=top_ks,
        configurations=tuple(
            Configuration(
                name=str(n), parameters={}, settings=settings, thresholds=thresholds, observed=Observed(observations=())
            )
            for n in range(2)
        ),
        pool=pool,
    )
    laid, row_of = lay_out(pool.lists(range(2)), grid.configurations, top_ks)
    assert row_of.shape == (len(grid), queries)
    assert np.array_equal(np.unique(row_of), np.arange(len(laid)))
    kept = [(number, *places[places >= 0]) for number, places in zip(laid.list_of.tolist(), laid.places, strict=True)]
    if thresholds == (0.0, 0.3, 0.4, 0.95) and "group_by" not in changes:
        assert len({*kept}) == len(kept), "a result is laid out once"
    for index in range(len(grid)):
        cell, alone = grid.cell(index), grid.results(index)
        for query in range(queries):
            expected, _ = select(tables[cell.configuration][query], grid.settings(index))
            row = row_of[index, query]
            assert laid.places[row][laid.places[row] >= 0].tolist() == expected
            assert alone.places[query][alone.places[query] >= 0].tolist() == expected
            assert laid.list_of[row] == cell.configuration * queries + query


def test_blocks_of_queries_score_as_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, chunks = random.Random(5), ChunkList()
    found = table(rng, chunks, 11)
    pool = Pool(cases=tuple(make_case(f"q{n}") for n in range(11)), tables=(found,), relevance=((Relevance(),) * 11,))
    settings = RetrieverConfig.model_validate({"top_k": 8, "threshold": 0.0, "candidates": 12})
    one = Configuration(
        name="", parameters={}, settings=settings, thresholds=(0.0, 0.4), observed=Observed(observations=())
    )
    grid = Grid(axes={}, top_ks=(1, 8), configurations=(one,), pool=pool)
    [(whole, row_of)] = grid.blocks()
    monkeypatch.setattr("evals.grid.cells.BLOCK", 60)
    parts = list(Grid(axes={}, top_ks=(1, 8), configurations=(one,), pool=pool).blocks())
    assert len(parts) > 2
    lengths = np.concatenate([part.lengths[rows] for part, rows in parts], axis=1)
    assert np.array_equal(lengths, whole.lengths[row_of])

"""The grid: which configurations its axes make, every cell beside a run of its own, and the ranking of cells."""

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import isnan
from pathlib import Path
from typing import Any, get_args
from unittest import mock

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import PositiveInt

from evals.cases.case import Case
from evals.cases.reading import load_golden
from evals.cases.relevance import Relevance
from evals.collect.observations import Failure, Unscored
from evals.collect.pool import Pool
from evals.config.experiment import ExperimentConfig, ObjectiveConfig, SweepConfig
from evals.grid import cells
from evals.grid.axes import VARIANT_AXES, Plan, Variant, effective, plan
from evals.grid.cells import Grid, lay_out, score_cells
from evals.grid.objective import Ranking, figures, rank
from evals.metrics import METRICS as METRICS_THERE_ARE
from evals.metrics import NEED_A_JUDGE
from evals.metrics.declaration import NO_LABELS, Context, QueryMetric, Scope, summarise
from evals.metrics.results import Results, Values
from retrievers.config import Fusion, Mode, RerankerName, RetrieverConfig
from retrievers.records import Chunk, RetrievedChunk
from retrievers.search.candidates import ChunkList, joined
from retrievers.search.selection import select
from tests.support.chat_server import KEYS, MODEL, CohereChatServer
from tests.support.experiment import Experiment, make_experiment, settings
from tests.support.grid_world import SIDE, alone, measured, swept
from tests.support.judging import Oracle
from tests.support.observed import found_candidates, make_case, make_chunk, make_context, metric_of

DEEP = [name for name in METRICS_THERE_ARE if name.startswith(("ranking/", "candidates/"))]
METRICS = [*DEEP, "ragas/*", "metadata/*", "content/*", "scope/*", "cost/*", "queries/*"]
EVERY_WAY = {
    "mode": ["semantic", "keyword", "hybrid"],
    "fusion": ["weighted", "rrf", "dbsf"],
    "rerank": ["none", "mmr", "cross-encoder"],
}
VARIANTS = 15


@pytest.fixture(scope="module")
def server() -> Iterator[CohereChatServer]:
    with CohereChatServer(Oracle()) as started:
        yield started


def experiment(world: Experiment, server: CohereChatServer, **changes: Any) -> ExperimentConfig:
    reranker = {"retriever__cross_encoder": {"base_url": server.url}}
    return settings(world, **{"metrics": METRICS, "retriever__candidates": 20, **reranker, **changes})


def differing(found: Any, config: ExperimentConfig, cells: int, seed: int, **given: Any) -> list[Any]:
    rng = random.Random(seed)
    grid, made = found.swept.grid, list[Any]()
    for number in range(len(grid.variants)):
        cells_of = range(number * grid.size, (number + 1) * grid.size)
        for index in rng.sample(cells_of, k=min(cells, len(cells_of))):
            made += differences(found, index, alone(config, grid.settings(index), **given))
    return made


def differences(found: Any, index: int, alone: Any) -> list[Any]:
    """In what a cell is not as in a run of its own: scores of every query, their mean and counts."""
    grid = found.swept.grid
    cell, own = grid.cell(index), {summary.metric: summary for summary in alone.summaries}
    made: list[Any] = []
    for name, known in grid.metrics.items():
        if name in alone.scores:
            inside = [case.is_of(metric_of(name).scope) for case in grid.pool.cases]
            column = grid.matrix(metric_of(name), found.context)[inside, index].tolist()
            scores = [score if isinstance(score, float) else None for score in alone.scores[name].values()]
            if [None if isnan(score) else pytest.approx(score, abs=1e-12) for score in column] != scores:
                made.append((cell, name, column, scores))
        summary = own[name]
        mean = None if known.n[index] == 0 else pytest.approx(known.mean[index], abs=1e-12)
        here = (mean, known.n[index], known.n_failed[index])
        if here != (summary.value, summary.n, summary.n_failed):
            made.append((cell, here, summary))
    whole = grid.summaries[cell.variant]
    made += [(cell, summary, own[summary.metric]) for summary in whole if summary != own[summary.metric]]
    of_the_judge = NEED_A_JUDGE - grid.metrics.keys()  # what it cost and how far it is to be trusted: of the whole grid
    known_here = {*grid.metrics, *(s.metric for s in grid.summaries[0])}
    if own.keys() - of_the_judge != known_here:
        made.append((cell, own.keys() ^ known_here))
    return made


@pytest.mark.parametrize(("cells", "seed"), [(1, 1), pytest.param(6, 2, marks=pytest.mark.slow)])
def test_in_every_mode_and_reranker(world: Experiment, server: CohereChatServer, cells: int, seed: int) -> None:
    config = experiment(world, server, sweep={**EVERY_WAY, "top_k": "1:8", "threshold": "0:0.9:0.1"})
    found = measured(config, env=KEYS)
    assert len(found.swept.grid.variants) == VARIANTS
    assert len(found.swept.grid) == VARIANTS * 8 * 10
    assert differing(found, config, cells, seed, env=KEYS) == []


def test_with_queries_that_have_no_labels(world: Experiment, server: CohereChatServer, tmp_path: Path) -> None:
    sweep = {"mode": ["semantic", "hybrid"], "top_k": "1:4", "threshold": "0,0.3"}
    judge = {"model": f"cohere:{MODEL}", "base_url": server.url, "cache_path": tmp_path / "verdicts.sqlite"}
    config = experiment(world, server, metrics=[*METRICS, "ragas/llm_context_precision"], judge=judge, sweep=sweep)
    golden = load_golden(config.dataset)
    given: Any = {"env": KEYS, "golden": replace(golden, cases=tuple(map(_unlabelled, golden.cases)))}
    found = measured(config, **given)
    assert differing(found, config, cells=1, seed=6, **given) == []
    for name in ("ranking/ndcg_at_3", "candidates/recall_at_10", "ragas/nonllm_context_recall", "queries/pass_rate"):
        assert found.swept.grid.metrics[name].n_dropped == 0
    scores = found.scores["ranking/ndcg_at_3"]
    assert {key for key, score in scores.items() if score == NO_LABELS} == {"in0", "in1", "in2"}
    assert NO_LABELS not in found.scores["scope/false_abstention"].values()


def _unlabelled(case: Case) -> Case:
    return case.model_copy(update={"evidence": []}) if case.id in ("in0", "in1", "in2") else case


@pytest.mark.parametrize(
    ("python", "sweep"),
    [
        ("plain", {"top_k": "1:5"}),
        ("repeating", {"top_k": "1:6"}),
        ("with_ids", {"top_k": "1:3", "candidates": "3,5"}),
        ("dense", {"top_k": "1:5", "threshold": "0:1:0.1"}),
    ],
)
def test_of_retrievers_that_are_not_ours(tmp_path: Path, python: str, sweep: dict[str, str]) -> None:
    own = {"python": f"tests.support.foreign:{python}", "candidates": 6}
    config = settings(make_experiment(tmp_path), metrics=METRICS, retriever=own, index={}, sweep=sweep)
    assert differing(measured(config), config, cells=3, seed=5) == []


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
    chunks, queries = ChunkList(), draw(st.integers(1, 3))
    options: st.SearchStrategy[dict[str, object]] = draw(st.sampled_from([SETTINGS, st.just({"threshold": None})]))
    thresholds = draw(st.lists(st.sampled_from(SCORES), unique=True, min_size=1, max_size=4))
    thresholds = thresholds if options is SETTINGS else [0.0]
    tables, variants = [], []
    for number in range(draw(st.integers(1, 3))):
        found = draw(st.lists(FOUND, min_size=queries, max_size=queries))
        tables.append(joined([found_candidates(hits(each), chunks) for each in found]))
        cut: dict[str, object] = {"top_k": 8, "candidates": 8, "threshold": min(thresholds)}
        config = RetrieverConfig.model_validate({**cut, **draw(options)})
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


@hypothesis.settings(max_examples=100)
@given(grids())
def test_every_cell_keeps_what_a_search_with_its_settings_returns_and_each_result_is_laid_out_once(grid: Grid) -> None:
    lists, queries = grid.pool.lists(range(len(grid.variants))), range(len(grid.pool.cases))
    results, row_of = lay_out(lists, grid.variants, grid.top_ks)
    assert row_of.shape == (len(grid), len(queries))
    for index, cell in enumerate(map(grid.cell, range(len(grid)))):
        expected = [select(grid.pool.tables[cell.variant][query], grid.settings(index))[0] for query in queries]
        kept = results.at(row_of[index])
        assert lists.variant[kept.list_of].tolist() == [cell.variant] * len(queries)
        assert lists.query[kept.list_of].tolist() == list(queries)
        for each in (kept, grid.results(index)):
            assert [[place for place in places if place >= 0] for places in each.places.tolist()] == expected
    assert {*row_of.ravel().tolist()} == {*range(len(results))}
    if all(list(each.thresholds) == sorted(each.thresholds) for each in grid.variants):
        laid = [(number, *places) for number, places in zip(results.list_of, results.places.tolist(), strict=True)]
        assert len(laid) == len(set(laid))


ISSUES = (Failure(failed="Timeout: "), Unscored(reason="no reference"))


def some_score(r: Results, _: Context) -> Values:
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
    for index in range(len(grid)):
        values = metric.values(grid.results(index), context)
        columns.append([values[query] for query in inside])
        alone = summarise(metric, columns[-1])
        assert (found.n[index], found.n_failed[index]) == (alone.n, alone.n_failed)
        expected = np.nan if alone.value is None else alone.value
        np.testing.assert_allclose(found.mean[index], expected, atol=1e-12)
    scored = np.asarray([[score if isinstance(score, float) else np.nan for score in each] for each in columns]).T
    np.testing.assert_allclose(matrix[inside], scored, atol=1e-12)
    assert np.isnan(np.delete(matrix, inside, axis=0)).all()
    common = scored[~np.isnan(scored).any(axis=1)]
    assert found.n_common == len(common)
    np.testing.assert_allclose(found.common, common.mean(axis=0) if len(common) else np.nan, atol=1e-12)
    never = [all(isinstance(score, Unscored) for score in each) for each in zip(*columns, strict=True)]
    assert found.n_dropped == len(inside) - len(common) - sum(never)


# Configurations and ranking

RANKED_METRICS = ["ranking/*", "ranking/recall_at_10", "scope/*", "metadata/*", "content/topic_match", "queries/*"]
NDCG = "ranking/ndcg_at_10"


def planned(sweep: dict[str, Any], **base: Any) -> Plan:
    return plan(RetrieverConfig.model_validate(base), SweepConfig.model_validate(sweep))


def test_of_depths_that_change_nothing_the_least_is_taken_and_combinations_that_find_the_same_are_one() -> None:
    for sweep, base, expected in (
        ({"fusion": ["weighted", "rrf"]}, {}, ["semantic"]),
        ({"candidates": "100,50"}, {}, ["semantic"]),
        ({"candidates": "50,100"}, {"mode": "keyword"}, ["keyword candidates 50", "keyword candidates 100"]),
        ({"candidates": "50,100"}, {"group_by": "module"}, ["semantic candidates 50", "semantic candidates 100"]),
    ):
        made = planned(sweep, **base)
        assert [variant.name for variant in made.variants] == expected
        assert "candidates" not in sweep or made.variants[0].settings.candidates == 50


BASES = [
    {"mode": mode, "fusion": fusion, "rerank": rerank, "threshold": 0.3}
    for mode, fusion, rerank in product(get_args(Mode), get_args(Fusion), get_args(RerankerName))
]


def two_values(name: str) -> tuple[Any, Any]:
    (kind,) = {kind for kind in get_args(SweepConfig.model_fields[name].annotation) if kind is not ...}
    choices: dict[Any, tuple[Any, Any]] = {PositiveInt: (50, 60)}
    choices[RerankerName] = ("none", "mmr")
    return choices.get(kind) or get_args(kind)[:2]


@pytest.mark.parametrize("name", VARIANT_AXES)
def test_every_declared_axis_changes_the_key_of_a_variant_wherever_it_applies(name: str) -> None:
    one, other = two_values(name)
    applicable = [base for base in BASES if name in effective(RetrieverConfig.model_validate(base))]
    assert applicable, "there is a way to retrieve in which it means something"
    for base in applicable:
        made = planned({name: [one, other]}, **base).variants
        assert len({tuple(effective(variant.settings).items()) for variant in made}) == 2
        assert {variant.parameters[name] for variant in made} == {one, other}
        assert len({variant.name for variant in made}) == 2


def small(world: Experiment, **changes: Any) -> ExperimentConfig:
    return swept(world, **{"metrics": RANKED_METRICS, "objective": SIDE, **changes})


@pytest.fixture(scope="module")
def found(world: Experiment) -> Any:
    return measured(small(world, criteria={NDCG: ">= 0.1"}))


@pytest.fixture
def grid(found: Any) -> Any:
    return found.swept.grid


def ranked(grid: Grid, incomplete: str = "", remaining: Any = None, **objective: Any) -> Ranking:
    return rank(grid, ObjectiveConfig.model_validate(objective), incomplete, remaining)


def test_cells_are_ranked_by_the_objective_then_by_threshold_then_by_what_they_cost(found: Any, grid: Grid) -> None:
    known, tokens = grid.metrics[NDCG].mean, grid.metrics["cost/context_tokens"].mean
    allowed = [cell for cell in range(100) if known[cell] >= 0.1]
    expected = sorted(allowed, key=lambda cell: (-known[cell], grid.cell(cell).threshold, tokens[cell], cell))
    ranking = found.swept.ranking
    assert [*ranking.order] == expected and found.swept.chosen == expected[0]
    assert (ranking.n, ranking.dropped, (~ranking.allowed).sum()) == ({NDCG: 8}, {NDCG: 0}, 100 - len(allowed))
    # Cells that were proved worse while they were judged are out, unless no other meets the constraints.
    remaining = np.arange(100) % 2 == 0
    constraints = {NDCG: ">= 0.1"}
    others = ranked(grid, remaining=remaining, constraints=constraints)
    assert [*others.order] == [cell for cell in expected if cell % 2 == 0]
    assert ranked(grid, remaining=known < 0.1, constraints=constraints).order == ranking.order


def test_cells_that_miss_a_constraint_are_not_ranked(grid: Grid) -> None:
    made = ranked(grid, constraints={"scope/false_answer": "<= 0.4", "scope/auroc": ">= 0"})
    false = grid.metrics["scope/false_answer"].mean
    assert set(made.order) == {cell for cell in range(100) if false[cell] <= 0.4}
    assert 0 < (~made.allowed).sum() == 100 - len(made.order) < 100


def test_without_a_cell_left_none_is_ranked_unless_all_was_judged(grid: Grid) -> None:
    made = ranked(grid, incomplete="spent", constraints={"scope/false_answer": "< 0"})
    assert (made.order, made.reason) == ((), "no cell meets the constraints by what was judged")


@pytest.mark.parametrize(("dropped", "is_ranked"), [(1, True), (2, False)])
def test_cells_are_ranked_where_at_most_a_twentieth_of_the_queries_is_scored_in_some_alone(
    grid: Grid, dropped: int, is_ranked: bool
) -> None:
    scores = replace(grid.metrics[NDCG], n_dropped=dropped, n_common=20 - dropped)
    grid = replace(grid, metrics={**grid.metrics, NDCG: scores})
    assert bool(ranked(grid, metrics={NDCG: 1.0}).order) == is_ranked
    unjudged = ranked(grid, metrics={"scope/false_abstention": -1.0}, incomplete="spent", constraints={NDCG: ">= 0"})
    assert unjudged.order, "a condition that no judge is asked about keeps no cell from being ranked"


def test_where_scores_failed_a_condition_is_held_against_the_worse_bound(grid: Grid) -> None:
    known = grid.metrics[NDCG]
    failed = replace(known, n_failed=np.array([2, 1, *[0] * 98]))
    grid = replace(grid, metrics={NDCG: failed})
    for symbol, lost in ((">=", 0), (">", 0), ("<=", 2), ("<", 2), ("==", np.nan)):
        expected = [(known.mean[0] * 8 + lost) / 10, (known.mean[1] * 8 + lost / 2) / 9, *known.mean[2:]]
        assert figures(grid, NDCG, symbol=symbol) == pytest.approx(expected, nan_ok=True)


def test_metadata_are_required_that_were_named_or_else_those_that_the_chunks_have(world: Experiment) -> None:
    named = measured(
        settings(world, metrics=["metadata/*"], retriever__metadata={"required": ["title", "page_number"]})
    )
    usual = measured(settings(world, metrics=["metadata/*"]))
    assert named.context.required == ("title", "page_number") == named.config.retriever.metadata.required
    assert {"title", "section_path"} < {*usual.context.required} and "page_number" not in usual.context.required
    shares = [found.scores["metadata/completeness"]["in0"] for found in (named, usual)]
    assert shares == [0.5, 1.0]


@pytest.mark.parametrize(
    ("constraints", "timed"), [({}, [False, True]), ({"latency/total_p50_ms": "< 1e9"}, [True] * 2)]
)
def test_calls_are_timed_under_the_recommended_cell_alone_unless_a_constraint_reads_times(
    world: Experiment, constraints: dict[str, str], timed: list[bool]
) -> None:
    grid = measured(swept(world, objective={**SIDE, "constraints": constraints})).swept.grid
    assert sorted(bool(observed.latency) for observed in grid.observed) == timed

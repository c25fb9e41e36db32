"""Judgements as TREC has them, in runs: grades of 0 and below, and relevant chunks that the collection lacks."""

import random
from collections.abc import Mapping
from statistics import fmean

import pytest
import pytrec_eval

from evals.collect.observations import Observation
from evals.metrics.run_result import RunResult
from evals.report.building.queries import query_rows
from retrievers import QdrantRetriever
from tests.support.experiment import settings
from tests.support.grid_world import Bench, make_world

GONE = "gone"
Qrels = Mapping[str, Mapping[str, int]]
MEASURES = {
    "hit_rate_at_5": "success_5", "precision_at_5": "P_5", "recall_at_5": "recall_5", "map_at_5": "map_cut_5",
    "ndcg_at_5": "ndcg_cut_5", "ndcg_at_10": "ndcg_cut_10",
}  # fmt: skip


@pytest.fixture(scope="module")
def qrels() -> dict[str, dict[str, int]]:
    """Filled by the fixture `result`, which knows the ids."""
    return {}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory, qrels: dict[str, dict[str, int]]) -> RunResult:
    """A run over judgements from -2 to 3 of known chunks, and one relevant chunk that is not there."""
    world, rng = make_world(tmp_path_factory.mktemp("world")), random.Random(3)
    config = settings(world, retriever__top_k=5, metrics=["ranking/*", "ranking/ndcg_at_10", "candidates/ndcg_at_10"])
    queries = {case.id: case.query for case in Bench(config, {}).golden.cases if case.in_scope}
    with QdrantRetriever.open(config.retriever, env={}) as retriever:
        ids = sorted(chunk.chunk_id for chunk in retriever.chunks())
        found = retriever.candidates([*queries.values()])
    for query, candidates in zip(queries, found, strict=True):
        near = [chunk.chunk.chunk_id for chunk in candidates[:8]]
        judged = {key: rng.choice([-2, -1, 0, 1, 2, 3]) for key in rng.sample(near, 5)}
        qrels[query] = judged | {key: rng.randint(1, 3) for key in rng.sample(ids, 4)}
    qrels["in0"] |= {GONE: 3}
    world.write_golden([{"id": name, "query": queries[name], "relevant_ids": qrels[name]} for name in queries])
    return Bench(config, {}).run(config, config.retriever)


def observed(result: RunResult, case_id: str) -> Observation:
    return next(o for o in result.observed.observations if o.case.id == case_id)


@pytest.mark.parametrize("name", MEASURES)
def test_scores_are_those_of_pytrec_eval_on_all_judgements(result: RunResult, qrels: Qrels, name: str) -> None:
    run = {
        o.case.id: {key: float(-place) for place, key in enumerate(o.ranked_ids)}
        for o in result.observed.observations
        if o.selection
    }
    measure = "{}.{}".format(*MEASURES[name].rsplit("_", 1))
    expected = pytrec_eval.RelevanceEvaluator(qrels, {measure}).evaluate(run)
    scores = {query: expected.get(query, {}).get(MEASURES[name], 0.0) for query in qrels}
    assert result.scores[f"ranking/{name}"] == pytest.approx(scores, abs=1e-12)
    mean = next(s.value for s in result.summaries if s.metric == f"ranking/{name}")
    assert mean == pytest.approx(fmean(scores.values()), abs=1e-12)


def test_what_was_judged_and_what_is_missing_stays_known(result: RunResult, qrels: Qrels) -> None:
    for row in query_rows(result):
        judged = qrels[row.id]
        assert row.relevant == {key: grade for key, grade in judged.items() if grade > 0}
        assert row.irrelevant == sorted(key for key, grade in judged.items() if grade <= 0)
        assert row.missing == ([GONE] if row.id == "in0" else [])
    assert any(observed(result, query).relevance.irrelevant for query in qrels)


def test_the_run_says_which_relevant_chunk_is_not_there_and_how_much_was_never_judged(result: RunResult) -> None:
    relevant = {key for o in result.observed.observations for key in o.relevance.grades}
    missing = (
        f"1 of {len(relevant)} relevant chunks is not in the collection and counts as not retrieved: 'gone' (case in0)"
    )
    assert missing in result.notes
    assert any(note.endswith("returned chunks were never judged: they count as not relevant") for note in result.notes)

"""Judgements as TREC has them, in runs: grades of 0 and below, and relevant chunks that the collection lacks."""

import random
from collections.abc import Mapping
from statistics import fmean

import pytest
import pytrec_eval

from evals import Evaluation, evaluate
from retrievers import QdrantRetriever
from tests.support.experiment import index, settings
from tests.support.golden_labels import load
from tests.support.grid_world import make_world

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
def result(tmp_path_factory: pytest.TempPathFactory, qrels: dict[str, dict[str, int]]) -> Evaluation:
    """A run over judgements from -2 to 3 of known chunks, and one relevant chunk that is not there."""
    world, rng = make_world(tmp_path_factory.mktemp("world")), random.Random(3)
    config = settings(world, retriever__top_k=5, metrics=["ranking/*", "ranking/ndcg_at_10", "candidates/ndcg_at_10"])
    index(config, {})
    queries = {case.id: case.query for case in load(world.golden).cases if case.in_scope}
    with QdrantRetriever.open(config.retriever, env={}) as retriever:
        ids = sorted(chunk.chunk_id for chunk in retriever.chunks())
        found = retriever.candidates([*queries.values()])
    for query, candidates in zip(queries, found, strict=True):
        near = [chunk.chunk.chunk_id for chunk in candidates[:8]]
        judged = {key: rng.choice([-2, -1, 0, 1, 2, 3]) for key in rng.sample(near, 5)}
        qrels[query] = judged | {key: rng.randint(1, 3) for key in rng.sample(ids, 4)}
    qrels["in0"] |= {GONE: 3}
    world.write_golden([{"id": name, "query": queries[name], "relevant_ids": qrels[name]} for name in queries])
    measured: Evaluation = evaluate(experiment=config, env={})
    return measured


@pytest.mark.parametrize("name", MEASURES)
def test_scores_are_those_of_pytrec_eval_on_all_judgements(result: Evaluation, qrels: Qrels, name: str) -> None:
    run = {
        row.id: {hit.chunk_id: float(-hit.rank) for hit in reversed(row.retrieved)}
        for row in result.report.queries
        if row.retrieved
    }
    measure = "{}.{}".format(*MEASURES[name].rsplit("_", 1))
    expected = pytrec_eval.RelevanceEvaluator(qrels, {measure}).evaluate(run)
    scores = {query: expected.get(query, {}).get(MEASURES[name], 0.0) for query in qrels}
    assert {row.id: row.scores[f"ranking/{name}"] for row in result.report.queries} == pytest.approx(scores, abs=1e-12)
    assert result.metrics[f"ranking/{name}"].value == pytest.approx(fmean(scores.values()), abs=1e-12)


def test_what_was_judged_and_what_is_missing_stays_known(result: Evaluation, qrels: Qrels) -> None:
    assert [row.id for row in result.report.queries] == [*qrels]
    for row in result.report.queries:
        judged = qrels[row.id]
        assert row.relevant == {key: grade for key, grade in judged.items() if grade > 0}
        assert row.irrelevant == sorted(key for key, grade in judged.items() if grade <= 0)
        assert row.missing == ([GONE] if row.id == "in0" else [])
    assert any(row.irrelevant for row in result.report.queries)


def test_the_run_says_which_relevant_chunk_is_not_there_and_how_much_was_never_judged(result: Evaluation) -> None:
    relevant = {key for row in result.report.queries for key in row.relevant}
    missing = (
        f"the collection lacks 1 of {len(relevant)} relevant chunks, which nothing can retrieve: 'gone' (case in0)"
    )
    assert missing in result.report.notes
    assert any(
        note.endswith("returned chunks were never judged: they count as not relevant") for note in result.report.notes
    )

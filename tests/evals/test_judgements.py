"""Judgements as TREC has them, in a run: grades of 0 and below, and a relevant chunk that the collection lacks."""

import random
from statistics import fmean

import pytest
import pytrec_eval

from evals import Evaluation, evaluate
from retrievers import QdrantRetriever
from tests.support.experiment import index, settings
from tests.support.grid_world import make_world
from tests.support.judging import load

GONE = "gone"
Qrels = dict[str, dict[str, int]]
MEASURES = {
    "hit_rate_at_5": "success_5", "precision_at_5": "P_5", "recall_at_5": "recall_5", "map_at_5": "map_cut_5",
    "ndcg_at_5": "ndcg_cut_5", "ndcg_at_10": "ndcg_cut_10",
}  # fmt: skip


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Evaluation, Qrels]:
    """A run over judgements from -2 to 3 of known chunks, and one relevant chunk that is not there."""
    world, rng = make_world(tmp_path_factory.mktemp("world")), random.Random(3)
    config = settings(world, retriever__top_k=5, metrics=["ranking/*", "ranking/ndcg_at_10", "candidates/ndcg_at_10"])
    index(config, {})
    queries = {case.id: case.query for case in load(world.golden).cases if case.in_scope}
    with QdrantRetriever.open(config.retriever, env={}) as retriever:
        ids = sorted(chunk.chunk_id for chunk in retriever.chunks())
        found = retriever.candidates([*queries.values()])
    qrels: Qrels = {}
    for query, candidates in zip(queries, found, strict=True):
        near = [chunk.chunk.chunk_id for chunk in candidates[:8]]
        judged = {key: rng.choice([-2, -1, 0, 1, 2, 3]) for key in rng.sample(near, 5)}
        qrels[query] = judged | {key: rng.randint(1, 3) for key in rng.sample(ids, 4)}
    qrels["in0"] |= {GONE: 3}
    world.write_golden([{"id": name, "query": queries[name], "relevant_ids": qrels[name]} for name in queries])
    return evaluate(experiment=config, env={}), qrels


@pytest.mark.parametrize("name", MEASURES)
def test_scores_are_those_of_pytrec_eval_on_all_judgements(judged: tuple[Evaluation, Qrels], name: str) -> None:
    (result, qrels), theirs = judged, MEASURES[name]
    run = {
        row.id: {hit.chunk_id: float(-hit.rank) for hit in reversed(row.retrieved)}
        for row in result.report.queries
        if row.retrieved
    }
    expected = pytrec_eval.RelevanceEvaluator(qrels, {"{}.{}".format(*theirs.rsplit("_", 1))}).evaluate(run)
    scores = {query: expected.get(query, {}).get(theirs, 0.0) for query in qrels}
    assert {row.id: row.scores[f"ranking/{name}"] for row in result.report.queries} == pytest.approx(scores, abs=1e-12)
    assert result.metrics[f"ranking/{name}"].value == pytest.approx(fmean(scores.values()), abs=1e-12)


def test_what_was_judged_and_what_is_missing_stays_known(judged: tuple[Evaluation, Qrels]) -> None:
    result, qrels = judged
    assert [row.id for row in result.report.queries] == [*qrels]
    for row in result.report.queries:
        grades = qrels[row.id]
        assert row.relevant == {key: grade for key, grade in grades.items() if grade > 0}
        assert row.irrelevant == sorted(key for key, grade in grades.items() if grade <= 0)
        assert row.missing == ([GONE] if row.id == "in0" else [])
    relevant = {key for row in result.report.queries for key in row.relevant}
    lacks = f"the collection lacks 1 of {len(relevant)} relevant chunks, which nothing can retrieve: 'gone' (case in0)"
    assert lacks in result.report.notes
    never = "returned chunks were never judged: they count as not relevant"
    assert any(note.endswith(never) for note in result.report.notes)

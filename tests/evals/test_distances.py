"""Runs and grids over a collection compared by dot products, and over a `QdrantVectorStore` of the user's own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from langchain_qdrant import QdrantVectorStore, RetrievalMode

from evals import Evaluation, Experiment, Outputs, evaluate, sweep
from evals.errors import ExperimentError
from retrievers.errors import ConfigError
from tests.support.distances import QUERIES, chunk_id, collection, ranked, semantic
from tests.support.foreign import vector_store

SCORES = [semantic(number) for number in range(len(QUERIES))]
GOLDEN: list[dict[str, Any]] = [
    {"id": f"q{number}", "query": query, "relevant_ids": {chunk_id(n): 1 for n in ranked(SCORES[number])[1:8:3]}}
    for number, query in enumerate(QUERIES[:2])
]
GOLDEN.append({"id": "q2", "query": QUERIES[2], "in_scope": False})
METRICS = ("ranking/*", "scope/*", "queries/*")
READ: dict[str, Any] = {"candidates": 20, "metadata": {"required": []}}
Store = dict[str, Any]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    with collection("edge", "dot", tmp_path_factory.mktemp("dot")) as made:
        return made


def experiment(store: Store, values: dict[str, Any] | None = None, **others: Any) -> Experiment:
    embedding = {"model": "python:tests.support.distances:embeddings"}
    retriever = {"store": store, "collection": "mine", "embedding": embedding, **READ, **(values or {})}
    return Experiment.model_validate({"retriever": retriever, "metrics": METRICS, **others})


def run(store: Store, values: dict[str, Any] | None = None, **more: Any) -> Evaluation:
    return evaluate(golden=GOLDEN, experiment=experiment(store, values), **more)


def figures(run: Evaluation) -> dict[str, float | None]:
    return {name: summary.value for name, summary in run.metrics.items()}


def test_a_run_over_products_of_vectors_of_length_1_is_one_over_cosines(store: Store, tmp_path: Path) -> None:
    threshold = float(np.quantile(SCORES[0], 0.8))
    made = run(store, {"threshold": threshold})
    for scores, row in zip(SCORES, made.report.queries, strict=True):
        kept = [n for n in ranked(scores) if scores[n] >= threshold][:5]
        assert [hit.chunk_id for hit in row.retrieved] == [chunk_id(n) for n in kept]
        assert [hit.score for hit in row.retrieved] == pytest.approx([scores[n] for n in kept], abs=1e-5)
        assert {hit.scale for hit in row.retrieved} <= {"cosine"}
        assert row.top_score == pytest.approx(scores.max(), abs=1e-5)
    assert figures(made)["scope/auroc"] == np.mean([scores.max() > SCORES[2].max() for scores in SCORES[:2]])
    assert made.report.facts.collection is not None and made.report.facts.collection.content["distance"] == "dot"
    again = run(store, {"threshold": threshold}, outputs=Outputs(retrieval=tmp_path / "saved"))
    saved = run(store, {"threshold": threshold}, from_retrieval=tmp_path / "saved")
    assert [row.retrieved for row in saved.report.queries] == [row.retrieved for row in again.report.queries]


def test_a_row_tells_what_was_judged_irrelevant_and_is_relevant_though_the_collection_lacks_it(store: Store) -> None:
    judged = {"gone": 3, chunk_id(30): -1, chunk_id(31): 0, **{chunk_id(number): 1 for number in range(20)}}
    golden: list[dict[str, Any]] = [{"id": "q", "query": QUERIES[0], "relevant_ids": judged}]
    [row] = evaluate(golden=golden, experiment=experiment(store)).report.queries
    assert row.relevant["gone"] == 3 and row.irrelevant == [chunk_id(30), chunk_id(31)]


# Of a store of the user's own the mode is known before cells are laid out.

FEW = [GOLDEN[0], *({"id": f"q{number}", "query": QUERIES[2], "in_scope": False} for number in range(1, 30))]
BY_MEANING = [{"id": "q", "query": "kinematics of an arm", "relevant_ids": [str(UUID(int=0))]}, *FEW[1:3]]


def hybrid() -> QdrantVectorStore:
    return vector_store(mode=RetrievalMode.HYBRID)


def scored() -> Callable[[str], list[tuple[str, float]]]:
    return lambda query: [(f"a chunk on {query}", 0.5)]


def of_ones_own(name: str, **others: Any) -> Experiment:
    own = {"python": f"{__name__}:{name}", **READ}
    return Experiment.model_validate({"retriever": own, "metrics": METRICS, **others})


def test_thresholds_of_a_grid_are_held_to_what_the_retriever_gives() -> None:
    with pytest.raises(ExperimentError, match="expected a number from 0 to 1"):
        sweep(of_ones_own("scored", sweep={"threshold": [0.1, 1.5]}), golden=FEW)
    with pytest.raises(ConfigError, match=r"expected it or sweep\.threshold, not both"):
        sweep(of_ones_own("hybrid", threshold={"false_answer": 0.1}), golden=FEW, threshold=[0.1, 0.2])


def test_fusions_of_a_hybrid_store_are_variants() -> None:
    grid = sweep(of_ones_own("hybrid", sweep={"fusion": ["rrf", "dbsf", "weighted"]}), golden=BY_MEANING)
    assert grid.cells["fusion"].tolist() == ["rrf", "dbsf", "weighted"]
    assert "--retriever.fusion" in grid.report.next_flags and "python" not in grid.report.next_flags

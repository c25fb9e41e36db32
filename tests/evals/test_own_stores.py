"""Experiments on a `QdrantVectorStore` of the user's own: its mode and distance are known before cells are laid out."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from langchain_qdrant import QdrantVectorStore, RetrievalMode
from qdrant_client import QdrantClient

from evals import Experiment, Outputs, evaluate, sweep
from evals.errors import ExperimentError
from tests.support import distances
from tests.support.distances import QUERIES, chunk_id, ranked, semantic
from tests.support.foreign import vector_store

SCORES = [semantic("dot", number) for number in range(len(QUERIES))]
GOLDEN: list[dict[str, Any]] = [
    {"id": "q0", "query": QUERIES[0], "relevant_ids": {chunk_id(number): 1 for number in ranked(SCORES[0])[1:8:3]}},
    *({"id": f"q{number}", "query": QUERIES[2], "in_scope": False} for number in range(1, 30)),
]

BY_MEANING = [{"id": "q", "query": "kinematics of an arm", "relevant_ids": [str(UUID(int=0))]}, *GOLDEN[1:3]]


def dot() -> QdrantVectorStore:
    client = QdrantClient(":memory:")
    distances.make(client, "dot")
    return QdrantVectorStore(client, "mine", distances.EMBEDDINGS, validate_collection_config=False)


def hybrid() -> QdrantVectorStore:
    return vector_store(mode=RetrievalMode.HYBRID)


def scored() -> Callable[[str], list[tuple[str, float]]]:
    return lambda query: [(f"a chunk on {query}", 0.5)]


def experiment(name: str, mode: dict[str, Any] | None = None, **others: Any) -> Experiment:
    own = {"python": f"{__name__}:{name}", "candidates": 20, "metadata": {"required": []}}
    return Experiment.model_validate({"retriever": own | (mode or {}), "metrics": ["ranking/*", "scope/*"], **others})


def test_a_promised_threshold_is_of_the_stores_distance() -> None:
    made = evaluate(golden=GOLDEN, experiment=experiment("dot", threshold={"false_answer": 0.1}))
    threshold = made.report.config["retriever"]["threshold"]
    assert threshold > SCORES[2].max() > 1 and made.report.run.startswith(f"dot k5 t{threshold:g} ")


def test_a_promised_threshold_is_no_axis() -> None:
    with pytest.raises(ExperimentError, match="expected it or a sweep of thresholds"):
        sweep(experiment("dot", threshold={"false_answer": 0.1}), golden=GOLDEN, threshold=[0.1, 0.2])


def test_thresholds_of_a_grid_are_held_to_what_the_retriever_gives() -> None:
    thresholds = [round(float(np.quantile(SCORES[0], share)), 3) for share in (0.5, 0.9)]
    assert max(thresholds) > 1
    assert len(sweep(experiment("dot", sweep={"threshold": thresholds}), golden=GOLDEN).cells) == 2
    with pytest.raises(ExperimentError, match="expected a number from 0 to 1"):
        sweep(experiment("scored", sweep={"threshold": [0.1, 1.5]}), golden=GOLDEN)


def test_fusions_of_a_hybrid_store_are_variants() -> None:
    grid = sweep(experiment("hybrid", sweep={"fusion": ["rrf", "dbsf", "weighted"]}), golden=BY_MEANING)
    assert grid.cells["fusion"].tolist() == ["rrf", "dbsf", "weighted"]
    assert "--retriever.fusion" in grid.report.next_flags and "python" not in grid.report.next_flags


@pytest.mark.parametrize(("name", "golden"), [("dot", GOLDEN), ("hybrid", BY_MEANING)])
def test_a_store_is_saved_and_started_from(name: str, golden: list[dict[str, Any]], tmp_path: Path) -> None:
    first = evaluate(golden=golden, experiment=experiment(name), outputs=Outputs(retrieval=tmp_path / "kept"))
    again = evaluate(golden=golden, experiment=experiment(name), from_retrieval=tmp_path / "kept")
    assert [row.retrieved for row in again.report.queries] == [row.retrieved for row in first.report.queries]
    with pytest.raises(ExperimentError, match=r"expected retriever\.mode"):
        evaluate(golden=golden, experiment=experiment(name, {"mode": "keyword"}), from_retrieval=tmp_path / "kept")

"""The small experiment with reference answers, and a judge that knows the golden labels of an experiment."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.cases.case import Case
from evals.cases.reading import load_golden
from evals.config.experiment import ExperimentConfig
from retrievers import QdrantRetriever
from retrievers.records import Chunk
from tests.support.chat_server import ChatServer
from tests.support.experiment import CASES, FORWARD, SETTINGS, TOPIC, Experiment, index_once, make_experiment
from tests.support.judging import Oracle, golden_labels, sentences

PRECISION, RECALL = "ragas/llm_context_precision", "ragas/llm_context_recall"
JUDGED_METRICS = ("ragas/llm_*", "judge/*", "cost/*", "ranking/hit_rate_at_5")
REFERENCES = {
    "forward": f"{FORWARD} It asks for no forces.",
    "inverse": "Inverse kinematics searches them.",
    "channel": f"{TOPIC} Reliable publishers resend.",
    "unfound": "Zebras have stripes.",
}
ENTITIES = ("Kinematics", "kinematics", "publisher")


def make_judged(folder: Path, **retriever: Any) -> Experiment:
    """Return the small experiment, indexed, with reference answers and other settings of the retriever; no judge."""
    made = make_experiment(folder)
    made.write_golden([{**case, "reference_answer": REFERENCES.get(str(case["id"]))} for case in CASES])
    made.write_config({**SETTINGS, "metrics": [*JUDGED_METRICS], "retriever": {**SETTINGS["retriever"], **retriever}})
    index_once(made)
    return made


def known_of(
    config: ExperimentConfig, env: Mapping[str, str] | None = None, **flaws: Any
) -> tuple[Sequence[Case], Sequence[Chunk], Oracle]:
    cases = load_golden(config.dataset).cases
    with QdrantRetriever.open(config.retriever, env=env or {}) as retriever:
        chunks = retriever.chunks()
    return cases, chunks, Oracle(golden_labels(cases, chunks), ENTITIES, **flaws)


def judge_flags(server: ChatServer, folder: Path) -> list[str]:
    return [*server.flags, "--judge.cache-path", str(folder / "verdicts.sqlite")]


def calls_of(queries: Sequence[Mapping[str, Any]]) -> int:
    """Count the distinct questions: each chunk, recall, two ratings, entities of two texts that rows may share."""
    asked = [row for row in queries if row["in_scope"] and row["retrieved"]]
    references = {row["reference_answer"] for row in asked}
    contexts = {tuple(hit["chunk_id"] for hit in row["retrieved"]) for row in asked}
    return sum(len(row["retrieved"]) + 3 for row in asked) + len(references) + len(contexts)


def precision_of(row: Mapping[str, Any]) -> float:
    useful = [int(hit["grade"] > 0) for hit in row["retrieved"]]
    total = sum(sum(useful[: place + 1]) / (place + 1) * one for place, one in enumerate(useful))
    return total / (sum(useful) + 1e-10)


def recall_of(row: Mapping[str, Any], oracle: Oracle, texts: Mapping[str, str]) -> float:
    claims = sentences(row["reference_answer"])
    returned = "\n".join(texts[hit["chunk_id"]] for hit in row["retrieved"])
    supports = oracle.labels[row["query"]].claims
    return sum(any(text in returned for text in supports[one]) for one in claims) / len(claims)

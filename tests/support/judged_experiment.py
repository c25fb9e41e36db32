"""The small experiment with reference answers and a judge behind a server that knows its golden labels."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.cases.case import Case
from evals.cases.reading import load_golden
from evals.config.experiment import ExperimentConfig
from retrievers import QdrantRetriever
from retrievers.records import Chunk
from tests.support.chat_server import MODEL, ChatServer, CohereChatServer
from tests.support.experiment import CASES, FORWARD, SETTINGS, TOPIC, Experiment, index_once, make_experiment
from tests.support.golden_labels import golden_labels, sentences
from tests.support.judging import Oracle
from tests.support.openai_server import OpenAIChatServer

REFERENCES = {
    "forward": f"{FORWARD} It asks for no forces.",
    "inverse": "Inverse kinematics searches them.",
    "channel": f"{TOPIC} Reliable publishers resend.",
    "unfound": "Zebras have stripes.",
}
JUDGED_METRICS = ("ragas/llm_*", "judge/*", "cost/*", "ranking/hit_rate_at_5")
ENTITIES = ("Kinematics", "kinematics", "publisher")


def make_judged(folder: Path, **retriever: Any) -> Experiment:
    """Return pages, golden queries with reference answers, settings that name no judge; and the collection.

    Args:
        folder: Where to.
        retriever: Settings of the retriever that are to be others.
    """
    made = make_experiment(folder)
    made.write_golden([{**case, "reference_answer": REFERENCES.get(str(case["id"]))} for case in CASES])
    settled = {**SETTINGS, "metrics": [*JUDGED_METRICS], "retriever": {**SETTINGS["retriever"], **retriever}}
    made.write_config(settled)
    index_once(made)
    return made


def known_of(
    config: ExperimentConfig, env: Mapping[str, str] | None = None
) -> tuple[Sequence[Case], Sequence[Chunk], Oracle]:
    """Return golden cases, the chunks of the collection, and the oracle of their truth."""
    cases = load_golden(config.dataset).cases
    with QdrantRetriever.open(config.retriever, env=env or {}) as retriever:
        chunks = retriever.chunks()
    return cases, chunks, Oracle(golden_labels(cases, chunks), entities=ENTITIES)


def judge_flags(server: ChatServer, folder: Path) -> list[str]:
    """Return the flags that name the judge behind a server, with a verdict store in a folder."""
    provider, url = "cohere", server.url
    if isinstance(server, OpenAIChatServer):
        provider, url = "openai", server.base_url
    assert isinstance(server, CohereChatServer | OpenAIChatServer)
    store = str(folder / "verdicts.sqlite")
    return ["--judge.model", f"{provider}:{MODEL}", "--judge.base-url", url, "--judge.cache-path", store]


def calls_of(queries: Sequence[Mapping[str, Any]]) -> int:
    """Return the distinct questions about the rows of a report.

    A chunk each, recall, two ratings, and the entities of two texts, which other rows may have too. Nothing is asked
    about a query that is out of scope or found nothing.
    """
    asked = _asked(queries)
    references = {row["reference_answer"] for row in asked}
    contexts = {tuple(hit["chunk_id"] for hit in row["retrieved"]) for row in asked}
    return questions_of(queries) - 2 * len(asked) + len(references) + len(contexts)


def questions_of(queries: Sequence[Mapping[str, Any]]) -> int:
    """Return all questions about the rows of a report, repeated ones too."""
    asked = _asked(queries)
    return sum(len(row["retrieved"]) for row in asked) + 5 * len(asked)


def _asked(queries: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [row for row in queries if row["in_scope"] and row["retrieved"]]


def labelled_precision(row: Mapping[str, Any]) -> float:
    """Return the value of ragas' formula for a row's golden labels."""
    useful = [int(hit["grade"] > 0) for hit in row["retrieved"]]
    total = sum(sum(useful[: place + 1]) / (place + 1) * one for place, one in enumerate(useful))
    return total / (sum(useful) + 1e-10)


def labelled_recall(row: Mapping[str, Any], oracle: Oracle, texts: Mapping[str, str]) -> float:
    """Return the share of the reference's sentences that some returned chunk supports."""
    claims = sentences(row["reference_answer"])
    returned = [texts[hit["chunk_id"]] for hit in row["retrieved"]]
    supports = oracle.labels[row["query"]].claims
    return sum(any(text in "\n".join(returned) for text in supports[one]) for one in claims) / len(claims)

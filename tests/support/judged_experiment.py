"""The small experiment, and the world of grids, with reference answers and a judge that knows their golden labels."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from evals.cases.case import Case
from evals.cases.reading import load_golden
from evals.config.experiment import ExperimentConfig
from evals.experiment.bench import index_if_stale
from evals.run import main
from retrievers import QdrantRetriever
from retrievers.records import Chunk
from tests.support.chat_server import MODEL, ChatServer, CohereChatServer, OpenAIChatServer
from tests.support.command import Done, call
from tests.support.experiment import (
    CASES,
    FORWARD,
    SETTINGS,
    TOPIC,
    Experiment,
    index_once,
    load_report,
    make_experiment,
    settings,
    silent,
)
from tests.support.grid_world import make_world, measured
from tests.support.judged import settings as judge_settings
from tests.support.judging import NONE, Flaws, Oracle, golden_labels, sentences

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
    config: ExperimentConfig, env: Mapping[str, str] | None = None, flaws: Flaws = NONE
) -> tuple[Sequence[Case], Sequence[Chunk], Oracle]:
    cases = load_golden(config.dataset).cases
    with QdrantRetriever.open(config.retriever, env=env or {}) as retriever:
        chunks = retriever.chunks()
    return cases, chunks, Oracle(golden_labels(cases, chunks), entities=ENTITIES, flaws=flaws)


def judge_flags(server: ChatServer, folder: Path) -> list[str]:
    store = str(folder / "verdicts.sqlite")
    model = f"{server.provider}:{MODEL}"
    return ["--judge.model", model, "--judge.base-url", server.base_url, "--judge.cache-path", store]


def calls_of(queries: Sequence[Mapping[str, Any]]) -> int:
    """Count the distinct questions: each chunk, recall, two ratings, entities of two texts that rows may share."""
    asked = [row for row in queries if row["in_scope"] and row["retrieved"]]
    references = {row["reference_answer"] for row in asked}
    contexts = {tuple(hit["chunk_id"] for hit in row["retrieved"]) for row in asked}
    return sum(len(row["retrieved"]) + 3 for row in asked) + len(references) + len(contexts)


def labelled_precision(row: Mapping[str, Any]) -> float:
    """Return the value of ragas' formula for a row's golden labels."""
    useful = [int(hit["grade"] > 0) for hit in row["retrieved"]]
    total = sum(sum(useful[: place + 1]) / (place + 1) * one for place, one in enumerate(useful))
    return total / (sum(useful) + 1e-10)


def labelled_recall(row: Mapping[str, Any], oracle: Oracle, texts: Mapping[str, str]) -> float:
    claims = sentences(row["reference_answer"])
    returned = "\n".join(texts[hit["chunk_id"]] for hit in row["retrieved"])
    supports = oracle.labels[row["query"]].claims
    return sum(any(text in returned for text in supports[one]) for one in claims) / len(claims)


# Grids

REFERENCE = "The first thing about {0} is this. The second thing about {0} is that. Another one of {0} is known."
TOP_KS, THRESHOLDS = range(1, 9), (0.0, 0.3)
SWEEP = ("--sweep.top-k", "1:8", "--sweep.threshold", "0,0.3")
MODES = [(mode, rerank) for mode in ("semantic", "hybrid") for rerank in ("none", "mmr")]
IN_EVERY_MODE = ("--sweep.mode", "semantic,hybrid", "--sweep.rerank", "none,mmr")
HELD_OUT = ("in3", "in6", "soup")
"""The cases of the split `test`; the others are `dev`."""


def make_judged_world(folder: Path) -> Experiment:
    """Return the world, indexed, with three statements in every reference answer, each supported by other chunks."""
    made = make_world(folder)
    made.write_golden([_judged(*one) for one in enumerate(load_golden(settings(made).dataset).cases)])
    retriever = {**SETTINGS["retriever"], "candidates": 8}
    made.write_config({**SETTINGS, "metrics": [PRECISION, RECALL, "ranking/ndcg_at_10"], "retriever": retriever})
    index_once(made)
    return made


def _judged(number: int, case: Case) -> dict[str, Any]:
    return {
        **case.model_dump(mode="json", exclude_defaults=True),
        "in_scope": case.in_scope,
        "query_type": ("factual", "keyword")[number % 2],
        "reference_answer": REFERENCE.format(case.id) if case.in_scope else None,
        "split": "test" if case.id in HELD_OUT else "dev",
    }


def oracle_of(made: Experiment, flaws: Flaws = NONE) -> Oracle:
    return known_of(settings(made), flaws=flaws)[2]


def asked_of(made: Experiment) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Return what the cells of every mode ask: (query, text) and (query, non-empty selection), by definition."""
    texts: set[tuple[str, str]] = set()
    selections: set[tuple[str, str]] = set()
    for query, chunks in _candidates(made):
        for threshold in THRESHOLDS:
            kept = [hit.chunk.text for hit in chunks if hit.scores["semantic"] >= threshold]
            for top_k in TOP_KS if kept else ():
                texts |= {(query, text) for text in kept[:top_k]}
                selections |= {(query, "\n".join(kept[:top_k]))}
    return texts, selections


def _candidates(made: Experiment) -> Iterator[tuple[str, Sequence[Any]]]:
    cases = load_golden(settings(made).dataset).cases
    for mode, rerank in MODES:
        config = settings(made, retriever__mode=mode, retriever__rerank=rerank).retriever
        with QdrantRetriever.open(config, env={}) as retriever:
            found = retriever.candidates([case.query for case in cases])
            yield from ((case.query, one) for case, one in zip(cases, found, strict=True) if case.in_scope)


@dataclass(frozen=True)
class Commands:
    """`python -m evals.run` on the world, each call with a report; the verdict store is the folder's."""

    made: Experiment
    server: ChatServer
    folder: Path
    capsys: pytest.CaptureFixture[str]

    def run(self, *arguments: str, name: str = "report") -> Done:
        return call(main, [*self.flags(name), *arguments], self.capsys)

    def flags(self, name: str = "report") -> list[str]:
        files = ["--config", str(self.made.config), "--output", str(self.report_file(name))]
        return [*files, *judge_flags(self.server, self.folder)]

    def plan(self, *arguments: str) -> list[str]:
        """Return the output of `--plan`, line by line; it asks nothing."""
        before = len(self.server.chats)
        done = self.run("--plan", *arguments)
        assert (done.code, done.err, len(self.server.chats)) == (0, "", before)
        return [line.strip() for line in done.out.splitlines()]

    def report_file(self, name: str = "report") -> Path:
        return self.folder / f"{name}.json"

    def report(self, name: str = "report") -> dict[str, Any]:
        return load_report(self.report_file(name))


def planned_calls(lines: Sequence[str]) -> int:
    line = next(one for one in lines if one.startswith("all"))
    return int(line.split()[3].replace(",", ""))


# Sixty queries, thirty cells, and a judge that errs now and then

QUERIES = 60


class JudgedRounds:
    """A world of sixty queries and thirty cells, and grids over it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config: ExperimentConfig = settings(
            make_world(folder, QUERIES),
            metrics=[PRECISION],
            objective={"metrics": {PRECISION: 1.0}, "out_of_scope": 0},
            retriever__candidates=8,
            sweep={"mode": ["semantic", "keyword", "hybrid"], "top_k": [1, 2, 3, 5, 8], "threshold": [0.0, 0.3]},
        )
        index_if_stale(self.config, {}, silent)
        self.cases, _, oracle = known_of(self.config)
        self.labels = oracle.labels

    def server(self) -> CohereChatServer:
        return CohereChatServer(Oracle(self.labels, flaws=Flaws(false_useful=0.05, false_useless=0.1)))

    def grid(self, server: CohereChatServer, config: ExperimentConfig | None = None, **changes: Any) -> Any:
        """Return the sweep, with other settings of the judge."""
        env = {"COHERE_API_KEY": CohereChatServer.key, "OPENAI_API_KEY": OpenAIChatServer.key}
        with tempfile.TemporaryDirectory() as folder:
            judge = judge_settings(server, cache_path=Path(folder) / "verdicts.sqlite", **changes)
            return measured((config or self.config).model_copy(update={"judge": judge}), env)

"""The small world of grids with reference answers of several statements, a judge on the loopback, and what is asked."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from evals.cases.reading import load_golden
from evals.experiment.bench import index_if_stale
from evals.run import main
from retrievers.retriever.opened import open_retriever
from tests.support.chat_server import CohereChatServer
from tests.support.command import Done, call
from tests.support.experiment import SETTINGS, Experiment, load_report, settings, silent
from tests.support.golden_labels import golden_labels
from tests.support.grid_world import make_world
from tests.support.judged_experiment import judge_flags
from tests.support.judging import NONE, Flaws, Oracle

PRECISION, RECALL = "ragas/llm_context_precision", "ragas/llm_context_recall"
REFERENCE = "The first thing about {0} is this. The second thing about {0} is that. Another one of {0} is known."
TOP_KS, THRESHOLDS = range(1, 9), (0.0, 0.3)
SWEEP = ("--sweep.top-k", "1:8", "--sweep.threshold", "0,0.3")
MODES: Mapping[str, Any] = {"mode": ("semantic", "hybrid"), "rerank": ("none", "mmr")}
IN_EVERY_MODE = ("--sweep.mode", "semantic,hybrid", "--sweep.rerank", "none,mmr")
HELD_OUT = ("in3", "in6", "soup")
"""The cases of the split `test`; the others are `dev`."""
Asked = frozenset[tuple[str, str]]
"""Queries, each with the text (or the joined texts) that a judge is asked about."""


def make_judged_world(folder: Path) -> Experiment:
    """Return the world with three statements in every reference answer, each supported by other chunks."""
    made = make_world(folder)
    cases = [dict(case) for case in map(_plain, load_golden(settings(made).dataset).cases)]
    for case in cases:
        case["reference_answer"] = REFERENCE.format(case["id"]) if case["in_scope"] else None
        case["split"] = "test" if case["id"] in HELD_OUT else "dev"
    made.write_golden(cases)
    retriever = {**SETTINGS["retriever"], "candidates": 8}
    made.write_config({**SETTINGS, "metrics": [PRECISION, RECALL, "ranking/ndcg_at_10"], "retriever": retriever})
    index_if_stale(settings(made), {}, silent)
    return made


def _plain(case: Any) -> dict[str, Any]:
    found: dict[str, Any] = case.model_dump(mode="json", exclude_defaults=True)
    return {"in_scope": True, **found}


def oracle_of(made: Experiment, flaws: Flaws = NONE) -> Oracle:
    """Return the oracle of the world's golden labels."""
    config = settings(made)
    with open_retriever(config.retriever, env={}) as retriever:
        labels = golden_labels(load_golden(config.dataset).cases, retriever.chunks())
    return Oracle(labels, flaws=flaws)


def asked_of(made: Experiment, axes: Mapping[str, Sequence[str]]) -> tuple[Asked, Asked]:
    """Return the distinct (query, text) of all cells, and the distinct non-empty (query, selection), by definition.

    Args:
        made: The world.
        axes: Modes and rerankers of the sweep, besides `TOP_KS` and `THRESHOLDS`.
    """
    texts: set[tuple[str, str]] = set()
    selections: set[tuple[str, str]] = set()
    for query, chunks in _candidates(made, axes):
        for threshold in THRESHOLDS:
            kept = [hit.chunk.text for hit in chunks if hit.scores["semantic"] >= threshold]
            for top_k in TOP_KS:
                texts |= {(query, text) for text in kept[:top_k]}
                selections |= {(query, "\n".join(kept[:top_k]))} if kept else set()
    return frozenset(texts), frozenset(selections)


def _candidates(made: Experiment, axes: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, Sequence[Any]]]:
    cases = load_golden(settings(made).dataset).cases
    for mode in axes.get("mode", ("semantic",)):
        for rerank in axes.get("rerank", ("none",)):
            config = settings(made, retriever__mode=mode, retriever__rerank=rerank).retriever
            with open_retriever(config, env={}) as retriever:
                found = retriever.candidates([case.query for case in cases])
                yield from ((case.query, one) for case, one in zip(cases, found, strict=True) if case.in_scope)


@dataclass(frozen=True)
class Commands:
    """`python -m evals.run` on the world, each call with a report; the verdict store is the folder's."""

    made: Experiment
    server: CohereChatServer
    folder: Path
    capsys: pytest.CaptureFixture[str]

    def run(self, *arguments: str, name: str = "report") -> Done:
        """Return one run in this process."""
        return call(main, [*self.flags(name), *arguments], self.capsys)

    def flags(self, name: str = "report") -> list[str]:
        """Return the arguments of every call."""
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


def planned_calls(lines: Sequence[str], share: str = "all") -> int:
    """Return the calls that a plan counts for a metric, or for all."""
    line = next(one for one in lines if one.startswith(share))
    return int(line.removeprefix(share).split()[2].replace(",", ""))


def cell_flags(report: Mapping[str, Any], place: int) -> list[str]:
    """Return the flags that make a single run of a cell, by its place in the report."""
    cells = report["grid"]["cells"]
    configuration = report["grid"]["configurations"][cells["configuration"][place]]
    values = {**configuration["parameters"], "top_k": cells["top_k"][place], "threshold": cells["threshold"][place]}
    settings = {f"keyword.{name}" if name == "term_counts" else name: value for name, value in values.items()}
    return [f"--retriever.{name.replace('_', '-')}={value}" for name, value in settings.items()]

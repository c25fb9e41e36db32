"""Grids with a judge behind a server on the loopback, as a command: what is asked, planned, kept, and found."""

import json
import random
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.support.chat_server import CohereChatServer
from tests.support.experiment import Experiment
from tests.support.json_schema import closed
from tests.support.judged_grid import (
    IN_EVERY_MODE,
    MODES,
    PRECISION,
    RECALL,
    SWEEP,
    Commands,
    asked_of,
    cell_flags,
    make_judged_world,
    oracle_of,
    planned_calls,
)
from tests.support.judging import Oracle

pytestmark = [pytest.mark.integration, pytest.mark.slow]
CONSTRAINED = ("--objective.constraints", f"{{{PRECISION}: '>= 0.999'}}")
ON_RECALL = ("--objective.metrics", RECALL)
SCHEMA = json.loads(files("evals.report").joinpath("schema.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return make_judged_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def known(made: Experiment) -> Oracle:
    return oracle_of(made)


@pytest.fixture
def server(known: Oracle) -> Iterator[CohereChatServer]:
    with CohereChatServer(known) as running:
        yield running


@pytest.fixture
def commands(
    made: Experiment,
    server: CohereChatServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Commands:
    """In an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("evals.judge.asking.BASE_S", 0.0)
    monkeypatch.setenv("COHERE_API_KEY", server.key)
    return Commands(made, server, tmp_path, capsys)


Figures = list[tuple[float | None, int, int]]


def sampled(commands: Commands, metrics: tuple[str, ...], flags: tuple[str, ...], seed: int) -> tuple[Figures, Figures]:
    """Mean, n and failures of a random sample of cells: in the grid, and in single runs, which ask nothing more."""
    whole, before = commands.report(), len(commands.server.chats)
    of_grid: Figures = []
    of_runs: Figures = []
    for place in random.Random(seed).sample(range(whole["grid"]["cells"]["count"]), k=5):
        done = commands.run(*flags, *cell_flags(whole, place), name="alone")
        assert (done.code, done.err, len(commands.server.chats)) == (0, "", before)
        alone = commands.report("alone")["metrics"]
        for metric in metrics:
            found = whole["grid"]["metrics"][metric]
            of_grid.append((found["mean"][place], found["n"], found["n_failed"]))
            of_runs.append((alone[metric]["value"], alone[metric]["n"], alone[metric]["n_failed"]))
    return of_grid, of_runs


def against_schema(made: Any) -> list[Any]:
    """Return a report's violations of the published schema, fields that it does not name included."""
    return [*Draft202012Validator(SCHEMA).iter_errors(made), *Draft202012Validator(closed(SCHEMA)).iter_errors(made)]


def test_exact_recall_buys_the_minimum_in_every_mode(commands: Commands, server: CohereChatServer) -> None:
    planned = planned_calls(commands.plan(*SWEEP, *IN_EVERY_MODE))
    done = commands.run(*SWEEP, *IN_EVERY_MODE)
    assert (done.code, done.err) == (0, "")
    texts, selections = asked_of(commands.made, MODES)
    assert len(server.chats) == planned == len(texts) + len(selections)
    whole = commands.report()
    assert whole["judge"]["usage"]["calls"] == planned
    for metric in (PRECISION, RECALL):
        values = whole["grid"]["metrics"][metric]["mean"]
        assert len(set(values)) > 3, "cells differ"
    of_grid, of_runs = sampled(commands, (PRECISION, RECALL), (), seed=1)
    assert len(of_grid) == len(of_runs) > 0 and len(set(of_runs)) > 2
    for cell, run in zip(of_grid, of_runs, strict=True):
        assert cell == pytest.approx(run, abs=1e-12)
    again = commands.run(*SWEEP, *IN_EVERY_MODE, name="again")
    assert (again.code, len(server.chats)) == (0, planned)
    assert commands.report("again")["grid"] == whole["grid"]


@pytest.mark.parametrize(
    ("objective", "also"),
    [
        ((), ""),
        (ON_RECALL, "; the cells are not ranked: ragas/llm_context_recall scores "),
        (CONSTRAINED, "; the cells are not ranked: ragas/llm_context_precision scores "),
    ],
    ids=["objective without a judge", "on recall", "constrained"],
)
def test_a_spent_budget_keeps_verdicts_and_says_so(
    commands: Commands, server: CohereChatServer, objective: tuple[str, ...], also: str
) -> None:
    flags = (*SWEEP, *objective)
    planned = planned_calls(commands.plan(*flags))
    done = commands.run(*flags, "--judge.budget.calls", "30", "--judge.max-concurrency", "2")
    assert (done.code, len(server.chats)) == (3, 30)
    assert done.err.startswith(f"incomplete: the budget of 30 calls is spent{also}")
    assert str(commands.report_file()) in done.err and done.err.count("\n") == 1
    whole = commands.report()
    assert whole["judge"]["incomplete"] == "the budget of 30 calls is spent"
    assert against_schema(json.loads(commands.report_file().read_text(encoding="utf-8"))) == []
    again = commands.run(*flags)
    assert again.code == (2 if objective == CONSTRAINED else 0), again.err
    assert len(server.chats) == planned, "what was bought is not bought again"


def test_held_out_queries_are_bought_whole_and_counted(commands: Commands, server: CohereChatServer) -> None:
    flags = (*SWEEP, *ON_RECALL, "--dataset.split", "dev", "--metrics", f"{RECALL},cost/*")
    lines = commands.plan(*flags)
    most = planned_calls(lines) + 1
    done = commands.run(*flags, "--judge.budget.calls", str(most))
    assert done.code == 3 and f"the budget of {most} calls is spent" in done.err
    assert commands.report()["grid"]["held_out"] is None, "no figure of a part"
    done = commands.run(*flags)
    assert (done.code, done.err) == (0, "")
    whole = commands.report()
    assert planned_calls(lines) < len(server.chats)
    usage = whole["judge"]["usage"]
    assert usage["calls"] == whole["metrics"]["cost/judge_calls"]["value"] == len(server.chats) - most
    assert whole["grid"]["held_out"]["n"] == 3

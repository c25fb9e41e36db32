"""Runs and grids with a judge behind a server on the loopback, as commands: what is asked, planned, kept, and found."""

import json
import random
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.chat_server import CohereChatServer
from tests.support.experiment import Experiment
from tests.support.judged_experiment import (
    IN_EVERY_MODE,
    PRECISION,
    RECALL,
    SWEEP,
    Commands,
    asked_of,
    make_judged_world,
    oracle_of,
    planned_calls,
)
from tests.support.judging import Flaws

pytestmark = pytest.mark.integration
OF_BOTH = ("--metrics", f"{PRECISION},ranking/hit_rate_at_5")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return make_judged_world(tmp_path_factory.mktemp("world"))


@pytest.fixture
def server(made: Experiment, request: pytest.FixtureRequest) -> Iterator[CohereChatServer]:
    """A judge that knows; with flaws where a test is given some."""
    with CohereChatServer(oracle_of(made, getattr(request, "param", Flaws()))) as running:
        yield running


ERRING = pytest.mark.parametrize("server", [Flaws(false_useful=0.1, false_useless=0.1)], indirect=True, ids=["erring"])


@pytest.fixture
def commands(
    made: Experiment,
    server: CohereChatServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Commands:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COHERE_API_KEY", server.key)
    return Commands(made, server, tmp_path, capsys)


def cell_flags(grid: Mapping[str, Any], place: int) -> list[str]:
    cells = grid["cells"]
    values = grid["configurations"][cells["configuration"][place]]["parameters"]
    values = {**values, "top_k": cells["top_k"][place], "threshold": cells["threshold"][place]}
    named = {f"keyword.{name}" if name == "term_counts" else name: value for name, value in values.items()}
    return [f"--retriever.{name.replace('_', '-')}={value}" for name, value in named.items()]


@pytest.mark.slow
def test_exact_recall_buys_the_minimum_in_every_mode_and_a_cell_is_worth_what_its_run_is(
    commands: Commands, server: CohereChatServer
) -> None:
    flags = (*SWEEP, *IN_EVERY_MODE)
    planned = planned_calls(commands.plan(*flags))
    done = commands.run(*flags)
    assert (done.code, done.err) == (0, "")
    texts, selections = asked_of(commands.made)
    whole = commands.report()
    assert len(server.chats) == planned == len(texts) + len(selections) == whole["judge"]["usage"]["calls"]
    for place in random.Random(1).sample(range(len(whole["grid"]["cells"]["top_k"])), k=5):
        assert commands.run(*cell_flags(whole["grid"], place), name="alone").code == 0
        alone = commands.report("alone")["metrics"]
        for metric in (PRECISION, RECALL):
            of_grid = whole["grid"]["metrics"][metric]
            assert len(set(of_grid["mean"])) > 3, "cells differ"
            assert alone[metric]["value"] == pytest.approx(of_grid["mean"][place], abs=1e-12)
            assert [alone[metric][count] for count in ("n", "n_failed")] == [of_grid["n"], of_grid["n_failed"]]
    assert commands.run(*flags, name="again").code == 0
    assert len(server.chats) == planned, "nothing is asked again"
    assert commands.report("again")["grid"] == whole["grid"]


@ERRING
def test_the_command_that_a_judged_grid_ends_on_runs_its_cell(commands: Commands) -> None:
    of_keywords = ("--sweep.mode", "keyword", "--sweep.top-k", "2,3")
    of_cells = ("--judge.stop.margin", "0.1", "--objective.metrics", PRECISION)
    done = commands.run(*OF_BOTH, *of_keywords, *of_cells)
    assert done.code == 0, done.err
    chosen = commands.report()
    [line] = [line for line in done.out.splitlines() if line.startswith("Next: ")]
    program, *flags = shlex.split(line.removeprefix("Next: "))[2:]
    assert program == "evals.run" and "--judge.stop.margin" not in flags
    assert commands.run(*flags[2:], "--no-gate").code == 0
    assert commands.report()["facts"]["retriever"] == chosen["facts"]["retriever"]


@ERRING
@pytest.mark.parametrize("sweep", [(), (*SWEEP, "--objective.metrics", PRECISION)], ids=["run", "grid"])
def test_without_labels_the_words_of_the_reference_answers_stand_in_for_them(
    commands: Commands, made: Experiment, sweep: tuple[str, ...]
) -> None:
    rows = [json.loads(line) for line in made.golden.read_text().splitlines()]
    bare = [{name: value for name, value in row.items() if name not in ("evidence", "relevant_ids")} for row in rows]
    mixed = [bare[n] if n % 2 else row for n, row in enumerate(rows)]
    inside = [row for row in rows if row["in_scope"]]
    golden = commands.folder / "golden.jsonl"
    flags = ("--dataset.path", str(golden))
    for cases in (mixed, bare):
        golden.write_text("".join(json.dumps(case) + "\n" for case in cases))
        done = commands.run(*flags, *OF_BOTH, "--judge.sample", "6", *sweep)
        assert done.code == 0, done.err
        report = commands.report()
        sampled = report["metrics"][PRECISION]["sampled"]
        assert (sampled["proxy"], sampled["queries"]) == ("labels or words/context_precision", len(inside))
        assert all(0 <= row["proxies"][PRECISION] <= 1 for row in report["queries"] if row["in_scope"])
        labelled = sum(row["outcome"] != "UNLABELLED" for row in report["queries"] if row["in_scope"])
        hits = report["metrics"]["ranking/hit_rate_at_5"]
        assert (hits["n"], hits["n_unscored"]) == (labelled, len(inside) - labelled)
        precision = report["metrics"][PRECISION]
        assert precision["n_unscored"] == precision["n_missing"] == 0, "a query that was not drawn lacks nothing"
    done = commands.run(*flags, "--metrics", "scope/*", "--judge.model", "")
    assert done.code == 2 and f"{len(inside)} of {len(inside)} in-scope cases have no labels" in done.err

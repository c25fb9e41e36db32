"""A sample of the queries is judged: by a plan's count, and as far as a budget goes."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.support.chat_server import CohereChatServer
from tests.support.experiment import Experiment, settings
from tests.support.golden_labels import judging_order, load
from tests.support.judged_grid import PRECISION, SWEEP, Commands, make_judged_world, oracle_of, planned_calls
from tests.support.judging import Flaws

pytestmark = pytest.mark.integration
OF_SAMPLE = ("--metrics", f"{PRECISION},ranking/hit_rate_at_5", "--judge.sample", "4")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """Return the world, its cases of two types."""
    world = make_judged_world(tmp_path_factory.mktemp("sampled"))
    cases = [case.model_dump(mode="json", exclude_defaults=True) for case in load(world.golden).cases]
    kinds = ("factual", "keyword")
    world.write_golden([{"in_scope": True, **case, "query_type": kinds[n % 2]} for n, case in enumerate(cases)])
    return world


@pytest.fixture
def server(made: Experiment) -> Iterator[CohereChatServer]:
    with CohereChatServer(oracle_of(made, Flaws(false_useful=0.1, false_useless=0.1))) as running:
        yield running


@pytest.fixture
def commands(
    made: Experiment,
    server: CohereChatServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Commands:
    monkeypatch.setenv("COHERE_API_KEY", server.key)
    return Commands(made=made, server=server, folder=tmp_path, capsys=capsys)


def drawn(made: Experiment, size: int) -> set[str]:
    """Return the queries of the sample, by the order of judging."""
    cases = load(made.golden).cases
    chosen = set(judging_order(cases, settings(made).seed)[:size])
    return {case.query for case in cases if case.id in chosen}


def test_a_sample_asks_of_its_queries_alone_and_as_often_as_planned(
    commands: Commands, made: Experiment, server: CohereChatServer
) -> None:
    planned = planned_calls(commands.plan(*OF_SAMPLE))
    assert commands.run(*OF_SAMPLE).code == 0
    assert len(server.chats) == planned
    assert {chat.question.query for chat in server.chats if chat.question} <= drawn(made, 4)
    report = commands.report()
    undrawn = [row for row in report["queries"] if row["in_scope"] and not isinstance(row["scores"][PRECISION], float)]
    assert {row["query"] for row in undrawn}.isdisjoint(drawn(made, 4))
    assert report["metrics"][PRECISION]["n_unscored"] == report["metrics"][PRECISION]["n_missing"] == 0


def test_the_command_that_a_judged_grid_ends_on_runs_its_cell(commands: Commands) -> None:
    of_keywords = ("--sweep.mode", "keyword", "--sweep.top-k", "2,3")
    of_cells = ("--judge.stop.margin", "0.1", "--objective.metrics", PRECISION)
    junit = commands.folder / "junit.xml"
    done = commands.run(*OF_SAMPLE[:2], *of_keywords, *of_cells, "--junit", str(junit))
    assert done.code == 0, done.err
    properties = {each.get("name"): each.get("value") for each in ElementTree.parse(junit).iter("property")}
    assert properties["proof"] == commands.report()["grid"]["proof"]
    assert commands.report()["facts"]["judge"]["model"] in junit.read_text(encoding="utf-8")
    [line] = [line for line in done.out.splitlines() if line.startswith("Next: ")]
    program, *flags = shlex.split(line.removeprefix("Next: "))[2:]
    assert program == "evals.run" and "--judge.stop.margin" not in flags
    chosen = commands.report()
    assert commands.run(*flags[2:], "--no-gate").code == 0
    own = commands.report()
    assert own["facts"]["retriever"] == chosen["facts"]["retriever"]


def test_a_budget_that_ends_inside_the_sample_says_what_is_missing(commands: Commands) -> None:
    done = commands.run(*OF_SAMPLE, "--judge.budget.calls", "3", "--criteria", f'{{"{PRECISION}": ">= 0.5"}}')
    assert done.code == 3 and "the budget of 3 calls is spent" in done.out
    [criterion] = commands.report()["criteria"]
    assert criterion["undecided"] and "a further run buys the rest" in criterion["reason"]


@pytest.mark.parametrize("sweep", [(), SWEEP], ids=["run", "grid"])
def test_without_labels_the_words_of_the_reference_answers_stand_in_for_them(
    commands: Commands, made: Experiment, server: CohereChatServer, sweep: tuple[str, ...], tmp_path: Path
) -> None:
    rows = [json.loads(line) for line in made.golden.read_text().splitlines()]
    bare, mixed = tmp_path / "bare.jsonl", tmp_path / "mixed.jsonl"
    bare.write_text("".join(json.dumps(_without_labels(row)) + "\n" for row in rows))
    mixed.write_text("".join(json.dumps(_without_labels(row) if n % 2 else row) + "\n" for n, row in enumerate(rows)))
    inside = [row for row in rows if row["in_scope"]]
    for file, name in ((bare, "words/context_precision"), (mixed, "of .* queries words/context_precision")):
        flags = ("--dataset.path", str(file), "--metrics", f"{PRECISION},ranking/hit_rate_at_5", "--judge.sample", "6")
        done = commands.run(*flags, *sweep, *(("--objective.metrics", PRECISION) if sweep else ()))
        assert done.code == 0, done.err
        report = commands.report()
        sampled = report["metrics"][PRECISION]["sampled"]
        assert re.search(name, sampled["proxy"]) and sampled["queries"] == len(inside)
        assert all(0 <= row["proxies"][PRECISION] <= 1 for row in report["queries"] if row["in_scope"])
        labelled = sum(row["outcome"] != "UNLABELLED" for row in report["queries"] if row["in_scope"])
        hits = report["metrics"]["ranking/hit_rate_at_5"]
        assert (hits["n"], hits["n_unscored"]) == (labelled, len(inside) - labelled)
    done = commands.run("--dataset.path", str(bare), "--metrics", "scope/*", "--judge.model", "")
    assert done.code == 2 and f"{len(inside)} of {len(inside)} in-scope cases have no labels" in done.err


def _without_labels(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("evidence", "relevant_ids")}

"""Runs and grids with a judge behind a server on the loopback, as commands: what is asked, planned, kept, and found."""

import json
import random
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from evals.cases.reading import load_golden
from evals.run import main
from retrievers import QdrantRetriever
from tests.support.chat_server import ChatServer, CohereChatServer
from tests.support.command import Done, call, python
from tests.support.experiment import SETTINGS, Experiment, index_once, load_report, settings
from tests.support.grid_world import make_world
from tests.support.judged_experiment import PRECISION, RECALL, judge_flags, known_of

pytestmark = pytest.mark.integration
OF_BOTH = ("--metrics", f"{PRECISION},ranking/hit_rate_at_5")
REFERENCE = "The first thing about {0} is this. The second thing about {0} is that. Another one of {0} is known."
SWEEP = ("--sweep.top-k", "1:8", "--sweep.threshold", "0,0.3")
IN_EVERY_MODE = ("--sweep.mode", "semantic,hybrid", "--sweep.rerank", "none,mmr")
Capsys = pytest.CaptureFixture[str]
Run = Callable[..., Done]
HELD_OUT = ("in3", "in6", "soup")
"""The cases of the split `test`; the others are `dev`."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    made = make_world(tmp_path_factory.mktemp("world"))
    cases = load_golden(settings(made).dataset).cases
    made.write_golden(
        {
            **case.model_dump(mode="json", exclude_defaults=True),
            "in_scope": case.in_scope,
            "query_type": ("factual", "keyword")[number % 2],
            "reference_answer": REFERENCE.format(case.id) if case.in_scope else None,
            "split": "test" if case.id in HELD_OUT else "dev",
        }
        for number, case in enumerate(cases)
    )
    retriever = {**SETTINGS["retriever"], "candidates": 8}
    made.write_config({**SETTINGS, "metrics": [PRECISION, RECALL, "ranking/ndcg_at_10"], "retriever": retriever})
    index_once(made)
    return made


@pytest.fixture
def server(made: Experiment, request: pytest.FixtureRequest) -> Iterator[CohereChatServer]:
    with CohereChatServer(known_of(settings(made), **getattr(request, "param", {}))[2]) as running:
        yield running


ERRING = pytest.mark.parametrize("server", [{"false_useful": 0.1, "false_useless": 0.1}], indirect=True, ids=["erring"])


@pytest.fixture
def run(
    made: Experiment, server: CohereChatServer, tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COHERE_API_KEY", server.key)
    flags = ["--config", made.config, *judge_flags(server, tmp_path), "--output"]
    return lambda *arguments, name="report": call(main, [*flags, f"{name}.json", *arguments], capsys)


def report(name: str = "report") -> dict[str, Any]:
    return load_report(Path(f"{name}.json"))


def cell_flags(grid: Mapping[str, Any], place: int) -> list[str]:
    cells = grid["cells"]
    values = grid["configurations"][cells["configuration"][place]]["parameters"]
    values = {**values, "top_k": cells["top_k"][place], "threshold": cells["threshold"][place]}
    named = {f"keyword.{name}" if name == "term_counts" else name: value for name, value in values.items()}
    return [f"--retriever.{name.replace('_', '-')}={value}" for name, value in named.items()]


def asked_of(made: Experiment) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Return what the cells of every mode ask: (query, text) and (query, non-empty selection), by definition."""
    texts, selections = set[tuple[str, str]](), set[tuple[str, str]]()
    queries = [case.query for case in load_golden(settings(made).dataset).cases if case.in_scope]
    for mode, rerank in product(("semantic", "hybrid"), ("none", "mmr")):
        config = settings(made, retriever__mode=mode, retriever__rerank=rerank).retriever
        with QdrantRetriever.open(config, env={}) as retriever:
            found = zip(queries, retriever.candidates(queries), strict=True)
        for (query, chunks), threshold in product(found, (0.0, 0.3)):
            kept = [hit.chunk.text for hit in chunks if hit.scores["semantic"] >= threshold]
            texts |= {(query, text) for text in kept[:8]}
            selections |= {(query, "\n".join(kept[:top_k])) for top_k in range(1, 9) if kept}
    return texts, selections


def test_a_judged_run_ends_without_a_word(made: Experiment, server: CohereChatServer, tmp_path: Path) -> None:
    """In a process of its own, by a name that is looked up in a thread: Python 3.12 starts none at its end."""
    flags = ["--config", made.config, *judge_flags(server, tmp_path), "--output", "report.json"]
    named = [str(flag).replace("127.0.0.1", "localhost") for flag in flags]
    done = python(["-m", "evals.run", *named, "--metrics", PRECISION], tmp_path, {"COHERE_API_KEY": server.key})
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_exact_recall_buys_the_minimum_and_cells_are_their_runs(made: Experiment, run: Run, server: ChatServer) -> None:
    flags = (*SWEEP, *IN_EVERY_MODE)
    plan = run("--plan", *flags)
    assert (plan.code, plan.err, server.chats) == (0, "", [])
    [planned] = (
        int(calls.replace(",", "")) for calls in re.findall(r"^ *all +\S+ +\S+ +(\S+)", plan.out, re.MULTILINE)
    )
    done = run(*flags)
    assert (done.code, done.err) == (0, "")
    texts, selections = asked_of(made)
    whole = report()
    assert len(server.chats) == planned == len(texts) + len(selections) == whole["judge"]["usage"]["calls"]
    for place in random.Random(1).sample(range(len(whole["grid"]["cells"]["top_k"])), k=5):
        assert run(*cell_flags(whole["grid"], place), name="alone").code == 0
        alone = report("alone")["metrics"]
        for metric in (PRECISION, RECALL):
            of_grid = whole["grid"]["metrics"][metric]
            assert len(set(of_grid["mean"])) > 3, "cells differ"
            assert alone[metric]["value"] == pytest.approx(of_grid["mean"][place], abs=1e-12)
            assert [alone[metric][count] for count in ("n", "n_failed")] == [of_grid["n"], of_grid["n_failed"]]
    assert run(*flags, name="again").code == 0
    assert len(server.chats) == planned, "nothing is asked again"
    assert report("again")["grid"] == whole["grid"]


@ERRING
def test_the_command_that_a_judged_grid_ends_on_runs_its_cell(
    run: Run, made: Experiment, server: CohereChatServer
) -> None:
    server.models = {*server.models, "strong"}
    of_keywords = ("--sweep.mode", "keyword", "--sweep.top-k", "2,3")
    rounds = {"stop": {"margin": 0.1}, "second": {"model": "cohere:strong"}}
    file = made.config.with_name("rounds.yaml")
    file.write_text(yaml.safe_dump({**yaml.safe_load(made.config.read_text()), "judge": rounds}))
    done = run("--config", file, *OF_BOTH, *of_keywords, "--objective.metrics", PRECISION)
    assert done.code == 0, done.err
    chosen = report()
    [line] = [line for line in done.out.splitlines() if line.startswith("Next: ")]
    program, *flags = shlex.split(line.removeprefix("Next: "))[2:]
    assert program == "evals.run" and flags[:2] == ["--config", str(file)] and "--metrics" in flags
    assert run(*flags, "--no-gate").code == 0
    assert report()["facts"]["retriever"] == chosen["facts"]["retriever"]


@ERRING
@pytest.mark.parametrize("sweep", [(), (*SWEEP, "--objective.metrics", PRECISION)], ids=["run", "grid"])
def test_words_of_references_stand_in_for_labels(run: Run, made: Experiment, sweep: tuple[str, ...]) -> None:
    rows = [json.loads(line) for line in made.golden.read_text().splitlines()]
    bare = [{name: value for name, value in row.items() if name not in ("evidence", "relevant_ids")} for row in rows]
    mixed = [bare[n] if n % 2 else row for n, row in enumerate(rows)]
    inside = [row for row in rows if row["in_scope"]]
    golden = Path("golden.jsonl")
    flags = ("--dataset.path", str(golden))
    for cases in (mixed, bare):
        golden.write_text("".join(json.dumps(case) + "\n" for case in cases))
        done = run(*flags, *OF_BOTH, "--judge.sample", "6", *sweep)
        assert done.code == 0, done.err
        found = report()
        sampled = found["metrics"][PRECISION]["sampled"]
        assert (sampled["proxy"], sampled["queries"]) == ("labels or words/context_precision", len(inside))
        assert all(0 <= row["proxies"][PRECISION] <= 1 for row in found["queries"] if row["in_scope"])
        labelled = sum(row["outcome"] != "UNLABELLED" for row in found["queries"] if row["in_scope"])
        hits = found["metrics"]["ranking/hit_rate_at_5"]
        assert (hits["n"], hits["n_unscored"]) == (labelled, len(inside) - labelled)
        precision = found["metrics"][PRECISION]
        assert precision["n_unscored"] == precision["n_missing"] == 0, "a query that was not drawn lacks nothing"
    done = run(*flags, "--metrics", "scope/*", "--judge.model", "")
    assert done.code == 2 and f"none of the {len(inside)} in-scope cases has labels" in done.err

"""`python -m evals.run`, a run and a sweep: what is printed, written and returned, faults of the user, and flags."""

import json
import os
import re
import shlex
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from xml.etree import ElementTree

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from evals.__main__ import COMMANDS
from evals.__main__ import main as whole
from evals.collect import passes
from evals.config.experiment import ExperimentConfig
from evals.run import USUAL, load_config, main, parser
from retrievers import QdrantRetriever
from retrievers.config.layers import leaves
from tests.support.command import Done
from tests.support.experiment import CASES, Experiment, load_report
from tests.support.loopback import Fault, Reply, free_port
from tests.support.tracking import MlflowServer

Run = Callable[..., Done]
SWEEP = ("--sweep.top-k", "1:4", "--sweep.threshold", "0:0.9:0.1")


@pytest.fixture
def run(indexed: Experiment, here: Path, command: Run) -> Run:
    return partial(command, main, "--config", indexed.config)


def test_a_run_prints_its_table_and_writes_nothing_that_was_not_asked_for(run: Run, here: Path) -> None:
    done = run()
    assert (done.code, done.err) == (0, "")
    assert "ranking/hit_rate_at_3" in done.out and "No criteria to meet." in done.out
    screen = done.out.partition("\nDetails\n")[0].splitlines()
    assert len(screen) <= 18
    assert next(one for one in screen if one.startswith("Next: ")).endswith(" --sweep.threshold 0:0.81:0.03")
    of_words = run("--retriever.threshold-signal", "bm25", "--retriever.mode", "hybrid").out.partition("\nNext: ")[2]
    assert of_words.splitlines()[0].endswith(" --sweep.threshold 0,0.8:1.5:0.02"), "the score that the threshold reads"
    assert [*here.iterdir()] == []


def test_a_run_says_what_its_candidates_meet_and_that_a_value_is_returned_once(run: Run) -> None:
    done = run("--retriever.filters", "title != none", "--retriever.group-by", "heading")
    assert " · where title != none · one for each heading\n" in done.out


def test_the_next_command_takes_the_flags_that_name_data_and_settings(run: Run) -> None:
    gate = ["--criteria", "{ranking/hit_rate_at_1: '>= 0'}"]
    done = run("--retriever.top-k", "1", "--ids", "forward,inverse", "--metrics", "ranking/*", "--no-gate", *gate)
    [line] = [line for line in done.out.splitlines() if line.startswith("Next: ")]
    assert " --retriever.top-k 1 " in line and " --dataset.ids forward,inverse" in line and shlex.join(gate) in line
    assert "--metrics" not in line and "--no-gate" not in line
    grid = run("--objective.out-of-scope", "0.5", "--retriever.threshold", "0.9", "--sweep.top-k", "1,2").out
    assert " --objective.out-of-scope 0.5 " in grid.partition("\nNext: ")[2].splitlines()[0]
    assert run("--save-retrieval", "kept").code == 0
    following = run("--from-retrieval", "kept").out.partition("Next: ")[2].splitlines()[0]
    assert run(*shlex.split(following)[3:]).code == 0, "from what was saved, too"
    assert " --from-retrieval kept " in following and "--sweep.mode" not in following


def test_a_grid_that_follows_a_run_on_test_is_over_dev_unless_from_what_was_saved_of_test(run: Run, here: Path) -> None:
    halves = [json.dumps({**case, "split": ("dev", "test")[number % 2]}) for number, case in enumerate(CASES)]
    (here / "halves.jsonl").write_text("\n".join(halves), encoding="utf-8")
    of_test = "--dataset.path", "halves.jsonl", "--dataset.split", "test", "--retriever.top-k", "1", "--no-gate"
    assert run(*of_test[:2], "--save-retrieval", "whole", "--no-gate").code == 0
    froms = (["--save-retrieval", "kept"], "dev"), (["--from-retrieval", "kept"], "test")
    for flags, split in (*froms, (["--from-retrieval", "whole"], "dev")):
        following = shlex.split(run(*of_test, *flags).out.partition("Next: ")[2].splitlines()[0])[3:]
        assert "--sweep.top-k" in following and following[following.index("--dataset.split") + 1] == split
        assert run(*following, "--no-gate").code == 0


@pytest.mark.parametrize(
    ("flags", "criterion", "code"),
    [
        ((), "{ranking/hit_rate_at_5: '>= 0.75'}", 0),
        ((), "{ranking/hit_rate_at_5: '> 0.75'}", 1),
        (("--no-gate",), "{ranking/hit_rate_at_5: '> 0.75'}", 0),
        ((), "{ranking/expected_top3_in_5: '>= 0'}", 1),
        (SWEEP, "{ranking/ndcg_at_10: '>= 0.7'}", 0),
        (SWEEP, "{ranking/ndcg_at_10: '>= 0.9'}", 1),
    ],
)
def test_the_exit_code_says_if_criteria_are_met(run: Run, flags: tuple[str, ...], criterion: str, code: int) -> None:
    assert run("--criteria", criterion, *flags).code == code


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"mode": "hybrid", "threshold_signal": "bm25", "threshold": 1.1},
        {"mode": "hybrid", "threshold_signal": "known_words", "threshold": 0.5},
        {"rerank": "cross-encoder", "threshold_signal": "rerank", "threshold": 0.4,
         "cross_encoder.model": "python:tests.support.rerankers:Scorer"},
    ],
)  # fmt: skip
@pytest.mark.parametrize("sweep", [(), SWEEP[:2]])
def test_the_exported_settings_give_an_application_the_same_results(
    run: Run, here: Path, monkeypatch: pytest.MonkeyPatch, indexed: Experiment, settings: dict[str, Any], sweep: Any
) -> None:
    settings = settings | {"store.path": os.path.relpath(indexed.store)}
    flags = [word for name, value in settings.items() for word in (f"--retriever.{name.replace('_', '-')}", value)]
    assert run(*flags, *sweep, "--output", "r.json", "--export", "app/retriever.yaml").code == 0
    made = load_report(here / "r.json")
    assert any(query["retrieved"] for query in made["queries"])
    written, expected = yaml.safe_load(Path("app/retriever.yaml").read_text("utf-8")), made["config"]["retriever"]
    assert written == expected
    monkeypatch.chdir("/")
    with QdrantRetriever.from_config(here / "app" / "retriever.yaml") as retriever:
        for query in made["queries"]:
            found = [(one.chunk.chunk_id, one.score) for one in retriever.search(query["query"]).chunks]
            assert found == [(hit["chunk_id"], hit["score"]) for hit in query["retrieved"]]


def test_a_printed_configuration_loaded_again_is_the_same(run: Run, here: Path, command: Run, monkeypatch: Any) -> None:
    changes = ["--retriever.top-k", "7", "--retriever.store.path", "here", "--criteria", "{scope/abstention: '> 0.1'}"]
    printed = run("--print-config", *changes)
    assert (printed.code, printed.err) == (0, "")
    settings = yaml.safe_load(printed.out)
    assert (settings["retriever"]["top_k"], settings["retriever"]["store"]["path"]) == (7, str(here / "here"))
    assert settings["criteria"]["scope/abstention"] == "> 0.1"
    (elsewhere := here / "elsewhere").mkdir()
    (elsewhere / "again.yaml").write_text(printed.out)
    monkeypatch.chdir(elsewhere)
    assert command(main, "--config", "again.yaml", "--print-config").out == printed.out
    assert {*here.rglob("*")} == {elsewhere, elsewhere / "again.yaml"}


def test_a_run_of_any_name_is_kept(run: Run, here: Path, mlflow_database: Path) -> None:
    name = "../../etc: " + "ö" * 300
    (here / "mlruns").mkdir()
    database = shutil.copy(mlflow_database, here / "mlruns")
    done = run("--tracking.enabled", "true", "--tracking.run-name", name, "--quiet")
    assert (done.code, done.err) == (0, "")
    [file] = (here / "mlruns" / "reports").iterdir()
    assert (file.name, load_report(file)["name"]) == ("etc-" + "ö" * 58 + ".json", "small")
    with closing(sqlite3.connect(database)) as opened:
        assert opened.execute("SELECT name, status FROM runs").fetchall() == [(name[:250], "FINISHED")]


@pytest.mark.parametrize("work", ["evals.experiment.flow.write_run", "evals.experiment.flow.save_views"])
def test_who_interrupts_what_follows_is_told_what_is_kept(run: Run, work: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, Mock(side_effect=KeyboardInterrupt))
    done = run("--tracking.enabled", "true", "--output", "r.json", "--quiet")
    said = "interrupted: r.json is saved; python -m evals.tracking r.json writes its run\n"
    assert (done.code, done.err, load_report(Path("r.json"))["name"]) == (130, said, "small")


def test_where_mlflow_cannot_be_reached_the_report_is_there_all_the_same(run: Run, here: Path) -> None:
    uri = f"http://me:s3cret@127.0.0.1:{free_port()}"
    done = run("--tracking.enabled", "true", "--tracking.uri", uri, "--quiet")
    [file] = (here / "mlruns" / "reports").iterdir()
    place, shown = file.relative_to(here), uri.replace("me:s3cret", "***")
    assert done.err.startswith(f"incomplete: MLflow at {shown} failed: ")
    late = f"python -m evals.tracking {place} --tracking.uri '{shown}'"
    assert done.err.endswith(f"(the report is at {place}; {late} writes it)\n")
    assert (done.code, load_report(file)["config"]["tracking"]["uri"]) == (3, shown)
    kept = "".join(path.read_text() for path in here.rglob("*") if path.is_file())
    assert "s3cret" not in kept + done.err + done.out


def test_a_server_that_refuses_at_the_end_leaves_the_files_and_a_failed_run(run: Run, here: Path) -> None:
    files = ("--output", "r.json", "--junit", "deep/j.xml", "--html", "r.html")
    refused = {"error_code": "INVALID_PARAMETER_VALUE", "message": "refused as the test wants it"}
    with MlflowServer() as server, server.failing(Fault(reply=Reply.json(refused, 400), on="runs/log-batch")):
        done = run("--tracking.enabled", "true", "--tracking.uri", server.url, *files)
    assert (done.code, server.statuses) == (3, ["FAILED"])
    assert (here / "r.html").read_text(encoding="utf-8").rstrip().endswith("</html>")
    assert ElementTree.parse(here / "deep" / "j.xml").getroot().tag == "testsuites"
    assert [*(here / "deep").iterdir()] == [here / "deep" / "j.xml"]
    assert "ranking/hit_rate_at_3" in done.out
    assert len(load_report(here / "r.json")["queries"]) == len(CASES)


def test_a_sweep_prints_its_best_cells_and_its_report_is_of_the_chosen_one(run: Run, here: Path) -> None:
    done = run(*SWEEP, "--output", "r.json")
    assert (done.code, done.err) == (0, "")
    # What is piped is not cut at 80 columns.
    assert "wrongly silent  tokens  passes\n" in done.out
    assert "Grid of 40 cells  1 × retrieved · 6 queries" in done.out
    assert "chosen out of 40 cells on these queries, so its figures are optimistic" in done.out
    made = load_report(here / "r.json")
    grid, place = made["grid"], made["grid"]["choice"]["recommended"]["cell"]
    for setting in ("top_k", "threshold"):
        assert made["config"]["retriever"][setting] == grid["cells"][setting][place]
    own = grid["metrics"].keys() & made["metrics"].keys()
    assert {"ranking/ndcg_at_10", "scope/abstention", "scope/false_abstention"} <= own
    for name in own:
        assert grid["metrics"][name]["mean"][place] == made["metrics"][name]["value"]
    assert made["config"]["sweep"]["top_k"] == [1, 2, 3, 4]
    assert grid["ranking"]["metrics"] == {"ranking/ndcg_at_10": 0.8, "scope/abstention": 0.2}
    assert max(grid["ranking"]["values"]) - grid["ranking"]["values"][place] <= grid["choice"]["margin"]


def test_what_thresholds_read_is_swept_by_one_search(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searches = Mock(wraps=passes.collect)
    monkeypatch.setattr(passes, "collect", searches)
    files = ("--output", here / "r.json", "--quiet")
    kinds, thresholds = ("each", "best"), ("0.2", "0.4")
    flags = ("--sweep.threshold-on", ",".join(kinds), "--sweep.threshold", ",".join(thresholds))
    assert run(*flags, *files).code == 0 and searches.call_count == 1
    grid = load_report(here / "r.json")["grid"]
    assert [one["parameters"]["threshold_on"] for one in grid["configurations"]] == [*kinds]
    means = grid["metrics"]["ranking/precision_at_3"]["mean"]
    alone = []
    for kind, threshold in product(kinds, thresholds):
        assert run("--retriever.threshold-on", kind, "--retriever.threshold", threshold, *files).code == 0
        alone.append(load_report(here / "r.json")["metrics"]["ranking/precision_at_3"]["value"])
    assert means == pytest.approx(alone) and means[:2] != means[2:]


def test_a_grid_that_cannot_be_ranked_is_incomplete_shows_its_first_cell_and_is_kept(run: Run, here: Path) -> None:
    done = run(*SWEEP, "--objective.metrics", "metadata/completeness", "--output", "r.json", "--export", "x.yaml")
    unlike = (
        "metadata/completeness scores 6 of 6 queries in some cells and not in all, over 5%: means over different "
        "queries do not compare"
    )
    assert done.code == 3 and f"incomplete: the cells are not ranked: {unlike}" in done.err
    shown, first = " ".join(done.out.split()), "semantic, top_k 1, threshold 0"
    assert f"The cells are not ranked: {unlike} " in shown and "Next:" not in shown
    assert f" {first.replace('semantic, ', 'semantic · ').replace(', ', ' · ')}" in shown
    made = load_report(here / "r.json")
    assert made["grid"]["choice"] is None and not (here / "x.yaml").exists()
    assert (made["config"]["retriever"]["top_k"], made["config"]["retriever"]["threshold"]) == (1, 0)


def row(**values: Any) -> str:
    return json.dumps({**CASES[0], **values})


BAD = [row(querry="x"), row(in_scope=False), "{", row(), row()]
LOST = [row(), row(id="b", evidence=[{"source_url": "/docs/arms/kinematics", "quote": "nothing on this page says so"}])]
FAULTS: Mapping[str, Mapping[str, str]] = {
    "--dataset.path bad.jsonl": {"bad.jsonl": "\n".join(BAD)},
    "--dataset.path lost.jsonl": {"lost.jsonl": "\n".join(LOST)},
    "--dataset.path gone.jsonl": {},
    "--criteria '{ranking/recal_at_5: \">= 0.5\"}'": {},
    "--ids forwards": {},
    "--config bad.yaml": {"bad.yaml": "{}"},
    "--config defalt": {},
    "--retriever.collection robot": {},
    "--retriever.store.path gone --retriever.collection mine": {},
    "--retriever.embedding.model python:tests.support.embeddings:Counting": {},
    "--output .": {},
    "--output file/r.json": {"file": ""},
    f"--output {'r' * 300}": {},
    "--output r --html r": {},
    "--dataset.path mine.jsonl --output ./mine.jsonl": {"mine.jsonl": '{"query": "x", "in_scope": false}'},
    "--tracking.enabled true": {"mlruns": ""},
    "--judge.api-key-env sk-s3cret": {},
    "--sweep.threshold 0:1:0.3": {},
    "--sweep.top-k 1:4 --objective.metrics ranking/ndgc": {},
    "--sweep.top-k 1:4 --objective.metrics ragas/llm_context_recall": {},
    "--sweep.top-k 1:4 --objective.metrics scope/auroc": {},
    "--sweep.top-k 1:4 --judge.model cohere:command --judge.sample 9 --objective.constraints judge/kappa>=0.5": {},
    "--sweep.top-k 1:4 --objective.metrics scope/false_answer": {},
    "--sweep.top-k 1:4 --objective.constraints '{scope/fals: \"<= 1\"}'": {},
    "--sweep.top-k 1:20 --sweep.candidates 10,30": {},
    "--sweep.top-k 5,200": {},
    "--sweep.fusion weighted,rrf --retriever.mode hybrid --retriever.threshold-on final": {},
    "--sweep.mode semantic,keyword --retriever.threshold-on final": {},
    "--threshold.false-answer 1.5": {},
    "--threshold.false-answer 0.3 --sweep.threshold 0.1,0.2": {},
    "--threshold.false-answer 0.5 --retriever.threshold 0.3": {},
    "--threshold.false-answer 0.1": {},
    "--threshold.false-answer 0.1 --ids forward": {},
    "--retriever.threshold-signal bm25": {},
    "--retriever.threshold-signal rerank": {},
    "--retriever.threshold-signal rerank --retriever.rerank cross-encoder --retriever.threshold-on final": {},
    "--retriever.threshold-signal known_words --retriever.mode hybrid --retriever.threshold 1.5": {},
    "--metrics 'ragas/llm_*'": {},
    "--metrics ranking/hitrate_at_5": {},
    "--metrics ranking/judged_at_5": {},
    "--metrics 'ranking/expected*' --retriever.top-k 4": {},
    "--metrics 'candidates/ndcg*' --retriever.candidates 5": {},
    "--dataset.split train": {},
    "--metrics ranking/hit_rate_at_5 --criteria '{ranking/mrr_*: \"> 0\"}'": {},
    "--judge.model cohere:command --judge.api-key-env MY_KEY --metrics ragas/llm_context_recall": {},
    "--judge.stop.margin 0.03 --sweep.top-k 1:3": {},
    "--tracking.enabled true --tracking.uri mlruns": {},
    "--judge.stop.margin 0.03 --sweep.top-k 1:3 --judge.model cohere:command": {},
    '--sweep.top-k 1:4 --objective.constraints \'{scope/false_answer: "< 0", ranking/recall_at_3: "> 1"}\'': {},
}
"""Arguments, and the files that lie in the working directory."""


@pytest.mark.parametrize("arguments", FAULTS)
def test_a_fault_of_the_user_is_named_and_nothing_written(
    run: Run, indexed: Experiment, here: Path, arguments: str, snapshot: SnapshotAssertion
) -> None:
    for file, text in FAULTS[arguments].items():
        (here / file).write_text(text)
    before, done = {*here.iterdir()}, run(*shlex.split(arguments))
    assert (done.code, done.out) == (2, "")
    assert done.err.replace(str(here), "here").replace(str(indexed.folder), "experiment") == snapshot
    assert "Traceback" not in done.err and "s3cret" not in done.err
    assert {*here.iterdir()} == before


# The commands under one name, and the flags of a run: what they show, and what changes an experiment

FIVE = {
    "RAG_DEFAULT_TOP_K": "9",
    "RAG_SIMILARITY_THRESHOLD": "0.9",
    "RAG_DEFAULT_COLLECTION": "theirs",
    "RAG_SEARCH_MODE": "semantic",
    "QDRANT_URL": "http://127.0.0.1:6333",
}
"""The variables that change an experiment, but not the default one."""


def loaded(*arguments: str, env: dict[str, str] | None = None) -> ExperimentConfig:
    return load_config(parser().parse_args(arguments), env or {})


@pytest.mark.parametrize("name", COMMANDS)
def test_usage_and_errors_of_a_command_begin_with_the_one_name(name: str, command: Run) -> None:
    usage, fault = (command(whole, name, flag) for flag in ("--help", "--no-such-flag"))
    assert (usage.code, fault.code) == (0, 2)
    assert usage.out.startswith(f"usage: retrieval-evals {name} ") and fault.err.startswith("retrieval-evals")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["run", "--list-metrics"], 0, "ranking/ndcg_at_5"),
        (["golden", "check", "no-such.jsonl"], 2, "no-such.jsonl"),
        (["serach", "--top-k", "3"], 2, "retrieval-evals: unknown command 'serach'; did you mean 'search'"),
        ([], 2, "required: COMMAND (see --help)"),
        (["--version"], 0, f"retrieval-evals {version('retrieval-evals')}\n"),
        *((["--help"], 0, f"  {name:8} {about}") for name, (about, _) in COMMANDS.items()),
        (["golden", "label", "--help"], 0, "usage: retrieval-evals golden label [OPTIONS] FILE\n"),
        (["compare", "--help"], 0, "usage: retrieval-evals compare [OPTIONS] RUN ...\n"),
    ],
)
def test_the_exit_code_is_that_of_the_command(arguments: list[str], code: int, said: str, command: Run) -> None:
    done = command(whole, *arguments)
    assert done.code == code and said in (done.err if code else done.out)


def test_the_default_experiment_has_no_part_in_a_run_on_other_data() -> None:
    own = loaded("--dataset.path", "my.jsonl", "--retriever.collection", "mine", "--retriever.threshold", "0.2")
    settings = {"dataset.path": "my.jsonl", "retriever.collection": "mine", "retriever.threshold": 0.2}
    assert own == ExperimentConfig.load(settings=settings, env={})
    handbook, elsewhere = loaded(), loaded("--retriever.collection", "handbook_copy")
    assert handbook.dataset.split == "test" and handbook.retriever.metadata.required and handbook.sources.dir
    assert (elsewhere.dataset, elsewhere.sources, elsewhere.criteria) == (
        handbook.dataset, handbook.sources, handbook.criteria
    )  # fmt: skip
    asked_for = loaded("--config", "default", "--dataset.path", "my.jsonl")
    assert (asked_for.dataset.split, asked_for.retriever) == ("test", handbook.retriever)


def test_a_packaged_experiment_has_a_name(here: Path) -> None:
    assert loaded("--config", "spec").name == "spec"
    Path("spec").write_text("name: my file of that name")
    assert loaded("--config", "spec").name == "my file of that name"


def test_no_variable_but_the_five_changes_an_experiment_and_none_the_default_one(tmp_path: Path) -> None:
    assert loaded(env=FIVE) == loaded()
    file = tmp_path / "open.yaml"
    file.write_text("dataset: {path: golden.jsonl}\n")
    names = [name.replace(".", mark).upper() for name in leaves(ExperimentConfig) for mark in ("_", "__", ".")]
    others = {f"{prefix}{name}": "1" for name in names for prefix in ("", "EVALS_", "RAG_", "RETRIEVAL_EVALS_")}
    assert FIVE.keys().isdisjoint(others) and {"SEED", "NAME", "RETRIEVER__TOP_K"} < others.keys()
    assert loaded("--config", str(file), env=others) == loaded("--config", str(file))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in others.items():
            patch.setenv(name, value)
        for made in (loaded("--config", str(file)), ExperimentConfig.load(file)):
            assert made == ExperimentConfig.load(file, env={})


def test_help_shows_the_flags_that_people_use_and_help_all_every_setting(command: Run) -> None:
    shown = {}
    for flag in ("--help", "--help-all"):
        text = command(whole, "run", flag).out
        shown[flag] = {*re.findall(r"^ +(?:-\w, )?(--[\w.-]+)", text, re.MULTILINE)}
    assert shown["--help"] == {*USUAL} and len(USUAL) == 21
    every = {f"--{name.replace('_', '-')}" for name in leaves(ExperimentConfig)} - {"--dataset.ids", "--dataset.limit"}
    assert every | shown["--help"] - {"--help-all"} <= shown["--help-all"]
    assert "Exit codes: 0 passed, 1 a criterion failed, 2 user error, 3 incomplete, 130" in text

"""Any query within the limits is answered, and one beyond them refused: one message, exit code 2."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from evals.run import main as evals_run
from retrievers.__main__ import main as retrievers
from tests.support.command import Done, call
from tests.support.experiment import COLLECTION, Experiment, make_experiment

pytestmark = pytest.mark.integration
Asked = Callable[[Sequence[str]], Done]
QUERIES = {
    "special characters": "\"'); DROP TABLE x; -- <b>&amp;</b> %s {y} \\ \x00 ../..",
    "emoji": "🤖 🦾👩🏽‍🔬",
    "only stop words": "the and of",
    "another language": "Wie hält ein Roboter das Gleichgewicht?",
    "another script": "ロボットの関節 العربية",
    "the longest allowed": ("word " * 512).strip(),
    "one word": "x" * 4_000,
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """An experiment whose collection is there."""
    made = make_experiment(tmp_path_factory.mktemp("bad"))
    assert evals_run(["--config", str(made.config), "--quiet", "--no-gate"]) == 0
    (made.folder / "retriever.yaml").write_text(f"collection: {COLLECTION}\nstore: {{path: store}}\n")
    return made


@pytest.fixture
def searched(
    made: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Asked:
    monkeypatch.chdir(tmp_path)
    there = ["--config", str(made.folder / "retriever.yaml")]
    return lambda arguments: call(retrievers, ["search", *arguments, *there], capsys)


# Queries


@pytest.mark.parametrize("mode", ["semantic", "keyword", "hybrid"])
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
def test_any_query_within_the_limits_is_answered(searched: Asked, query: str, mode: str) -> None:
    done = searched([query, "--mode", mode, "--threshold", "0", "--json"])
    assert (done.code, done.err) == (0, "")
    session = json.loads(done.out)
    assert (session["query"], session["status"]) == (query, "success")
    assert bool(session["chunks"]) or mode == "keyword"
    assert session["chunks"] or session["suggestions"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("x" * 10_000, "the query is too long: 1 words and 10000 characters; at most 512 words and 4000 characters"),
        ("word " * 2_000, "the query is too long: 2000 words and 10000 characters; at most 512 words and 4000"),
        (" \t\n", "the query is empty; expected a question or some words"),
    ],
)
def test_a_query_beyond_the_limits_is_refused(searched: Asked, query: str, said: str) -> None:
    done = searched([query])
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1) and said in done.err

"""What cannot work, given to the commands as a user would: one message, exit code 2, and nothing written."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from evals.run import main as evals_run
from retrievers.__main__ import main as retrievers
from tests.support.collections import fill
from tests.support.command import Done, call
from tests.support.experiment import COLLECTION, Experiment, make_experiment
from tests.support.qdrant_server import QdrantServer

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


@pytest.fixture(params=["search", "evaluate"])
def asked(
    request: pytest.FixtureRequest,
    made: Experiment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Asked:
    """A search, or an evaluation, with settings of the retriever."""
    monkeypatch.chdir(tmp_path)

    def search(flags: Sequence[str]) -> Done:
        return call(retrievers, ["search", "joint angles", "--config", made.folder / "retriever.yaml", *flags], capsys)

    def evaluate(flags: Sequence[str]) -> Done:
        renamed = [flag.replace("--", "--retriever.", 1) if flag.startswith("--") else flag for flag in flags]
        output = ["--output", "report.json", "--export", "retriever.yaml", "--tracking.enabled", "true"]
        return call(evals_run, ["--config", made.config, *output, *renamed], capsys)

    return search if request.param == "search" else evaluate


BAD = {
    "a filter on an unknown field": (
        ["--filters", "modul = arms"],
        "filters: the collection's payload has no field 'modul'; did you mean 'module'?",
    ),
    "a range on a string": (
        ["--filters", "title >= 5"],
        "filters: 'title >= 5' lets no chunk of collection 'robots' through; numbers and text differ",
    ),
    "an empty any-of": (["--filters", "{tags: []}"], "filters: tags: no values are given, so nothing could match"),
    "lambda 2": (
        ["--rerank", "mmr", "--mmr-lambda", "2"],
        "mmr_lambda: Input should be less than or equal to 1, got '2'",
    ),
    "reranking without a key": (
        ["--rerank", "cross-encoder"],
        "Cohere Rerank needs an API key: expected it in COHERE_API_KEY, which is not set",
    ),
    "a scale that is none": (
        ["--mode", "hybrid", "--fusion", "rrf", "--threshold-on", "final"],
        "threshold_on 'final' would compare the threshold with rrf scores, which have no fixed scale; "
        "use threshold_on: each, or fusion: weighted, or rerank: cross-encoder",
    ),
    "a home of nobody": (
        ["--store.path", "~nobody-of-that-name/store"],
        "store.path: expected the path of a file or folder (Could not determine home directory.)",
    ),
}


@pytest.mark.parametrize(("flags", "said"), BAD.values(), ids=BAD.keys())
def test_a_setting_that_cannot_work_is_told(asked: Asked, flags: list[str], said: str, tmp_path: Path) -> None:
    assert_refused(asked(flags), said, tmp_path)


def test_a_collection_without_sparse_vectors_asked_for_hybrid_says_how_to_index_it(
    asked: Asked, tmp_path: Path
) -> None:
    with QdrantServer() as server:
        fill(server.client, "theirs", [[1.0] * 256], [{"page_content": "a robot"}])
        before = len(server.requests)
        flags = ["--store.url", server.url, "--collection", "theirs", "--trust-embedding", "true", "--mode", "hybrid"]
        done = asked(flags)
        assert {request.method for request in server.requests[before:]} <= {"GET", "POST"}
    said = "collection 'theirs' has no sparse vector 'bm25', which mode 'hybrid' searches: it has none"
    assert_refused(done, said, tmp_path)
    assert "index the pages again (python -m retrievers index DIR --replace)" in done.err


def assert_refused(done: Done, said: str, folder: Path) -> None:
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.startswith("error: ") and done.err.count("error:") == 1
    assert "Traceback" not in done.err
    assert list(folder.iterdir()) == []


@pytest.fixture
def searched(
    made: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Asked:
    monkeypatch.chdir(tmp_path)
    there = ["--config", str(made.folder / "retriever.yaml")]
    return lambda arguments: call(retrievers, ["search", *arguments, *there], capsys)


def test_payload_keys_that_are_not_there_are_told(searched: Asked, tmp_path: Path) -> None:
    said = "'robots' was indexed under other payload keys; set metadata.text_key: 'page_content', or"
    assert_refused(searched(["robot", "--metadata.text-key", "body"]), said, tmp_path)


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
def test_a_query_beyond_the_limits_is_refused(searched: Asked, query: str, said: str, tmp_path: Path) -> None:
    assert_refused(searched([query]), said, tmp_path)


def test_a_golden_query_beyond_the_limits_is_named_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = make_experiment(tmp_path)
    made.write_golden([{"id": "a", "query": "fine", "in_scope": False}, {"id": "b", "query": "x" * 10_000}])
    done = call(evals_run, ["--config", made.config], capsys)
    assert (done.code, done.out) == (2, "")
    assert "golden.jsonl:2: query: " in done.err and "1 words and 10000 characters" in done.err
    assert not made.store.exists()

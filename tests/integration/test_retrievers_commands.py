"""`python -m retrievers index` and `search` as a user runs them: what they say, and what they refuse."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from retrievers.__main__ import main
from retrievers.config import StoreConfig
from retrievers.store import open_client
from tests.support.command import Done, call
from tests.support.experiment import COLLECTION, Experiment, index_once, make_experiment
from tests.support.indexing import content, manifest, write_pages

pytestmark = pytest.mark.integration
PAGES = {"a.md": "# Alpha\n\nAlpha text.\n\n## Sub\n\nSub text.\n", "b/c.mdx": "Gamma text.\n"}
DOCS = "handbook/docs"
Command = Callable[..., Done]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Command:
    return lambda *arguments: call(main, arguments, capsys)


@pytest.fixture
def index(run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Index the pages of the working directory with embeddings that cost nothing."""
    monkeypatch.chdir(tmp_path)
    write_pages(tmp_path / DOCS, PAGES)
    flags = ["--embedding.provider", "python", "--embedding.model"]

    def index(*arguments: str, model: str = "make_embeddings") -> Done:
        return run("index", DOCS, *flags, f"tests.support.indexing:{model}", *arguments)

    return index


def stored() -> tuple[Any, Any]:
    client, name = open_client(StoreConfig(path=Path(".qdrant")), {}, create=True), "handbook"
    try:
        return (content(client, name), manifest(client, name)) if client.collection_exists(name) else ({}, None)
    finally:
        client.close()


@pytest.mark.slow
def test_the_summary_says_what_was_done(index: Command) -> None:
    place = "2 pages, 3 chunks in collection 'handbook' at .qdrant: "
    assert index() == Done(0, place + "3 added, 0 refreshed, 0 removed, 0 unchanged\n", "")
    assert index() == Done(0, place + "0 added, 0 refreshed, 0 removed, 3 unchanged\n", "")
    write_pages(Path(DOCS), {"a.md": "# Alpha\n\nAlpha text.\n\n\n## Sub\n\nOther text.\n"})
    assert index() == Done(0, place + "1 added, 0 refreshed, 1 removed, 2 unchanged\n", "")


@pytest.mark.slow
def test_flags_say_how_pages_are_cut_and_addressed(index: Command) -> None:
    write_pages(Path(DOCS), {"long.md": "Some words in a sentence. " * 40})
    assert index("--base-url", "/help", "--max-tokens", "16").code == 0
    points, recorded = before = stored()
    about = [payload["metadata"] for payload, _ in points.values()]
    assert {one["source_url"] for one in about} == {"/help/a", "/help/b/c", "/help/long"}
    assert max(one["chunk_token_count"] for one in about) <= 16
    expected = {"context": "path", "splitter": "sections", "max_tokens": 16, "overlap": 0, "merge_small": False}
    assert recorded["index"] == expected
    assert (index("--base-url", "/help").code, stored() == before) == (0, True)
    refused = index("--context", "title")
    said = "was indexed with index.context 'path', not 'title'; index it again with --replace"
    assert (refused.code, said in refused.err, stored() == before) == (2, True, True)
    assert index("--context", "title", "--replace").code == 0
    assert stored()[1]["index"] == {**expected, "context": "title"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere: expected a folder of pages, found nothing"),
        (["bad", "--skip-broken"], "bad/x.md: the page has no content"),
        ([DOCS, "--overlap", "64", "--max-tokens", "64"], "overlap: expected less than max_tokens"),
        ([DOCS, "--embedding.provider", "cohere"], "needs an API key: expected it in COHERE_API_KEY"),
        ([DOCS, "--store.path", "r.yaml"], "the embedded store at r.yaml cannot be opened"),
        (
            ["bad"],
            "error: pages cannot be indexed, nothing was changed (--skip-broken indexes the others):\n"
            "  bad/x.md: the page has no content\n"
            "  bad/y.md: line 1: the front matter is not closed by a line of three dashes\n"
            "  bad/z.md: cannot be read: No such file or directory\n",
        ),
    ],
)
def test_a_fault_is_one_message_with_exit_code_2_and_changes_nothing(
    index: Command, run: Command, arguments: list[str], message: str
) -> None:
    write_pages(Path(), {"bad/x.md": "", "bad/y.md": "---\nopen: 1\n", "r.yaml": "colection: x\n"})
    Path("bad/z.md").symlink_to("nowhere")
    done = run("index", *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err and "Traceback" not in done.err
    assert stored() == ({}, None)


@pytest.mark.slow
def test_embeddings_that_fail_change_nothing(index: Command) -> None:
    failed = index(model="make_failing")
    told, last = failed.err.splitlines()
    fault = "python:tests.support.indexing:make_failing failed to embed: ConnectionError, the provider went away"
    assert failed.code == 2
    assert told.endswith(f"trying again for up to 60 s (store.wait_s): {fault}")
    assert last == f"error: {fault} (34 attempts in 61.8 s)"
    assert index(model="make_interrupted") == Done(130, "", "interrupted\n")
    assert stored() == ({}, None)
    assert index("--quiet").code == 0
    before = stored()
    refused = index(model="make_other_length")
    assert refused.code == 2 and "name another collection" in refused.err
    assert stored() == before


# Any query within the limits is answered, and one beyond them refused


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    made = make_experiment(tmp_path_factory.mktemp("searched"))
    index_once(made)
    return made


@pytest.fixture
def search(made: Experiment, run: Command) -> Command:
    there = ["--collection", COLLECTION, "--store.path", made.store]
    return lambda *arguments: run("search", *arguments, *there)


@pytest.mark.parametrize("mode", ["semantic", "keyword", "hybrid"])
@pytest.mark.parametrize(
    "query",
    [
        "\"'); DROP TABLE x; -- <b>&amp;</b> %s {y} \\ \x00 ../..",
        "🤖 🦾👩🏽‍🔬",
        "the and of",
        "Wie hält ein Roboter das Gleichgewicht?",
        "ロボットの関節 العربية",
        ("word " * 512).strip(),
        "x" * 4_000,
    ],
    ids=["special characters", "emoji", "stop words", "a language", "a script", "the longest allowed", "one word"],
)
def test_any_query_within_the_limits_is_answered(search: Command, query: str, mode: str) -> None:
    done = search(query, "--mode", mode, "--threshold", "0", "--json")
    assert (done.code, done.err) == (0, "")
    session = json.loads(done.out)
    assert (session["query"], session["status"]) == (query, "success")
    assert session["chunks"] or (mode == "keyword" and session["suggestions"])


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("x" * 10_000, "the query is too long: 1 words and 10000 characters; at most 512 words and 4000 characters"),
        ("word " * 2_000, "the query is too long: 2000 words and 10000 characters; at most 512 words and 4000"),
        (" \t\n", "the query is empty; expected a question or some words"),
    ],
)
def test_a_query_beyond_the_limits_is_refused(search: Command, query: str, said: str) -> None:
    done = search(query)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1) and said in done.err

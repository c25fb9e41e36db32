"""`python -m retrievers index` as a user runs it."""

from pathlib import Path
from typing import Any

import pytest

from retrievers.__main__ import main
from retrievers.config import StoreConfig
from retrievers.store import open_client
from tests.support.indexing import content, manifest, write_pages

pytestmark = [pytest.mark.integration, pytest.mark.slow]
PAGES = {"a.md": "# Alpha\n\nAlpha text.\n\n## Sub\n\nSub text.\n", "b/c.mdx": "Gamma text.\n"}
FAST = ["--embedding.provider", "python", "--embedding.model"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with the pages in `handbook/docs`."""
    monkeypatch.chdir(tmp_path)
    write_pages(tmp_path / "handbook" / "docs", PAGES)
    return tmp_path


def run(*arguments: str) -> int:
    try:
        return main(["index", *arguments])
    except SystemExit as stopped:
        return int(stopped.code or 0)


def index(*arguments: str, model: str = "make_embeddings") -> int:
    """Index the pages with embeddings that cost nothing."""
    return run("handbook/docs", *FAST, f"tests.support.indexing:{model}", *arguments)


def stored(name: str = "handbook", path: str = ".qdrant") -> tuple[Any, Any]:
    client = open_client(StoreConfig(path=Path(path)), {}, create=True)
    try:
        return (content(client, name), manifest(client, name)) if client.collection_exists(name) else ({}, None)
    finally:
        client.close()


def test_the_summary_says_what_was_done(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = "2 pages, 3 chunks in collection 'handbook' at .qdrant: "
    assert index() == 0
    assert capsys.readouterr() == (place + "3 added, 0 refreshed, 0 removed, 0 unchanged\n", "")
    assert index() == 0
    assert capsys.readouterr() == (place + "0 added, 0 refreshed, 0 removed, 3 unchanged\n", "")
    write_pages(folder / "handbook" / "docs", {"a.md": "# Alpha\n\nAlpha text.\n\n\n## Sub\n\nOther text.\n"})
    assert index() == 0
    assert capsys.readouterr() == (place + "1 added, 0 refreshed, 1 removed, 2 unchanged\n", "")


def test_flags_say_how_pages_are_cut_and_addressed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_pages(folder / "handbook" / "docs", {"long.md": "Some words in a sentence. " * 40})
    assert index("--base-url", "/help", "--max-tokens", "16") == 0
    points, recorded = before = stored()
    addresses = {payload["metadata"]["source_url"] for payload, _ in points.values()}
    assert addresses == {"/help/a", "/help/b/c", "/help/long"}
    assert max(payload["metadata"]["chunk_token_count"] for payload, _ in points.values()) <= 16
    expected = {"context": "path", "splitter": "sections", "max_tokens": 16, "overlap": 0, "merge_small": False}
    assert recorded["index"] == expected
    assert (index("--base-url", "/help"), stored() == before) == (0, True)
    assert index("--context", "title") == 2
    said = "was indexed with index.context 'path', not 'title'; index it again with --replace"
    assert said in capsys.readouterr().err
    assert stored() == before
    assert index("--context", "title", "--replace") == 0
    assert stored()[1]["index"] == {**expected, "context": "title"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere: expected a folder of pages, found nothing"),
        (["bad", "--skip-broken"], "bad/x.md: the page has no content"),
        (["handbook/docs", "--overlap", "64", "--max-tokens", "64"], "overlap: expected less than max_tokens"),
        (["handbook/docs", "--embedding.provider", "cohere"], "needs an API key: expected it in COHERE_API_KEY"),
        (["handbook/docs", "--store.path", "r.yaml"], "the embedded store at r.yaml cannot be opened"),
    ],
)
def test_a_fault_is_one_message_with_exit_code_2_and_changes_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    (folder / "empty").mkdir()
    write_pages(folder, {"bad/x.md": "", "r.yaml": "colection: x\n"})
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and message in err and "Traceback" not in err
    assert stored() == ({}, None)


def test_broken_pages_are_listed_at_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_pages(folder / "handbook" / "docs", {"x.md": "", "y.md": "---\nopen: 1\n"})
    (folder / "handbook" / "docs" / "z.md").symlink_to("nowhere")
    assert index() == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: pages cannot be indexed, nothing was changed (--skip-broken indexes the others):",
        "  handbook/docs/x.md: the page has no content",
        "  handbook/docs/y.md: line 1: the front matter is not closed by a line of three dashes",
        "  handbook/docs/z.md: cannot be read: No such file or directory",
    ]


def test_embeddings_that_fail_change_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert index(model="make_failing") == 2
    told, last = capsys.readouterr().err.splitlines()
    fault = "python:tests.support.indexing:make_failing failed to embed: ConnectionError, the provider went away"
    assert told.endswith(f"trying again for up to 60 s (store.wait_s): {fault}")
    assert last == f"error: {fault} (34 attempts in 61.8 s)"
    assert index(model="make_interrupted") == 130
    assert capsys.readouterr() == ("", "interrupted\n")
    assert stored() == ({}, None)
    assert index("--quiet") == 0
    before = stored()
    assert index(model="make_other_length") == 2
    assert "name another by --collection" in capsys.readouterr().err
    assert stored() == before

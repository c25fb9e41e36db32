"""`python -m retrievers index` as a user runs it."""

import logging
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from langchain_qdrant import QdrantVectorStore
from qdrant_client import models

from retrievers import QdrantRetriever
from retrievers.__main__ import main
from retrievers.config import RetrieverConfig, StoreConfig
from retrievers.store import open_client
from retrievers.terminal.commands import default_collection
from tests.support.indexing import DIMENSION, HashEmbeddings, content, manifest, write_pages
from tests.support.writable import writable

pytestmark = [pytest.mark.integration, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
PAGES = {"a.md": "# Alpha\n\nAlpha text.\n\n## Sub\n\nSub text.\n", "b/c.mdx": "Gamma text.\n"}
FAST = ["--embedding.provider", "python", "--embedding.model"]


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    yield
    for name in ("retrievers", "evals"):
        logger = logging.getLogger(name)
        for handler in logger.handlers:
            handler.close()
        logger.handlers[:], logger.propagate = [], True
        logger.setLevel(logging.NOTSET)


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


class TestSummary:
    def test_says_what_was_done(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        place = "2 pages, 3 chunks in collection 'handbook' at .qdrant: "
        assert index() == 0
        assert capsys.readouterr() == (place + "3 added, 0 refreshed, 0 removed, 0 unchanged\n", "")
        assert index() == 0
        assert capsys.readouterr() == (place + "0 added, 0 refreshed, 0 removed, 3 unchanged\n", "")
        write_pages(folder / "handbook" / "docs", {"a.md": "# Alpha\n\nAlpha text.\n\n\n## Sub\n\nOther text.\n"})
        assert index() == 0
        assert capsys.readouterr() == (place + "1 added, 0 refreshed, 1 removed, 2 unchanged\n", "")

    def test_quiet_says_nothing(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert index("--quiet") == 0
        assert capsys.readouterr() == ("", "")
        assert len(stored()[0]) == 3

    def test_skipped_pages_are_named_even_when_quiet(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_pages(folder / "handbook" / "docs", {"bad.md": "---\ntitle: 'x\n---\n"})
        assert index("--skip-broken", "--quiet") == 0
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("skipped: handbook/docs/bad.md: line 2: the front matter is not valid YAML: ")
        assert len(err.splitlines()) == 1

    def test_progress_shows_on_a_terminal(self, folder: Path) -> None:
        screen, end = pty.openpty()
        shown = b""
        with subprocess.Popen(
            [
                sys.executable,
                "-m",
                "retrievers",
                "index",
                "handbook/docs",
                *FAST,
                "tests.support.indexing:make_embeddings",
            ],
            env={"PATH": "", "TERM": "xterm", "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=end,
        ) as process:
            os.close(end)
            with suppress(OSError):  # Linux says so when the other end is closed
                while data := os.read(screen, 4096):
                    shown += data
            assert process.stdout is not None
            assert process.stdout.read().startswith(b"2 pages, 3 chunks")
        os.close(screen)
        assert b"embedding" in shown and b"writing" in shown and b"3/3" in shown


class TestCollectionName:
    @pytest.mark.parametrize(
        ("path", "name"),
        [
            ("handbook", "handbook"),
            ("handbook/docs", "handbook"),
            ("site/Content", "site"),
            ("docs/guide", "guide"),
            ("My Docs (v2)", "My_Docs_v2_"),
            ("a.b-c_d", "a_b-c_d"),
            ("日本", "日本"),
        ],
    )
    def test_comes_from_the_folder(self, tmp_path: Path, path: str, name: str) -> None:
        assert default_collection(tmp_path / path) == name

    def test_of_the_root_is_docs(self) -> None:
        assert default_collection(Path("/")) == "docs"

    def test_knows_the_working_directory(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(folder / "handbook" / "docs")
        assert default_collection(Path()) == "handbook"

    def test_is_overruled_by_environment_file_and_flag(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write_pages(folder, {"r.yaml": "collection: from_file\n"})
        monkeypatch.setenv("RAG_DEFAULT_COLLECTION", "from_env")
        assert index() == 0
        assert index("--config", "r.yaml", "--store.path", ".qdrant") == 0
        assert index("--config", "r.yaml", "--store.path", ".qdrant", "--collection", "from_flag") == 0
        assert [len(stored(name)[0]) for name in ("from_env", "from_file", "from_flag", "handbook")] == [3, 3, 3, 0]


class TestSettings:
    def test_base_url_begins_every_address(self, folder: Path) -> None:
        assert index("--base-url", "/help") == 0
        urls = {payload["metadata"]["source_url"] for payload, _ in stored()[0].values()}
        assert urls == {"/help/a", "/help/b/c"}

    def test_max_tokens_is_the_budget(self, folder: Path) -> None:
        write_pages(folder / "handbook" / "docs", {"long.md": "Some words in a sentence. " * 40})
        assert index("--max-tokens", "16") == 0
        points, recorded = stored()
        assert max(payload["metadata"]["chunk_token_count"] for payload, _ in points.values()) <= 16
        expected = {"context": "path", "splitter": "sections", "max_tokens": 16, "overlap": 0, "merge_small": False}
        assert recorded["index"] == expected

    def test_context_is_recorded_and_another_one_refused(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert index("--context", "path") == 0
        before = stored()
        assert before[1]["index"]["context"] == "path"
        assert index() == 0
        assert stored() == before
        assert index("--context", "title") == 2
        assert "was indexed with index.context 'path', not 'title'; index it again with --replace" in (
            capsys.readouterr().err
        )
        assert stored() == before
        assert index("--context", "title", "--replace") == 0
        assert stored()[1]["index"]["context"] == "title"

    def test_replace_allows_mass_removal(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert index() == 0
        (folder / "handbook" / "docs" / "a.md").unlink()
        assert index() == 2
        assert index("--replace") == 0
        assert "0 added, 0 refreshed, 2 removed, 1 unchanged" in capsys.readouterr().out

    def test_what_is_indexed_can_be_searched(self, folder: Path) -> None:
        assert run("handbook/docs") == 0
        config = RetrieverConfig.model_validate({"store": {"path": folder / ".qdrant"}, "collection": "handbook"})
        with QdrantRetriever.open(config, env={}) as retriever:
            assert retriever.search("gamma").chunks[0].source == "b/c.mdx:1-1"


class TestFaults:
    """Each: exit code 2, one message that says what to do, no traceback, and nothing changed."""

    def test_an_overlap_not_smaller_than_the_budget(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        error = self.refused(capsys, index("--overlap", "64", "--max-tokens", "64"))
        assert "error: overlap: expected less than max_tokens, which is 64, got '64' (set by the command line)" in error
        assert not (folder / ".qdrant").exists()

    def refused(self, capsys: pytest.CaptureFixture[str], code: int) -> str:
        out, err = capsys.readouterr()
        assert (code, out) == (2, "")
        assert "Traceback" not in err
        return err

    @pytest.mark.parametrize(
        ("argument", "message"),
        [
            ("nowhere", "error: nowhere: expected a folder of pages, found nothing"),
            ("handbook/docs/a.md", "error: handbook/docs/a.md: expected a folder of pages, found a file"),
            (
                "empty",
                "error: empty: holds no page (.md, .mdx, .html, .htm, .xhtml, .txt, .text, .pdf); nothing was changed",
            ),
        ],
    )
    def test_a_folder_without_pages(
        self, folder: Path, capsys: pytest.CaptureFixture[str], argument: str, message: str
    ) -> None:
        (folder / "empty").mkdir()
        assert self.refused(capsys, run(argument)) == message + "\n"
        assert not (folder / ".qdrant").exists()

    def test_broken_pages_are_listed_at_once(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_pages(folder / "handbook" / "docs", {"x.md": "", "y.md": "---\nopen: 1\n"})
        (folder / "handbook" / "docs" / "z.md").symlink_to("nowhere")
        lines = self.refused(capsys, index()).splitlines()
        assert lines == [
            "error: pages cannot be indexed, nothing was changed (--skip-broken indexes the others):",
            "  handbook/docs/x.md: the page has no content",
            "  handbook/docs/y.md: line 1: the front matter is not closed by a line of three dashes",
            "  handbook/docs/z.md: cannot be read: No such file or directory",
        ]
        assert stored() == ({}, None)

    def test_nothing_but_broken_pages(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_pages(folder / "bad", {"x.md": ""})
        assert "x.md: the page has no content" in self.refused(capsys, run("bad", "--skip-broken"))

    @pytest.mark.parametrize("value", ["0", "-1", "15", "4097", "many", "1.5", ""])
    def test_a_budget_out_of_range(self, folder: Path, capsys: pytest.CaptureFixture[str], value: str) -> None:
        message = self.refused(capsys, index(f"--max-tokens={value}"))
        assert message.startswith("error: max_tokens: ")
        assert message.endswith(f"got {value!r} (set by the command line)\n")

    @pytest.mark.parametrize(
        ("flag", "hint"), [("--skip-brokn", "did you mean '--skip-broken'"), ("--skip", "did you mean '--skip-broken'")]
    )
    def test_an_unknown_flag(self, folder: Path, capsys: pytest.CaptureFixture[str], flag: str, hint: str) -> None:
        assert hint in self.refused(capsys, index(flag))

    def test_no_folder_given(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert "required: SOURCE" in self.refused(capsys, run())

    def test_an_unknown_setting_in_the_file(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_pages(folder, {"r.yaml": "colection: x\n"})
        message = self.refused(capsys, index("--config", "r.yaml"))
        assert "colection: unknown setting" in message and "did you mean 'collection'" in message

    def test_no_key_for_cohere(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        message = self.refused(capsys, run("handbook/docs", "--embedding.provider", "cohere"))
        assert "Cohere needs an API key: expected it in COHERE_API_KEY, which is not set" in message
        assert not (folder / ".qdrant").exists()

    def test_embeddings_that_cannot_be_loaded(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        message = self.refused(capsys, index(model="nothing_here"))
        assert "embedding.model 'tests.support.indexing:nothing_here' cannot be loaded: AttributeError" in message

    def test_embeddings_that_fail(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        message = self.refused(capsys, index(model="make_failing"))
        told, last = message.splitlines()
        fault = "python:tests.support.indexing:make_failing failed to embed: ConnectionError, the provider went away"
        assert told.endswith(f"trying again for up to 60 s (store.wait_s): {fault}")
        assert last == f"error: {fault} (34 attempts in 61.8 s)"
        assert stored() == ({}, None)

    def test_a_server_that_is_not_there(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        message = self.refused(capsys, index("--store.url", "http://127.0.0.1:9"))
        assert "collection 'handbook' at http://127.0.0.1:9: cannot be reached" in message

    def test_a_store_path_that_is_a_file(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_pages(folder, {"taken": "x"})
        assert "the embedded store at taken cannot be opened" in self.refused(capsys, index("--store.path", "taken"))

    def test_another_model(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert index("--quiet") == 0
        before = stored()
        message = self.refused(capsys, index(model="make_other_length"))
        assert "one collection holds one model: choose another name" in message
        assert stored() == before

    def test_a_collection_made_elsewhere(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        client = writable(StoreConfig(path=Path(".qdrant")))
        size = models.VectorParams(size=DIMENSION, distance=models.Distance.COSINE)
        client.create_collection("handbook", vectors_config=size)
        QdrantVectorStore(client, "handbook", embedding=HashEmbeddings()).add_texts(["theirs"])
        client.close()
        before = stored()
        message = self.refused(capsys, index("--replace"))
        assert "collection 'handbook' at .qdrant was not made by `retrievers index` and is left alone" in message
        assert stored() == before

    def test_interruption_is_130_and_changes_nothing(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert index(model="make_interrupted") == 130
        assert capsys.readouterr() == ("", "interrupted\n")
        assert stored() == ({}, None)


def test_the_handbook_is_indexed_by_the_command(handbook: Path, tmp_path: Path) -> None:
    """The packaged embeddings, a process of its own, no terminal: the summary and nothing else."""
    done = subprocess.run(
        [sys.executable, "-m", "retrievers", "index", str(handbook / "docs"), "--store.path", str(tmp_path / "store")],
        env={"PATH": ""},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("48 pages, ")
    points, recorded = stored("physical_ai_handbook", str(tmp_path / "store"))
    assert f"{len(points)} added, 0 refreshed, 0 removed, 0 unchanged" in done.stdout
    assert recorded["embedding"] == {"provider": "wordllama", "model": "l2_supercat_256", "dimension": 256}
    assert recorded["state"] == "complete"

"""`python -m retrievers index|search|inspect`: what is printed, what bad input gets, signals, logging."""

import asyncio
import errno
import json
import logging
import os
import re
import signal
import sys
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from syrupy.assertion import SnapshotAssertion

from retrievers.config import RetrieverConfig, StoreConfig
from retrievers.errors import ConfigError
from retrievers.records import RetrievalSession
from retrievers.retriever.opened import search_settings
from retrievers.store.opening import open_client
from retrievers.terminal.command import print_out, progress_bar, run, set_up_logging
from retrievers.terminal.commands import default_collection, main
from retrievers.terminal.present import session_text
from tests.support.collections import indexed, mark
from tests.support.command import call, python
from tests.support.indexing import HashEmbeddings, content, manifest, pdf, write_pages
from tests.support.loopback import Fault, Reply
from tests.support.qdrant_server import QdrantServer

Captured = pytest.CaptureFixture[str]
QUERY = "how do nodes stream messages"


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working folder: no `.env` and no `.qdrant`."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The flags that name the collection of pages."""
    path = indexed(tmp_path_factory.mktemp("main")).store.path
    return ["--store.path", str(path), "--collection", "pages"]


def shown(arguments: list[str], capsys: Captured) -> str:
    done = call(main, arguments, capsys)
    assert done.code == 0
    return done.out


def refused(arguments: list[str], capsys: Captured) -> str:
    done = call(main, arguments, capsys)
    assert (done.code, done.out) == (2, "") and "Traceback" not in done.err
    return done.err


# Screens: what is printed, on standard output and standard error

FILTERS = 'module = ros2 and not (title = "See: also #1") and chunk_token_count >= 5'
PLAIN, DENSE = ("--python", "tests.support.foreign:plain"), ("--python", "tests.support.foreign:dense")
ENCODER = ["--rerank", "cross-encoder", "--cross-encoder.model", "sentence-transformers:own"]
SEARCHES = {
    "semantic": [],
    "every way": ["--mode", "hybrid", "--filters", FILTERS, "--rerank", "mmr", "--group-by", "source_url"],
    "as JSON": ["--mode", "hybrid", "--rerank", "mmr", "--top-k", "1", "--threshold", "0.5", "--json"],
    "by one's own reranker": [*ENCODER[:3], "python:tests.support.rerankers:Scorer", "--top-k", "2"],
    "all of it": ["--rerank", "mmr", "--top-k", "2", "--verbose"],
    "by the best": ["--threshold", "0.95", "--threshold-on", "best"],
    "by the final score": ["--mode", "hybrid", "--top-k", "1", "--threshold", "0.5", "--threshold-on", "final"],
    "a depth of none": ["--top-k", "0"],
    "a threshold above 1": ["--threshold", "1.5"],
    "an unknown provider": ["--embedding.model", "opneai:x"],
    "no YAML": ["--metadata.map", "{a"],
    "no such file": ["--config", "none.yaml"],
    "an unknown field": ["--filters", "modul = ros2"],
    "half a filter": ["--filters", "module ="],
    "a missing extra": ENCODER,
    "a missing collection": ["--collection", "page"],
    "a missing key": ["--embedding.model", "cohere:embed-english-v3.0"],
    "another language": ["--mode", "hybrid", "--keyword.language", "german"],
    "a missing vector": ["--mode", "hybrid", "--keyword.vector-name", "terms"],
}
OTHERS = {
    "an empty query": ["search", " ", "--store.path", "nowhere"],
    "too many words": ["search", "word " * 600, "--store.path", "nowhere"],
    "too many characters": ["search", "x" * 4001, "--store.path", "nowhere"],
    "search a missing store": ["search", "robot"],
    "inspect a missing store": ["inspect"],
    "search with one's own": ["search", "forward kinematics of an arm", *PLAIN, "--top-k", "2"],
    "inspect one's own": ["inspect", *PLAIN],
    "index by a column of another name": ["index", "c.jsonl", "--text-column", "body"],
    "index without a text": ["index", "c.jsonl"],
    "index nothing": ["index", "nowhere"],
    "index broken pages alone": ["index", "broken", "--skip-broken"],
    "index a picture": ["index", "image.png"],
    "index over a file": ["index", "c.jsonl", "--write", "c.jsonl"],
}


def screen(arguments: list[str], capsys: Captured, store: str = "no store") -> str:
    done = call(main, arguments, capsys)
    assert "Traceback" not in done.err and not (done.code == 2 and done.out)
    text = f"exit code {done.code}\n{done.out}{done.err}".replace(store, "STORE")
    text = re.sub(r'("(session_id|\w+_ms)": )("[^"]*"|[\d.]+)', r"\1#", text)
    return re.sub(r"\d+\.\d ms", "# ms", re.sub(r"(\.\d{4})\d+", r"\1", text))


@pytest.mark.parametrize("flags", SEARCHES.values(), ids=SEARCHES)
def test_the_screen_of_a_search(
    store: list[str], flags: list[str], capsys: Captured, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    assert screen(["search", QUERY, *store, *flags], capsys, store[1]) == snapshot


@pytest.mark.parametrize("arguments", OTHERS.values(), ids=OTHERS)
def test_the_screen_of_a_command(
    arguments: list[str], tmp_path: Path, capsys: Captured, snapshot: SnapshotAssertion
) -> None:
    made = write_pages(tmp_path, {"c.jsonl": '{"key": "x"}', "pages/a.md": "A.", "broken/b.md": "", "image.png": ""})
    assert screen(arguments, capsys) == snapshot
    assert sorted(entry.name for entry in made.iterdir()) == ["broken", "c.jsonl", "image.png", "pages"]


# search


@pytest.mark.parametrize(
    ("on", "score"), [("each", "bm25 score"), ("best", "best bm25 score"), ("final", "final score")]
)
def test_the_summary_names_the_score_that_the_threshold_reads(on: str, score: str) -> None:
    parameters = {"threshold": 2.0, "threshold_on": on, "threshold_signal": "bm25"}
    session = RetrievalSession(session_id="s", query="q", parameters=parameters, status="success")
    assert f" · threshold 2 on the {score}\n" in session_text(session)


def test_a_failed_search_is_told_once(server: QdrantServer, tmp_path: Path, capsys: Captured) -> None:
    indexed(tmp_path, store={"url": server.url})
    search = ["search", "robot", "--store.url", server.url, "--collection", "pages"]
    panicked = Reply.json({"status": {"error": "panicked"}, "time": 0.0}, 500)
    with server.failing(Fault(reply=panicked, on="/points/query/batch")):
        retried, last = refused(search, capsys).splitlines()
        [quiet] = refused([*search, "--quiet"], capsys).splitlines()
    assert retried.startswith("WARNING retrievers.net: ") and quiet.startswith("error: ")
    assert last.startswith("error: ") and "answered 500 Internal Server Error: panicked" in last


def test_a_search_takes_the_settings_that_the_collection_records(tmp_path: Path, capsys: Captured) -> None:
    asked = RetrieverConfig(mode="hybrid", top_k=2, threshold=0.05, threshold_on="best", rerank="cross-encoder")
    search = {**search_settings(asked), "rerank": "cross-encoder", "python": "os:getcwd"}
    config = indexed(tmp_path)
    mark(config.store, "pages", search=search)
    store = ["--store.path", str(config.store.path), "--collection", "pages"]

    def used(*flags: str) -> list[Any]:
        parameters = json.loads(shown(["search", QUERY, *store, *flags, "--json"], capsys))["parameters"]
        return [parameters.get(name) for name in ("mode", "top_k", "threshold", "threshold_on", "rerank")]

    assert used() == ["hybrid", 2, 0.05, "best", None]
    assert used("--top-k", "1", "--threshold", "null")[:3] == ["hybrid", 1, None]
    assert "0 new or changed" in shown(["index", "pages", *store], capsys)
    assert used()[:2] == ["hybrid", 2]


def test_a_collection_in_another_language_is_searched_and_inspected_in_that(tmp_path: Path, capsys: Captured) -> None:
    pages = write_pages(tmp_path / "pages", {"a.md": "Die Schrauben werden angezogen."})
    store = ["--store.path", str(tmp_path / "store"), "--collection", "pages"]
    shown(["index", str(pages), *store, "--keyword.language", "german"], capsys)
    assert "1 returned" in shown(["search", "Schraube", *store, "--mode", "keyword"], capsys)
    shown(["inspect", *store, "--write", str(tmp_path / "mine.yaml")], capsys)
    assert "language: german" in (tmp_path / "mine.yaml").read_text(encoding="utf-8")


# index: folders of mixed files, and datasets

MODEL = ("--embedding.model", "python:tests.support.indexing:make_embeddings")


def test_a_mixed_folder_names_what_it_leaves_out(tmp_path: Path, capsys: Captured) -> None:
    write_pages(tmp_path / "manuals", {"a.html": "<h1>A</h1><p>Arms.", "b.txt": "Wheels.", "c.docx": "", "d.txt": ""})
    (tmp_path / "manuals" / "e.pdf").write_bytes(pdf(["Gears.", ""]))
    (tmp_path / "manuals" / "f.pdf").write_bytes(pdf([""]))
    told = refused(["index", "manuals", *MODEL], capsys)
    assert "manuals/d.txt: the file has no text" in told and "manuals/f.pdf: no text in it (pages: 1)" in told
    assert not (tmp_path / ".qdrant" / "manuals").exists()
    done = call(main, ["index", "manuals", "--skip-broken", *MODEL], capsys)
    assert done.out.startswith("3 pages, 3 chunks in collection 'manuals' at .qdrant: 3 new or changed")
    assert "note: files that are not read: .docx 1" in done.err


def test_pages_are_indexed_by_the_flags_by_a_patient_command(tmp_path: Path, capsys: Captured) -> None:
    write_pages(tmp_path, {"docs/long.md": "Some words of a text. " * 40})
    index = ["index", "docs", "--collection", "pages", "--base-url", "/help", "--max-tokens", "16"]
    told, last = refused([*index, MODEL[0], "python:tests.support.indexing:make_failing"], capsys).splitlines()
    assert "trying again for up to 60 s: " in told and last.endswith("(34 attempts in 61.8 s)")
    done = call(main, [*index, *MODEL, "--quiet"], capsys)
    assert (done.code, done.out, done.err) == (0, "", "")
    with closing(open_client(StoreConfig(path=Path(".qdrant")), {})) as client:
        points, recorded = content(client).values(), manifest(client)["index"]
    about = [payload["metadata"] for payload, _ in points]
    assert {one["source_url"] for one in about} == {"/help/long"}
    assert max(one["chunk_token_count"] for one in about) <= recorded["max_tokens"] == 16


def test_a_dataset_is_indexed_and_brought_up_to_date(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"id": str(number), "text": f"Note {number}."} for number in range(5)]
    file = tmp_path / "notes.jsonl"
    file.write_text("\n".join(map(json.dumps, [*rows, {"id": "9", "text": ""}])), encoding="utf-8")
    index = ["index", "notes.jsonl", *MODEL]
    model = Mock(side_effect=HashEmbeddings)
    monkeypatch.setattr("tests.support.indexing.make_embeddings", model)
    done = call(main, [*index, "--write", "notes.yaml"], capsys)
    assert model.call_count == 1, "loaded once, to index, to look and to open"
    assert done.out.startswith("5 documents, 5 chunks in collection 'notes' at .qdrant: 5 new or changed")
    assert "Written: notes.yaml. Next: python -m evals.golden init --config notes.yaml --out golden.jsonl" in done.out
    assert "note: 1 rows without text were left out, from notes.jsonl:6 on" in done.err
    rows[3]["text"] = "Another note."  # under the same id, and so in the same point
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert "5 chunks in collection 'notes' at .qdrant: 1 new or changed, 0 removed" in shown(index, capsys)
    search = ["search", "Another note.", "--collection", "notes", *MODEL, "--threshold", "0.9"]
    assert shown(search, capsys).startswith(" 1  1.000  3")


def test_a_collection_is_called_by_its_source(tmp_path: Path) -> None:
    write_pages(tmp_path, {"scifact/corpus.jsonl": ""})
    named = {"my site/Docs": "my_site", "a.b (v2)": "a_b_v2_", "/docs": "docs"}
    for source, name in {**named, "scifact/corpus.jsonl": "scifact"}.items():
        assert default_collection(Path(source)) == name


# Errors, signals, flags, logging and progress, alike for every command

SIGNALS = pytest.mark.parametrize("what", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])


def signalled(what: signal.Signals) -> int:
    signal.raise_signal(what)
    return 0


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("top_k: too large"), 2),
        (MemoryError(), 2),
        (OSError(errno.ENAMETOOLONG, "File name too long", "rr"), 2),
        (OSError(errno.ENOSPC, "No space left on device"), 2),
        (ModuleNotFoundError("No module named 'x'"), 2),
        (ZeroDivisionError("why"), 3),
        (KeyboardInterrupt(), 130),
    ],
    ids=repr,
)
def test_an_error_is_a_line(error: BaseException, code: int, capsys: Captured, snapshot: SnapshotAssertion) -> None:
    assert (run(Mock(side_effect=error)), run(lambda: 1)) == (code, 1)
    out, err = capsys.readouterr()
    assert out == "" and err.replace(sys.executable, "PYTHON") == snapshot


@SIGNALS
def test_a_signal_interrupts_and_an_event_loop_between_its_steps(what: signal.Signals, capsys: Captured) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell runs in the background ignores it
    before, ended = signal.getsignal(what), list[str]()

    async def work() -> int:
        try:
            signal.raise_signal(what)
            ended.append("went on")
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("was cancelled")
            raise
        return 0

    for interrupted in (lambda: signalled(what), lambda: asyncio.run(work())):
        assert run(interrupted) == 128 + what
        assert capsys.readouterr().err == ("interrupted\n" if what == signal.SIGINT else "terminated\n")
        assert signal.getsignal(what) is before
    assert ended == ["went on", "was cancelled"]


def test_a_termination_interrupts_where_ctrl_c_is_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert run(lambda: signalled(signal.SIGTERM)) == 143
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_was_printed_before_an_interruption_reaches_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("def main():\n    print('what was found by then')\n    return 130\n")
    code = "from retrievers.terminal import start; start('slow:main')"
    done = python(["-c", code], tmp_path, {"PYTHONUNBUFFERED": ""})
    assert (done.returncode, done.stdout) == (130, "what was found by then\n")
    # Where a job closes them, the exit code is all that is left, and 1 is that of a failed criterion.
    close = "import os, sys; os.close(1); os.close(2); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    done = python(["-c", close, "-m", "retrievers", "search", "q"], tmp_path, {})
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")


def test_a_reader_that_went_away_changes_no_exit_code_and_ends_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = list[str]()

    def work() -> int:
        for text in ("shorter than the buffer", "longer" * 20_000):
            print_out(text)
            done.append(text)
        return 1

    with os.fdopen(writing, "w") as gone:
        monkeypatch.setattr(sys, "stdout", gone)
        assert run(work) == 1 and len(done) == 2


def test_the_commands_that_are_named_are_those_of_the_script_that_was_called(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Captured
) -> None:
    search = ["search", "q", "--store.path", str(tmp_path / "none")]
    assert "first (python -m retrievers index DIR)" in call(main, search, capsys).err
    monkeypatch.setattr(sys, "argv", ["/opt/venv/bin/retrieval-evals", "search"])
    assert "first (retrieval-evals index DIR)" in call(main, search, capsys).err
    print_out("MLflow: python -m evals ui, python -m evals.golden check")
    assert capsys.readouterr().out == "MLflow: retrieval-evals ui, retrieval-evals golden check\n"


WRONG = [
    "search how do topics work",
    "search q --top-n 3",
    "search q --treshold=3",
    "search q --xyzzy",
    "serach",
    "",
    "search q --top-k",
]


@pytest.mark.parametrize("arguments", [*WRONG, "search q --thresh 3"])  # no flag is taken for another that begins so
def test_a_wrong_flag_is_told_with_the_nearest(arguments: str, capsys: Captured, snapshot: SnapshotAssertion) -> None:
    done = call(main, arguments.split(), capsys)
    assert done.code == 2
    assert done.err.partition(" (choose")[0] == snapshot, "every Python writes choices otherwise"


SHOWN = {(False, False): "WARNING ERROR", (True, False): "INFO WARNING ERROR", (True, True): "ERROR"}


@pytest.mark.parametrize(("verbose", "quiet"), SHOWN)
def test_more_or_fewer_lines_are_shown_on_request(verbose: bool, quiet: bool, capsys: Captured) -> None:
    set_up_logging(verbose=verbose, quiet=quiet)
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        logging.getLogger("retrievers.test").log(level, "said")
    said = capsys.readouterr().err.splitlines()
    assert " ".join(line.split()[0] for line in said) == SHOWN[verbose, quiet]


def test_a_bar_follows_its_stages_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress_bar(shown=True) as progress:
        for stage, done, total in (("embedding", 1, 2), ("writing", 1, 1), ("embedding", 2, 2)):
            progress(stage, done, total)
    shown = capsys.readouterr()
    assert (shown.out, "embedding" in shown.err, "writing" in shown.err) == ("", True, True)

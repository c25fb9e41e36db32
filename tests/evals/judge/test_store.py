"""The verdict store: what it holds, for whom, and what it says when its file cannot be used."""

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ragas.metrics.collections.context_precision.util import ContextPrecisionOutput as Verdict

from evals.errors import JudgeError
from evals.judge.store import VerdictStore

MODEL = "cohere:command"
ANSWER = '{"reason":"it helps","verdict":1}'


def put(store: VerdictStore, number: int, answer: str = ANSWER, *, tokens_out: int = 40, kind: str = "Verdict") -> None:
    store.put(key(number), MODEL, kind, answer, (800, tokens_out))


def key(number: int) -> bytes:
    return number.to_bytes(32, "big")


def padded(length: int) -> str:
    return ANSWER.replace("it helps", "x" * length)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "kept" / "verdicts.sqlite"


def test_what_was_put_is_there_in_the_next_process(file: Path) -> None:
    with VerdictStore(file) as store:
        assert store.get(key(1), Verdict) is None
        put(store, 1)
    with VerdictStore(file) as store:
        assert store.get(key(1), Verdict) == ANSWER
        assert store.get(key(2), Verdict) is None


def test_a_new_answer_takes_the_place_of_the_old_one(file: Path) -> None:
    with VerdictStore(file) as store:
        put(store, 1, ANSWER.replace("helps", "hurts"))
        put(store, 1)
        assert store.get(key(1), Verdict) == ANSWER


def test_another_connection_sees_a_verdict_as_soon_as_it_was_put(file: Path) -> None:
    with VerdictStore(file) as one, VerdictStore(file) as other:
        put(one, 1)
        assert other.get(key(1), Verdict) == ANSWER


def test_verdicts_are_json_texts_and_nothing_executable(file: Path) -> None:
    with VerdictStore(file) as store:
        put(store, 1)
    rows = sqlite3.connect(file).execute("SELECT typeof(answer), answer FROM verdicts").fetchall()
    assert rows == [("text", ANSWER)]


def test_its_files_are_their_owners_alone(file: Path) -> None:
    umask = os.umask(0o000)
    try:
        with VerdictStore(file) as store:
            put(store, 1)
            lock = store.buying(MODEL)
            modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in file.parent.iterdir()}
        assert lock is not None and len(modes) >= 3
        assert set(modes.values()) == {0o600}, modes
    finally:
        os.umask(umask)


def test_one_buys_the_verdicts_of_a_model_at_a_time(file: Path) -> None:
    with VerdictStore(file) as one, VerdictStore(file) as other:
        lock = one.buying(MODEL)
        assert lock is not None
        assert other.buying(MODEL) is None
        for_another_model = other.buying("openai:a/b")
        assert for_another_model is not None
        lock.release()
        assert other.buying(MODEL) is not None


WRITER = """
import sys
from pathlib import Path
from evals.judge.store import VerdictStore
first = int(sys.argv[2])
with VerdictStore(Path(sys.argv[1])) as store:
    for n in range(first, first + 100):
        store.put(n.to_bytes(32, "big"), "m", "k", f'{{"reason":"{n}","verdict":1}}', (1, 1))
"""


@pytest.mark.slow
def test_processes_that_begin_a_store_together_lose_nothing(file: Path) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(file), str(n * 100)]) for n in range(3)]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    with VerdictStore(file) as store:
        assert all(f'"{n}"' in (store.get(key(n), Verdict) or "") for n in range(300))


def test_the_usual_length_of_answers_is_known_by_model_and_kind(file: Path) -> None:
    with VerdictStore(file) as store:
        assert store.mean_tokens_out(MODEL, "Verdict") is None
        for n, length in enumerate((30, 50)):
            put(store, n, tokens_out=length)
        put(store, 9, tokens_out=900, kind="Recall")
        assert store.mean_tokens_out(MODEL, "Verdict") == 40
        assert store.mean_tokens_out("cohere:other", "Verdict") is None


@pytest.mark.parametrize("content", [b"this is a text", b"\x00" * 5000])
def test_a_file_of_something_else_is_refused_and_left_alone(file: Path, content: bytes) -> None:
    file.parent.mkdir()
    file.write_bytes(content)
    with pytest.raises(JudgeError, match=r"store .* is corrupt, or a file of something else .*judge\.cache_path"):
        VerdictStore(file)
    assert file.read_bytes() == content


def test_a_database_of_something_else_is_refused(file: Path) -> None:
    file.parent.mkdir()
    other = sqlite3.connect(file)
    other.execute("CREATE TABLE verdicts (a, b)")
    other.close()
    with pytest.raises(JudgeError, match="no such column"):
        VerdictStore(file)


def test_damage_found_on_reading_is_told_from_a_full_disk(file: Path) -> None:
    with VerdictStore(file) as store:
        for n in range(300):
            put(store, n, padded(1_000))
    content = bytearray(file.read_bytes())
    content[4096 : len(content) : 7] = b"\xff" * len(content[4096 : len(content) : 7])
    file.write_bytes(content)
    with (
        pytest.raises(JudgeError, match=r"is corrupt, .*move it away.*\.recover") as caught,
        VerdictStore(file) as store,
    ):
        for n in range(300):
            store.get(key(n), Verdict)
    assert "make room" not in str(caught.value)


@contextmanager
def without_rights() -> Iterator[None]:
    """As another user where the tests are root's, whom no mode keeps from writing."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_a_store_that_may_not_be_written_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "of another"
    with VerdictStore(folder / "verdicts.sqlite") as store:
        put(store, 1)
    (folder / "verdicts.sqlite").chmod(0o444)
    folder.chmod(0o555)
    try:
        with without_rights(), pytest.raises(JudgeError, match=r"cannot be used|may not be written"):
            VerdictStore(folder / "verdicts.sqlite")
    finally:
        folder.chmod(0o755)


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JudgeError, match="cannot be used"):
        VerdictStore(tmp_path / "file" / "verdicts.sqlite")


def test_a_full_disk_is_an_error_that_says_what_to_do(file: Path) -> None:
    with VerdictStore(file) as store:
        put(store, 1)
        pages = store._database.execute("PRAGMA page_count").fetchone()[0]
        store._database.execute(f"PRAGMA max_page_count = {pages}")  # as full as this database can be
        with pytest.raises(JudgeError, match=r"full.*make room"):
            for n in range(2, 200):
                put(store, n, padded(4_000))
        assert store.get(key(1), Verdict) == ANSWER

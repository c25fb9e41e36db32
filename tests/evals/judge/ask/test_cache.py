import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from evals.config.judge import JudgeConfig
from evals.errors import JudgeError
from evals.judge.ask.cache import Stored, VerdictStore
from evals.judge.ask.database import store_file


def verdict(answer: str = '{"verdict": 1}', tokens_out: int = 40, kind: str = "Verdict") -> Stored:
    return Stored(model="cohere:command", kind=kind, answer=answer, tokens_in=800, tokens_out=tokens_out)


def key(number: int) -> bytes:
    return number.to_bytes(32, "big")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "kept" / "verdicts.sqlite"


def test_what_was_put_is_there_in_the_next_process(file: Path) -> None:
    with VerdictStore(file) as store:
        assert store.get(key(1)) is None
        store.put(key(1), verdict())
    with VerdictStore(file) as store:
        assert store.get(key(1)) == verdict()
        assert store.get(key(2)) is None


def test_a_new_answer_takes_the_place_of_the_old_one(file: Path) -> None:
    with VerdictStore(file) as store:
        store.put(key(1), verdict("old"))
        store.put(key(1), verdict("new"))
        found = store.get(key(1))
        assert found is not None and found.answer == "new"


def test_another_connection_sees_a_verdict_as_soon_as_it_was_put(file: Path) -> None:
    with VerdictStore(file) as one, VerdictStore(file) as other:
        one.put(key(1), verdict())
        assert other.get(key(1)) == verdict()


def test_verdicts_are_json_texts_and_nothing_executable(file: Path) -> None:
    with VerdictStore(file) as store:
        store.put(key(1), verdict())
    rows = sqlite3.connect(file).execute("SELECT typeof(answer), answer FROM verdicts").fetchall()
    assert rows == [("text", '{"verdict": 1}')]


def test_threads_may_share_it(file: Path) -> None:
    with VerdictStore(file) as store, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: store.put(key(n), verdict(str(n))), range(200)))
        found = list(pool.map(lambda n: store.get(key(n)), range(200)))
    assert [one.answer for one in found if one] == [str(n) for n in range(200)]


WRITER = """
import sys
from pathlib import Path
from evals.judge.ask.cache import Stored, VerdictStore
first = int(sys.argv[2])
with VerdictStore(Path(sys.argv[1])) as store:
    for n in range(first, first + 100):
        store.put(n.to_bytes(32, "big"),
                  Stored(model="m", kind="k", answer=str(n), tokens_in=1, tokens_out=1))
"""


@pytest.mark.slow
def test_processes_that_begin_a_store_together_lose_nothing(file: Path) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(file), str(n * 100)]) for n in range(3)]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    with VerdictStore(file) as store:
        assert [getattr(store.get(key(n)), "answer", None) for n in range(300)] == [str(n) for n in range(300)]


def test_old_verdicts_go(file: Path) -> None:
    now = [0.0]
    with VerdictStore(file, clock=lambda: now[0]) as store:
        store.put(key(1), verdict())
        now[0] = 5 * 86_400.0
        store.put(key(2), verdict())
        now[0] = 10 * 86_400.0
        assert store.trim(max_mb=100, max_days=7) == 1
        assert store.get(key(1)) is None and store.get(key(2)) is not None


def test_what_was_used_longest_ago_goes_when_there_is_too_much(file: Path) -> None:
    now = [0.0]
    with VerdictStore(file, clock=lambda: now[0]) as store:
        for n in range(300):
            now[0] += 1
            store.put(key(n), verdict("x" * 4_000))
    now[0] += 1
    with VerdictStore(file, clock=lambda: now[0]) as store:
        assert store.get(key(0)) is not None  # the oldest, and now the latest used
    with VerdictStore(file, clock=lambda: now[0]) as store:
        assert 100 < store.trim(max_mb=0.6, max_days=None) < 250
        assert store.get(key(0)) is not None and store.get(key(1)) is None and store.get(key(299)) is not None
    assert file.stat().st_size < 1e6


def test_what_is_used_in_a_run_goes_last_when_the_store_is_trimmed_at_its_end(file: Path) -> None:
    now = [0.0]
    with VerdictStore(file, clock=lambda: now[0]) as store:
        for n in range(300):
            now[0] += 1
            store.put(key(n), verdict("x" * 4_000))
    now[0] += 1
    with VerdictStore(file, clock=lambda: now[0]) as store:
        assert store.get(key(0)) is not None
        assert store.trim(max_mb=0.6, max_days=None) > 100
        assert store.get(key(0)) is not None and store.get(key(1)) is None


def test_nothing_goes_from_a_store_within_its_limits(file: Path) -> None:
    with VerdictStore(file) as store:
        store.put(key(1), verdict())
        assert store.trim(max_mb=100, max_days=None) == 0


def test_the_usual_length_of_answers_is_known_by_model_and_kind(file: Path) -> None:
    with VerdictStore(file) as store:
        assert store.mean_tokens_out("cohere:command", "Verdict") is None
        for n, length in enumerate((30, 50)):
            store.put(key(n), verdict(tokens_out=length))
        store.put(key(9), verdict(tokens_out=900, kind="Recall"))
        assert store.mean_tokens_out("cohere:command", "Verdict") == 40
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
            store.put(key(n), verdict("x" * 1_000))
    content = bytearray(file.read_bytes())
    content[4096 : len(content) : 7] = b"\xff" * len(content[4096 : len(content) : 7])
    file.write_bytes(content)
    with (
        pytest.raises(JudgeError, match=r"is corrupt, .*move it away.*\.recover") as caught,
        VerdictStore(file) as store,
    ):
        for n in range(300):
            store.get(key(n))
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


@pytest.mark.parametrize("mode", [0o555, 0o755], ids=["folder as well", "file alone"])
def test_a_store_that_may_not_be_written_is_read(mode: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "verdicts.sqlite"
        with VerdictStore(file) as store:
            store.put(key(1), verdict())
        file.chmod(0o444)
        Path(folder).chmod(mode)
        try:
            with without_rights(), VerdictStore(file) as store:
                assert store.get(key(1)) == verdict() and store.get(key(2)) is None
                assert store.trim(max_mb=0, max_days=1) == 0
                with pytest.raises(JudgeError, match="may not be written and lacks a verdict, which is not bought"):
                    store.claim(key(2))
        finally:
            Path(folder).chmod(0o755)
        with VerdictStore(file) as store:
            assert store.get(key(1)) == verdict()


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JudgeError, match="cannot be used"):
        VerdictStore(tmp_path / "file" / "verdicts.sqlite")


def test_a_full_disk_is_an_error_that_says_what_to_do(file: Path) -> None:
    with VerdictStore(file) as store:
        store.put(key(1), verdict())
        pages = store._db.execute("PRAGMA page_count").fetchone()[0]
        store._db.execute(f"PRAGMA max_page_count = {pages}")  # as full as this database can be
        with pytest.raises(JudgeError, match=r"full.*make room"):
            for n in range(2, 200):
                store.put(key(n), verdict("x" * 4_000))
        assert store.get(key(1)) == verdict()


def test_verdicts_are_kept_in_the_users_cache_folder_unless_told_otherwise(tmp_path: Path) -> None:
    config = JudgeConfig.model_validate({})
    assert store_file(config, {"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "retrieval-evals" / "verdicts.sqlite"
    assert store_file(config, {}).is_relative_to(Path.home())
    named = JudgeConfig.model_validate({"cache_path": tmp_path / "mine.sqlite"})
    assert store_file(named, {}) == tmp_path / "mine.sqlite"

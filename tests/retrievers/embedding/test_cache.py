"""What is kept between searches: vectors on disk bit for bit, results in memory; each dropped when it must be."""

import json
import pickle
import sqlite3
import struct
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrievers.config import EMBEDDING_PROVIDERS
from retrievers.embedding.cache import CacheStats, EmbeddingCache, ResultCache, open_embedding_cache
from retrievers.errors import ConfigError
from tests.support.clock import Clock

KEY = ("cohere", "embed-english-v3.0", "search_query", "what is a topic")
FINITE = st.floats(allow_nan=False, allow_infinity=False)
PEER = """
import sys
from pathlib import Path
from retrievers.embedding.cache import EmbeddingCache
sys.stdin.readline()
cache = EmbeddingCache(Path(sys.argv[1]), 3600)
for number in range(100):
    cache.put([float(number), 0.1], "p", "m", "i", f"{sys.argv[2]} {number}")
    cache.put([float(number), 0.2], "p", "m", "i", f"common {number}")
print(sum(cache.get("p", "m", "i", f"{sys.argv[2]} {number}") == [number, 0.1] for number in range(100)))
"""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(tmp_path: Path, clock: Clock) -> Iterator[EmbeddingCache]:
    """Kept for 60 seconds."""
    opened = EmbeddingCache(tmp_path / "vectors.sqlite", 60, lambda: clock.time)
    yield opened
    opened.close()


# Vectors on disk


@pytest.mark.parametrize(("passed", "known"), [(0, True), (59.9, True), (60, True), (60.1, False), (1e9, False)])
def test_a_vector_is_known_for_as_long_as_it_is_kept(
    cache: EmbeddingCache, clock: Clock, passed: float, known: bool
) -> None:
    cache.put([0.5, 0.25], *KEY)
    clock.pass_by(passed)
    assert cache.get(*KEY) == ([0.5, 0.25] if known else None)


def test_a_vector_put_again_is_new_again(cache: EmbeddingCache, clock: Clock) -> None:
    cache.put([1.0], *KEY)
    clock.pass_by(59)
    cache.put([2.0], *KEY)
    clock.pass_by(59)
    assert cache.get(*KEY) == [2.0]


@pytest.mark.parametrize(
    "other",
    [
        ("python", *KEY[1:]),
        (KEY[0], "embed-multilingual-v3.0", *KEY[2:]),
        (*KEY[:2], "search_document", KEY[3]),
        (*KEY[:3], "What is a topic"),
        (*KEY[:3], "what is a topic "),
        (*KEY[:3], ""),
    ],
)
def test_another_provider_model_input_type_or_text_is_another_vector(
    cache: EmbeddingCache, other: tuple[str, ...]
) -> None:
    cache.put([1.0], *KEY)
    assert cache.get(*other) is None
    cache.put([2.0], *other)
    assert (cache.get(*KEY), cache.get(*other)) == ([1.0], [2.0])


@pytest.mark.parametrize("mark", ["\x1f", "\x00", ",", '", "', "\n", ":"])
def test_where_one_part_of_a_key_ends_is_part_of_the_key(cache: EmbeddingCache, mark: str) -> None:
    cache.put([1.0], "p", f"m{mark}i", "t", "q")
    assert cache.get("p", "m", f"i{mark}t", "q") is None


@pytest.mark.parametrize("text", ["日本語 🤖", "a\x00b", "\ud800", "'; DROP TABLE vectors; --", "x" * 4_000])
def test_any_text_can_be_a_key(cache: EmbeddingCache, text: str) -> None:
    cache.put([1.0], *KEY[:3], text)
    assert cache.get(*KEY[:3], text) == [1.0]


@given(st.lists(FINITE, max_size=40))
def test_a_vector_comes_back_bit_for_bit(vectors: EmbeddingCache, vector: list[float]) -> None:
    vectors.put(vector, *KEY)
    found = vectors.get(*KEY)
    assert found is not None
    assert [struct.pack("<d", value) for value in found] == [struct.pack("<d", value) for value in vector]
    assert all(type(value) is float for value in found)


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddingCache]:
    opened = EmbeddingCache(tmp_path_factory.mktemp("vectors") / "v.sqlite", 3600)
    yield opened
    opened.close()


def test_vectors_outlive_the_program_and_old_ones_leave_the_file(tmp_path: Path, clock: Clock) -> None:
    file = tmp_path / "new" / "folder" / "vectors.sqlite"
    first = EmbeddingCache(file, 60, lambda: clock.time)
    first.put([1.0], *KEY)
    clock.pass_by(30)
    first.put([2.0], "p", "m", "i", "young")
    first.close()
    clock.pass_by(31)
    again = EmbeddingCache(file, 60, lambda: clock.time)
    assert (again.get(*KEY), again.get("p", "m", "i", "young")) == (None, [2.0])
    again.close()
    with sqlite3.connect(file) as db:
        assert db.execute("SELECT count(*) FROM vectors").fetchone() == (1,)
    db.close()


def test_the_texts_themselves_are_not_in_the_file(cache: EmbeddingCache, tmp_path: Path) -> None:
    cache.put([1.0], *KEY)
    assert all(b"what is a topic" not in file.read_bytes() for file in tmp_path.iterdir())


def test_what_was_asked_and_known_is_counted(cache: EmbeddingCache, clock: Clock) -> None:
    assert (cache.stats, cache.stats.rate) == (CacheStats(hits=0, misses=0), None)
    cache.get(*KEY)
    cache.put([1.0], *KEY)
    cache.get(*KEY)
    cache.get(*KEY)
    clock.pass_by(61)
    cache.get(*KEY)
    assert (cache.stats, cache.stats.rate) == (CacheStats(hits=2, misses=2), 0.5)


def test_threads_share_one_cache(cache: EmbeddingCache) -> None:
    def work(number: int) -> bool:
        cache.put([float(number % 50)], "p", "m", "i", str(number % 50))
        return cache.get("p", "m", "i", str(number % 50)) == [float(number % 50)]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(400)))
    assert cache.stats == CacheStats(hits=400, misses=0)


@pytest.mark.slow
def test_processes_share_one_file(tmp_path: Path) -> None:
    """Both make the file, at about the same moment, and write into it."""
    file = tmp_path / "shared.sqlite"
    peers = [
        subprocess.Popen(
            [sys.executable, "-c", PEER, str(file), name],
            cwd=Path(__file__).parents[3],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("one", "two")
    ]
    for peer in peers:
        assert peer.stdin is not None
        peer.stdin.write("\n")
        peer.stdin.flush()
    said = [peer.communicate(timeout=60) for peer in peers]
    assert said == [("100\n", ""), ("100\n", "")]
    cache = EmbeddingCache(file, 3600)
    for name in ("one 99", "two 99"):
        assert cache.get("p", "m", "i", name) == [99.0, 0.1]
    assert cache.get("p", "m", "i", "common 99") == [99.0, 0.2]
    cache.close()


# A file that is not ours, or no longer


class Trap:
    """Unpickling this makes a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.file,)


def other_table(file: Path) -> None:
    with sqlite3.connect(file) as db:
        db.execute("CREATE TABLE vectors (id INTEGER, payload BLOB)")
    db.close()


def damaged(file: Path) -> None:
    cache = EmbeddingCache(file, 60)
    for number in range(200):
        cache.put([0.5] * 200, "p", "m", "i", str(number))
    cache.close()
    data = bytearray(file.read_bytes())
    data[100:12_000] = b"\xff" * 11_900
    file.write_bytes(data)


FOREIGN: Mapping[str, Callable[[Path], object]] = {
    "text": lambda file: file.write_text("not a database, but long enough to be taken for one " * 30),
    "pickle": lambda file: file.write_bytes(pickle.dumps(Trap(file.parent / "trapped"))),
    "json": lambda file: file.write_text(json.dumps({"key": [1.0]})),
    "another table": other_table,
    "damaged": damaged,
    "folder": lambda file: file.mkdir(),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_file_that_is_no_cache_is_told_and_runs_nothing(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "vectors.sqlite"
    FOREIGN[kind](file)
    before = file.read_bytes() if file.is_file() else None
    with pytest.raises(ConfigError, match=r"set cache\.path, or cache\.embeddings: off") as caught:
        EmbeddingCache(file, 60)
    assert str(file) in str(caught.value)
    assert not (tmp_path / "trapped").exists()
    assert (file.read_bytes() if file.is_file() else None) == before


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"cache\.path"):
        EmbeddingCache(tmp_path / "file" / "vectors.sqlite", 60)


@pytest.mark.parametrize("value", [b"123", "text", 7])
def test_a_stored_value_that_is_no_vector_is_not_known(cache: EmbeddingCache, tmp_path: Path, value: object) -> None:
    cache.put([1.0], *KEY)
    with sqlite3.connect(tmp_path / "vectors.sqlite") as db:
        db.execute("UPDATE vectors SET vector = ?", (value,))
    db.close()
    assert cache.get(*KEY) is None
    cache.put([2.0], *KEY)
    assert cache.get(*KEY) == [2.0]


def test_a_file_that_fails_later_costs_the_vectors_and_nothing_else(
    cache: EmbeddingCache, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with sqlite3.connect(tmp_path / "vectors.sqlite") as db:
        db.execute("DROP TABLE vectors")
    db.close()
    cache.put([1.0], *KEY)
    assert cache.get(*KEY) is None
    assert "no such table" in caplog.text


@pytest.mark.parametrize(
    ("provider", "kept"),
    [("cohere", True), ("wordllama", False), ("python", False)],
)
def test_vectors_of_hosted_models_are_kept(tmp_path: Path, provider: str, kept: bool) -> None:
    hosted = EMBEDDING_PROVIDERS[provider].hosted is True
    opened = open_embedding_cache({"XDG_CACHE_HOME": str(tmp_path)}, hosted=hosted)
    assert (opened is not None) == kept == (tmp_path / "retrieval-evals" / "query-vectors.sqlite").exists()
    if opened:
        opened.close()


# Results in memory


def test_the_result_not_used_for_longest_goes_first() -> None:
    cache: ResultCache[str] = ResultCache(2)
    cache.put("a", "A", 1)
    cache.put("b", "B", 1)
    assert cache.get("a", 1) == "A"
    cache.put("c", "C", 1)
    assert [cache.get(key, 1) for key in "abc"] == ["A", None, "C"]
    assert cache.stats == CacheStats(hits=3, misses=1)


def test_a_cache_of_no_size_keeps_nothing() -> None:
    cache: ResultCache[str] = ResultCache(0)
    cache.put("a", "A", 1)
    assert cache.get("a", 1) is None


@given(st.integers(1, 4), st.lists(st.tuples(st.booleans(), st.integers(0, 6)), max_size=60))
def test_results_are_kept_as_an_ordered_dictionary_would(size: int, steps: list[tuple[bool, int]]) -> None:
    cache: ResultCache[int] = ResultCache(size)
    model: OrderedDict[int, int] = OrderedDict()
    for number, (puts, key) in enumerate(steps, 1):
        if puts:
            cache.put(key, number, 1)
            model.pop(key, None)
            model[key] = number
            if len(model) > size:
                del model[next(iter(model))]
        else:
            assert cache.get(key, 1) == model.get(key)
            if key in model:
                model.move_to_end(key)


def test_a_result_is_dropped_when_the_collection_has_changed() -> None:
    cache: ResultCache[str] = ResultCache(9)
    cache.put("a", "A", 1)
    cache.put("b", "B", 1)
    assert [cache.get("a", 2), cache.get("b", 2)] == [None, None]
    assert cache.get("a", 1) is None, "not even if it changes back"
    cache.put("b", "B2", 2)
    assert cache.get("b", 2) == "B2"


def test_a_result_searched_for_before_a_change_is_not_given_after_it() -> None:
    """It is kept late, when another search has noticed the change and kept what it found."""
    cache: ResultCache[str] = ResultCache(9)
    cache.put("other", "of version 2", 2)
    cache.put("slow", "of version 1", 1)
    assert (cache.get("slow", 2), cache.get("other", 2)) == (None, "of version 2")


@pytest.mark.parametrize(("passed", "known"), [(0, True), (59.9, True), (60, False)])
def test_a_result_may_have_an_age(clock: Clock, passed: float, known: bool) -> None:
    cache: ResultCache[str] = ResultCache(9, 60, lambda: clock.time)
    cache.put("a", "A", 1)
    clock.pass_by(passed)
    assert cache.get("a", 1) == ("A" if known else None)

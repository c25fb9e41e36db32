"""Vectors on disk, bit for bit, each under its own key."""

import sqlite3
import struct
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retrievers.embedding.cache import EmbeddingCache, open_embedding_cache
from retrievers.errors import ConfigError
from tests.support.command import ROOT

KEY = ("cohere", "embed-english-v3.0", "search_query", "what is a topic")
OTHERS = [
    ("python", *KEY[1:]),
    (KEY[0], "embed-multilingual-v3.0", *KEY[2:]),
    (*KEY[:2], "search_document", KEY[3]),
    (*KEY[:3], "What is a topic"),
    (*KEY[:3], "what is a topic "),
    (*KEY[:2], "search_query\x1fwhat is a topic"),
    ('cohere", "embed-english-v3.0', *KEY[2:]),
    (*KEY[:3], "'; DROP TABLE vectors; -- \ud800"),
]
PEER = """
import sys
from pathlib import Path
from retrievers.embedding.cache import EmbeddingCache
cache = EmbeddingCache(Path(sys.argv[1]))
for number in range(100):
    cache.put([float(number), 0.1], "p", f"{sys.argv[2]} {number}")
    cache.put([float(number), 0.2], "p", f"common {number}")
print(sum(cache.get("p", f"{sys.argv[2]} {number}") == [number, 0.1] for number in range(100)))
"""


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=40))
def test_a_vector_comes_back_bit_for_bit_for_its_own_model_input_type_and_text(
    tmp_path: Path, vector: list[float]
) -> None:
    with closing(EmbeddingCache(tmp_path / "new" / "v.sqlite")) as cache:
        cache.put(vector, *KEY)
        for number, other in enumerate(OTHERS):
            cache.put([float(number)], *other)
    with closing(EmbeddingCache(tmp_path / "new" / "v.sqlite")) as again:
        found = again.get(*KEY)
        assert found is not None and struct.pack(f"{len(vector)}d", *found) == struct.pack(f"{len(vector)}d", *vector)
        assert [again.get(*other) for other in OTHERS] == [[float(number)] for number in range(len(OTHERS))]
        assert again.get(*KEY[:3], "never put") is None
    assert all(b"what is a topic" not in file.read_bytes() for file in (tmp_path / "new").iterdir())


def test_threads_share_a_cache(tmp_path: Path) -> None:
    with closing(EmbeddingCache(tmp_path / "v.sqlite")) as cache, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: cache.put([float(n)], str(n)), range(200)))
        assert list(pool.map(lambda n: cache.get(str(n)), range(200))) == [[float(n)] for n in range(200)]


@pytest.mark.slow
def test_processes_share_one_file(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PEER, str(tmp_path / "shared.sqlite")]
    peers = [subprocess.Popen([*command, name], cwd=ROOT, stdout=subprocess.PIPE, text=True) for name in ("1", "2")]
    assert [peer.communicate(timeout=60)[0] for peer in peers] == ["100\n", "100\n"]


def other_table(file: Path) -> None:
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE vectors (id INTEGER, payload BLOB)")


@pytest.mark.parametrize(
    "spoil",
    [other_table, lambda file: file.write_bytes(b"no database" * 100), Path.mkdir],
    ids=["another table", "a text", "a folder"],
)
def test_a_file_of_another_kind_is_refused_and_left_as_it_is(tmp_path: Path, spoil: Callable[[Path], object]) -> None:
    file = tmp_path / "v.sqlite"
    spoil(file)
    before = file.read_bytes() if file.is_file() else None
    with pytest.raises(ConfigError, match=r"the file of kept vectors .*v\.sqlite cannot be used"):
        EmbeddingCache(file)
    assert (file.read_bytes() if file.is_file() else None) == before


def test_vectors_of_hosted_models_alone_are_kept_in_the_users_cache_and_a_file_that_fails_later_is_passed_by(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    assert open_embedding_cache(env, hosted=False) is None and not [*tmp_path.iterdir()]
    opened = open_embedding_cache(env, hosted=True)
    assert opened is not None and (tmp_path / "retrieval-evals" / "vectors.sqlite").is_file()
    opened.close()
    opened.put([1.0], *KEY)
    assert opened.get(*KEY) is None
    assert "the file of kept vectors failed and is passed by" in caplog.text

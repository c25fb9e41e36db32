"""Vectors on disk, bit for bit, each under its own key."""

import sqlite3
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retrievers.config import EmbeddingConfig
from retrievers.embedding.cache import EmbeddingCache, Kind, open_embedding_cache
from retrievers.errors import ConfigError
from tests.support.command import ROOT

COHERE = "cohere:embed-english-v3.0"
MODEL, TEXT = EmbeddingConfig(model=COHERE), "what is a topic"
OTHERS: list[tuple[EmbeddingConfig, Kind, str]] = [
    (EmbeddingConfig(model="python:m:f"), "search_query", TEXT),
    (EmbeddingConfig(model="cohere:embed-multilingual-v3.0"), "search_query", TEXT),
    (EmbeddingConfig(model=COHERE, query_prefix="q: "), "search_query", TEXT),
    (EmbeddingConfig(model=COHERE, base_url="http://here"), "search_query", TEXT),
    (EmbeddingConfig(model=COHERE, options={"truncate": "START"}), "search_query", TEXT),
    (MODEL, "search_document", TEXT),
    (MODEL, "search_query", "What is a topic"),
    (MODEL, "search_query", "what is a topic "),
    (MODEL, "search_query", "'; DROP TABLE vectors; -- \ud800"),
]
PEER = """
import sys
from pathlib import Path
from retrievers.config import EmbeddingConfig
from retrievers.embedding.cache import EmbeddingCache
cache, of = EmbeddingCache(Path(sys.argv[1])), (EmbeddingConfig(), "search_query")
for number in range(100):
    cache.put(*of, {f"{sys.argv[2]} {number}": [float(number), 0.1]})
    cache.put(*of, {f"common {number}": [float(number), 0.2]})
texts = [f"{sys.argv[2]} {number}" for number in range(100)]
print(cache.get(*of, texts) == {text: [float(number), 0.1] for number, text in enumerate(texts)})
"""


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=40))
def test_a_vector_comes_back_bit_for_bit_for_its_own_model_input_type_and_text(
    tmp_path: Path, vector: list[float]
) -> None:
    with closing(EmbeddingCache(tmp_path / "new" / "v.sqlite")) as cache:
        cache.put(MODEL, "search_query", {TEXT: vector})
        for number, (model, kind, text) in enumerate(OTHERS):
            cache.put(model, kind, {text: [float(number)]})
    with closing(EmbeddingCache(tmp_path / "new" / "v.sqlite")) as again:
        found = again.get(MODEL, "search_query", [TEXT, "never put"])
        assert found.keys() == {TEXT}
        assert struct.pack(f"{len(vector)}d", *found[TEXT]) == struct.pack(f"{len(vector)}d", *vector)
        for number, (model, kind, text) in enumerate(OTHERS):
            assert again.get(model, kind, [text]) == {text: [float(number)]}
    assert all(b"what is a topic" not in file.read_bytes() for file in (tmp_path / "new").iterdir())


def test_threads_share_a_cache(tmp_path: Path) -> None:
    vectors = [{str(number): [float(number)]} for number in range(200)]
    with closing(EmbeddingCache(tmp_path / "v.sqlite")) as cache, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda one: cache.put(MODEL, "search_query", one), vectors))
        assert list(pool.map(lambda one: cache.get(MODEL, "search_query", one), vectors)) == vectors


@pytest.mark.slow
def test_processes_share_one_file(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PEER, str(tmp_path / "shared.sqlite")]
    peers = [subprocess.Popen([*command, name], cwd=ROOT, stdout=subprocess.PIPE, text=True) for name in ("1", "2")]
    assert [peer.communicate(timeout=60)[0] for peer in peers] == ["True\n", "True\n"]


def test_a_file_of_another_kind_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"no database" * 100)
    with closing(sqlite3.connect(tmp_path / "other")) as database:
        database.execute("CREATE TABLE vectors (id INTEGER, payload BLOB)")
    for name in ("text", "other", "."):
        file = tmp_path / name
        before = file.read_bytes() if file.is_file() else None
        with pytest.raises(ConfigError, match=r"the file of kept vectors .* cannot be used"):
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
    opened.put(MODEL, "search_query", {TEXT: [1.0]})
    assert opened.get(MODEL, "search_query", [TEXT]) == {}
    assert "the file of kept vectors failed and is passed by" in caplog.text

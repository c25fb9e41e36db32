"""Search parameters: which side gets which, in every kind of call, and what changes nothing."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient
from retrievers.search.requests import notes, search_params

from retrievers import QdrantRetriever
from retrievers.config import RetrieverConfig
from retrievers.errors import StoreError
from retrievers.store import CollectionInfo
from tests.support.collections import TableEmbeddings, fill, index_pages, settings, write_pages
from tests.support.hybrid import of_mode
from tests.support.qdrant_server import QdrantServer

SEARCH = {"hnsw_ef": 128, "quantization": {"rescore": True, "oversampling": 2.0}, "indexed_only": True}


def info(**values: Any) -> CollectionInfo:
    plain = {"name": "c", "points": 9, "dimension": 2, "distance": "cosine", "vectors": {"": 2}}
    return CollectionInfo(**{**plain, "sparse_vectors": (), "manifest": {}, **values})


def plain(config: RetrieverConfig, side: str) -> dict[str, Any] | None:
    params = search_params(config, side)
    return None if params is None else params.model_dump(exclude_unset=True)


def test_what_is_set_goes_with_the_dense_search_and_nothing_else() -> None:
    assert plain(settings(), "semantic") is None
    assert plain(settings(search_params=SEARCH), "semantic") == SEARCH
    assert plain(settings(search_params=SEARCH), "keyword") == {"indexed_only": True}
    assert plain(settings(search_params={"exact": False}), "semantic") == {"exact": False}
    assert plain(settings(search_params={"quantization": {"ignore": True}}), "semantic") == {
        "quantization": {"ignore": True}
    }


@pytest.mark.parametrize(
    ("values", "collection", "said"),
    [
        ({}, {}, ""),
        ({"search_params": {"hnsw_ef": 64}}, {}, "every search is exact: search_params.hnsw_ef changes nothing"),
        ({"search_params": {"hnsw_ef": 64}, "mode": "keyword"}, {}, ""),
        ({"search_params": {"hnsw_ef": 64}}, {"in_hnsw": True}, "search_params.hnsw_ef 64 is less than the 101"),
        ({"search_params": {"hnsw_ef": 64}, "candidates": 50}, {"in_hnsw": True}, ""),
        ({"search_params": {"hnsw_ef": 64}, "mode": "hybrid", "candidates": 20}, {"in_hnsw": True}, ""),
        ({"search_params": {"quantization": {"rescore": False}}}, {"quantization": "scalar"}, ""),
    ],
)
def test_settings_that_change_nothing_are_named(values: dict[str, Any], collection: dict[str, Any], said: str) -> None:
    (note,) = notes(settings(**values), info(**collection)) or ("",)
    assert said in note and bool(said) == bool(note)


@pytest.fixture(scope="module")
def server() -> Iterator[QdrantServer]:
    with QdrantServer() as running:
        yield running


@pytest.fixture(scope="module")
def base(server: QdrantServer, tmp_path_factory: pytest.TempPathFactory) -> RetrieverConfig:
    config = settings(store={"url": server.url}, collection="pages", threshold=0, top_k=3)
    index_pages(config, write_pages(tmp_path_factory.mktemp("pages")))
    return config


def sent(server: QdrantServer) -> list[tuple[str, dict[str, Any] | None]]:
    """Each query that was asked, by the vector that it searches: with its parameters."""
    queries = [q for r in server.requests if "/points/query" in r.path for q in r.body.get("searches", [r.body])]
    side = ["given" if q.get("filter") else q.get("using") or "semantic" for q in queries]
    return [(name, q.get("params")) for name, q in zip(side, queries, strict=True)]


def set_values(params: dict[str, Any] | None) -> dict[str, Any]:
    """Return what is set in parameters."""
    return {
        key: set_values(value) if isinstance(value, dict) else value
        for key, value in (params or {}).items()
        if value not in (None, False)
    }


@pytest.mark.parametrize("mode", ["semantic", "keyword", "hybrid"])
def test_they_are_in_every_request_of_every_kind(server: QdrantServer, base: RetrieverConfig, mode: str) -> None:
    config = of_mode(base, mode=mode, search_params=SEARCH)
    with QdrantRetriever.open(config, env={}) as retriever:
        for call in (
            lambda: retriever.search("topic node", use_cache=False),
            lambda: retriever.search_batch(["topic node", "client answer"], use_cache=False),
            lambda: retriever.candidates(["topic node", "client answer"]),
        ):
            server.requests.clear()
            call()
            asked = sent(server)
            assert {name for name, _ in asked} - {"given"} == {
                "semantic": {"semantic"},
                "keyword": {"bm25"},
                "hybrid": {"semantic", "bm25"},
            }[mode]
            for name, params in asked:
                expected = {"semantic": SEARCH, "bm25": {"indexed_only": True}, "given": {"exact": True}}[name]
                assert set_values(params) == expected


def test_a_depth_that_strict_mode_would_refuse_is_refused_at_once(server: QdrantServer, base: RetrieverConfig) -> None:
    server.rules.strict = {"max_query_limit": 50}
    try:
        with pytest.raises(StoreError, match=r"at most 50 results a query .*candidates is 100"):
            QdrantRetriever.open(base, env={})
    finally:
        server.rules.strict = None


@pytest.mark.parametrize(
    ("given", "said"),
    [({"hnsw": 4}, "hnsw: Extra inputs are not permitted"), ({"quantization": {"rescore": 7}}, "quantization.rescore")],
)
def test_what_qdrant_does_not_take_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"no SearchParams of Qdrant: {said}"):
        settings(search_params=given)


def test_binary_scores_are_no_cosines(server: QdrantServer, base: RetrieverConfig) -> None:
    server.config = {"quantization_config": {"binary": {"always_ram": True}}}
    try:
        for quantization in ({}, {"rescore": True}, {"rescore": False, "ignore": True}):
            QdrantRetriever.open(of_mode(base, search_params={"quantization": quantization}), env={}).close()
        with pytest.raises(StoreError, match=r"counts of bits .* leave search_params.quantization.rescore out"):
            QdrantRetriever.open(of_mode(base, search_params={"quantization": {"rescore": False}}), env={})
    finally:
        server.config = {}


@pytest.mark.parametrize("search", [SEARCH, {"exact": True}, {"exact": False, "hnsw_ef": 4}])
def test_on_a_folder_without_an_index_they_change_nothing(tmp_path: Path, search: dict[str, Any]) -> None:
    config = settings(store={"path": str(tmp_path / "store")}, collection="pages", threshold=0)
    index_pages(config, write_pages(tmp_path / "pages"))
    with QdrantRetriever.open(config, env={}) as retriever:
        expected = [(hit.chunk.chunk_id, hit.score) for hit in retriever.search("topic node").chunks]
        assert retriever.notes == ()
    with QdrantRetriever.open(of_mode(config, search_params=search), env={}) as retriever:
        assert [(hit.chunk.chunk_id, hit.score) for hit in retriever.search("topic node").chunks] == expected
        assert "changes nothing" in retriever.notes[0]


def test_in_a_folder_of_qdrant_clients_local_mode_they_change_nothing_and_the_run_says_so(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Local mode")
        client = QdrantClient(path=str(tmp_path / "local"))
        fill(client, "c", [[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]], [{"page_content": text} for text in "abc"])
        client.close()
    base = settings(store={"path": f"local:{tmp_path / 'local'}"}, collection="c", trust_embedding=True, threshold=0)
    answers = []
    for search in ({}, SEARCH, {"exact": True}):
        embeddings = TableEmbeddings({"q": [1.0, 0.1]})
        with QdrantRetriever.open(of_mode(base, search_params=search), env={}, embeddings=embeddings) as retriever:
            answers.append([(hit.chunk.text, hit.score) for hit in retriever.search("q").chunks])
            assert ["changes nothing" in note for note in retriever.notes] == ([True] if search else [])
    assert answers[0] == answers[1] == answers[2] and [text for text, _ in answers[0]] == ["a", "b", "c"]

"""The retriever as an application uses it: sessions, LangChain, what is kept, faults, kinds of stores and vectors."""

import asyncio
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from langchain_core.retrievers import BaseRetriever
from langchain_qdrant import QdrantVectorStore, RetrievalMode, SparseEmbeddings, SparseVector
from qdrant_client import models
from syrupy.assertion import SnapshotAssertion

from retrievers import QdrantRetriever
from retrievers.config import RetrieverConfig, dump
from retrievers.config.retriever import StoreConfig
from retrievers.embedding.bm25 import Bm25Encoder
from retrievers.errors import ConfigError, EmbeddingError, MissingKeyError, QueryError, StoreError
from retrievers.records import RetrievedChunk
from retrievers.retriever.opened import adopt_given
from retrievers.retriever.protocol import Retriever
from retrievers.search.rerank import mmr_order
from tests.support import distances
from tests.support.cohere_server import KEY, CohereServer
from tests.support.collections import IDF, PAGES, TableEmbeddings, embedded, fill, index_pages, indexed, settings
from tests.support.command import refusal
from tests.support.hybrid import variant
from tests.support.indexing import write_pages
from tests.support.loopback import Reply, Request
from tests.support.qdrant_server import QdrantServer, recorded

QUERY = "how do nodes stream messages"
QUERIES = (QUERY, "request answer client", "glossary words used here", "what is the capital of France")
MORE = {**PAGES, "motion/new.md": "---\ntitle: New\n---\nHow do nodes stream messages: how do nodes stream messages?\n"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RetrieverConfig:
    return indexed(tmp_path_factory.mktemp("retriever"), threshold=0)


@pytest.fixture(scope="module")
def retriever(folder: RetrieverConfig) -> Iterator[QdrantRetriever]:
    """Threshold 0, top_k 5, over the pages in a folder."""
    with QdrantRetriever.open(folder, env={}) as opened:
        yield opened


@pytest.fixture
def server(folder: RetrieverConfig, tmp_path: Path) -> Iterator[QdrantServer]:
    """A server with the same pages as the folder."""
    with QdrantServer() as running:
        index_pages(on(running, folder), write_pages(tmp_path / "pages", PAGES))
        running.requests.clear()
        yield running


def on(server: QdrantServer, config: RetrieverConfig, **values: Any) -> RetrieverConfig:
    store = settings(store={"url": server.url, "timeout_s": values.pop("timeout_s", 10)}).store
    return config.model_copy(update={"store": store, **values})


def found(chunks: Sequence[RetrievedChunk]) -> list[tuple[str, float | None, int]]:
    return [(hit.chunk.chunk_id, hit.score, hit.rank) for hit in chunks]


# Sessions


def test_a_session_is_one_of_its_own_and_timed_by_stage(retriever: QdrantRetriever) -> None:
    session, other = retriever.search(QUERY), variant(retriever, rerank="mmr").search(QUERY)
    embed, search, rerank = (getattr(session.timings, f"{stage}_ms") for stage in ("embed", "search", "rerank"))
    assert rerank is None and embed + search == pytest.approx(session.timings.total_ms)
    assert other.timings.rerank_ms is not None and other.session_id != session.session_id
    assert (session.query, session.status, session.candidates_found) == (QUERY, "success", 9)


def test_an_unusable_query_is_told(retriever: QdrantRetriever, snapshot: SnapshotAssertion) -> None:
    told = []
    queries: list[Any] = ["", " \n\t", "\u2003", "word " * 513, "x" * 4_001, "robot \ud800", {"query": "robot"}]
    for query in queries:
        session = retriever.search(query)
        told.append(f"{session.status}: {session.error or session.warnings[0]}")
        for ask in (lambda query: asyncio.run(retriever.ainvoke(query)), lambda query: retriever.candidates([query])):
            assert told[-1].endswith(f": {refusal(QueryError, ask, query)}") and session.chunks == ()
    assert told == snapshot


def test_candidates_go_to_the_depth_given_and_chunks_need_no_search(retriever: QdrantRetriever) -> None:
    assert [len(row) for row in retriever.candidates(["robot", "hz"])] == [9, 9]
    assert len(retriever.candidates(["robot"], depth=2)[0]) == 2
    assert len(variant(retriever, candidates=4, top_k=3).candidates(["robot"])[0]) == 4
    assert list(retriever.candidates([])) == [] and len(retriever.chunks()) == 9
    assert {c.heading for c in retriever.chunks({"url": ["/docs/motion/imu"]})} == {"Inertial Sensors", "See also"}


# LangChain


def test_it_is_a_langchain_retriever_whose_documents_carry_the_metadata(retriever: QdrantRetriever) -> None:
    assert isinstance(retriever, BaseRetriever)
    session, documents = retriever.search(QUERY), retriever.invoke(QUERY)
    assert [document.page_content for document in documents] == [hit.chunk.text for hit in session.chunks]
    assert documents == asyncio.run(retriever.ainvoke(QUERY)) == retriever.batch([QUERY] * 2)[1]
    best = documents[0].metadata
    assert (best["source_url"], best["title"], best["tags"]) == ("/docs/ros2/topics", "Topics", ["ros2", "topics"])
    assert (best["file_path"], best["start_line"]) == ("ros2/topics.md", 6)
    assert (best["score"], best["rank"], best["score_scale"]) == (session.chunks[0].score, 1, "cosine")
    for ask in (retriever.invoke, lambda query, **more: asyncio.run(retriever.ainvoke(query, **more))):
        with pytest.raises(TypeError, match="unexpected keyword argument 'filters'"):
            ask(QUERY, filters="module = ros2")
    reranked = variant(retriever, rerank="mmr", top_k=9)
    for document, hit in zip(reranked.invoke(QUERY), reranked.search(QUERY).chunks, strict=True):
        told = document.metadata
        assert (told["original_rank"], told["original_score"]) == (hit.original_rank, hit.original_score)
        assert (document.id, told["scores"]) == (hit.chunk.point_id, hit.scores)


# From settings


def test_an_exported_file_opens_the_same_retriever(retriever: QdrantRetriever, tmp_path: Path) -> None:
    shutil.copytree(retriever.settings.store.path or "", tmp_path / "copy")
    file = tmp_path / "retriever.yaml"
    file.write_text(yaml.safe_dump(dump(retriever.settings) | {"store": {"path": "copy"}}, sort_keys=False))
    with QdrantRetriever.from_config(file, env={"RAG_DEFAULT_TOP_K": "1", "QDRANT_URL": "http://h"}) as opened:
        assert opened.settings.store.path == tmp_path / "copy"
        assert opened.invoke("robot") == retriever.invoke("robot")
        shutil.rmtree(tmp_path / "copy")
        indexed(tmp_path, store={"path": str(tmp_path / "copy")}, keyword={"language": "german"})
        assert "made again by another model" in (opened.search("robot").error or "")
    with QdrantRetriever.from_config(opened.settings, env={}) as again:
        assert again.settings == opened.settings
    file.write_text("top_k: 0\nthreshhold: 1\n")
    assert len(refusal(ConfigError, QdrantRetriever.from_config, file).splitlines()) == 2
    file.write_text("retriever: {top_k: 2}\nsweep: {top_k: [1, 2]}\n")
    assert "--export" in refusal(ConfigError, QdrantRetriever.from_config, file)


WRONG = {"top_k": -2, "mode": "no", "group_by": "no", "filters": "(a", "filter": "a = b", "store": StoreConfig()}


@pytest.mark.parametrize("name", WRONG)
def test_a_variant_with_a_fault_is_refused(retriever: QdrantRetriever, name: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name}: "):
        variant(retriever, **{name: WRONG[name]})


def test_what_cannot_be_opened_is_told(folder: RetrieverConfig) -> None:
    with pytest.raises(MissingKeyError, match=r"cohere:rerank-v3\.5 needs an API key"):
        QdrantRetriever.open(folder.model_copy(update={"rerank": "cross-encoder"}), env={})
    with pytest.raises(ConfigError, match="makes its own store; use QdrantRetriever"):
        QdrantRetriever.open(settings(python="mine:make"), env={})


# Faults


def test_a_model_that_changes_its_dimension_is_an_error_session(server: QdrantServer) -> None:
    fill(server.client, "mine", [[1.0, 0.0]], [{"page_content": "a"}])
    own = {"model": "python:mine:make"}
    config = settings(store={"url": server.url}, collection="mine", embedding=own, trust_embedding=True)
    with QdrantRetriever.open(config, env={}, embeddings=TableEmbeddings({"q": [1.0, 0.0, 0.0]})) as opened:
        said = "holds vectors of 2 dimensions, but python:mine:make made one of 3"
        assert said in (opened.search("q").error or "")
        with pytest.raises(EmbeddingError, match=said):
            opened.invoke("q")


@pytest.mark.parametrize(("times", "status"), [(2, "success"), (9, "error")])
@pytest.mark.parametrize("way", [{}, {"rerank": "mmr"}, {"group_by": "source_url"}], ids=str)
def test_a_search_begins_anew_when_points_are_gone(
    server: QdrantServer, folder: RetrieverConfig, way: dict[str, Any], times: int, status: str
) -> None:
    answer, left = server.answer, times

    def then_removed(request: Request) -> Reply:
        """Remove the best point that a search has found, so often."""
        nonlocal left
        reply = answer(request)
        if left and request.path.endswith("/query/batch") and not request.body["searches"][0].get("params"):
            left -= 1
            found = json.loads(reply.body)["result"][0]["points"]
            server.client.delete(request.path.split("/")[2], [found[0]["id"]])
        return reply

    with QdrantRetriever.open(on(server, folder, mode="hybrid", **way), env={}) as opened:
        server.answer = then_removed  # type: ignore[method-assign]
        session, left = opened.search(QUERY), 0
        assert session.status == status and ("changed during the search" in (session.error or "")) == (times == 9)
        assert status == "error" or found(session.chunks) == found(opened.search(QUERY).chunks)


def test_a_chunk_that_an_earlier_batch_found_is_not_read_again(server: QdrantServer, folder: RetrieverConfig) -> None:
    with QdrantRetriever.open(on(server, folder), env={}) as opened:
        server.requests.clear()
        first = opened.candidates([QUERY, "robot"])
        read = {str(point) for request in server.requests for point in request.body.get("ids") or ()}
        assert read == {chunk.point_id for chunk in first[0].chunks}
        server.requests.clear()
        again = opened.candidates([QUERY, "robot"], chunks=first.chunks)
        assert [request.path.endswith("/query/batch") for request in server.requests] == [True]
        assert [found(row) for row in again] == [found(row) for row in first]


# What a search asks a server for

# Qdrant Cloud's: at most 32 searches and 256 points in a request, and no filter on a key without an index.
STRICT = recorded("info-strict")["answer"]["result"]["config"]["strict_mode_config"] | {
    "max_query_limit": 1_000,
    "search_max_batchsize": 32,
    "upsert_max_batchsize": 256,
}


@pytest.mark.parametrize("mode", ["semantic", "keyword", "hybrid"])
def test_strict_mode_changes_no_result(server: QdrantServer, folder: RetrieverConfig, mode: str) -> None:
    config = on(server, folder, mode=mode)
    with QdrantRetriever.open(config, env={}) as opened:
        free = [found(row) for row in opened.candidates([*QUERIES] * 10)]
    server.rules.strict = STRICT
    with QdrantRetriever.open(config, env={}) as opened:
        assert [found(row) for row in opened.candidates([*QUERIES] * 10)] == free
        assert [hit.chunk.chunk_id for hit in opened.search(QUERY).chunks] == [chunk for chunk, *_ in free[0][:5]]
    with pytest.raises(StoreError, match=r"Index required but not found for .*content_hash"):
        QdrantRetriever.open(on(server, folder, mode=mode, filters="tags = topics and content_hash = x"), env={})
    server.rules.strict = {"max_query_limit": 300}
    with QdrantRetriever.open(config, env={}) as opened, pytest.raises(StoreError, match="Limit exceeded 401 > 300"):
        opened.candidates([QUERY], depth=400)
    with QdrantRetriever.open(on(server, folder, mode=mode, filters="chunk_index >= 0"), env={}) as opened:
        assert opened.search(QUERY).chunks
    with pytest.raises(ConfigError, match="lets no chunk of collection"):
        QdrantRetriever.open(on(server, folder, mode=mode, filters={"title": "nothing"}), env={})


def test_search_params_go_with_the_dense_search_alone(server: QdrantServer, folder: RetrieverConfig) -> None:
    params = {"hnsw_ef": 256, "indexed_only": True}
    with QdrantRetriever.open(on(server, folder, mode="hybrid", search_params=params), env={}) as opened:
        server.requests.clear()
        opened.candidates([QUERY])
        asked = [one for request in server.requests for one in (request.body.get("searches") or [])]
    by_side = {one.get("using"): one.get("params") for one in asked[:2]}
    assert by_side == {None: params, "bm25": None}


# What is kept


def test_a_query_is_bought_once_and_sent_as_a_query(tmp_path: Path) -> None:
    env, pages = {"COHERE_API_KEY": KEY}, write_pages(tmp_path / "pages", PAGES)
    with CohereServer() as server:
        model = {"model": "cohere:embed-english-v3.0", "base_url": server.url}
        config = settings(store={"path": tmp_path / "store"}, collection="pages", embedding=model)
        index_pages(config, pages, env)
        assert [kind for kind, _ in server.inputs] == ["search_document"]
        with QdrantRetriever.open(config, env=env) as opened:
            server.requests.clear()
            session = opened.search(QUERY)
            variant(opened, mode="keyword").candidates([QUERY, "another"])
            opened.search(QUERY, use_cache=False)
    asked = [texts for kind, texts in server.inputs if kind == "search_query"]
    assert asked == [[QUERY], ["another"], [QUERY]]
    assert session.embedding == {"provider": "cohere", "model": "embed-english-v3.0", "dimension": 32}


def test_a_search_sees_the_collection_as_it_is_now(tmp_path: Path) -> None:
    config = indexed(tmp_path, threshold=0)
    with QdrantRetriever.open(config, env={}) as opened:
        first, second = opened.search(QUERY), opened.search(QUERY)
        assert found(first.chunks) == found(second.chunks) and first.session_id != second.session_id
        assert len(variant(opened, top_k=2).search(QUERY).chunks) == 2, "other settings have results of their own"
        opened.invoke(QUERY)[0].metadata.clear()
        assert opened.invoke(QUERY)[0].metadata["title"] == "Topics", "a caller may change what it gets"
        index_pages(config, write_pages(tmp_path / "pages", MORE))
        assert opened.search(QUERY).chunks[0].chunk.title == "New"
        assert opened.invoke(QUERY)[0].metadata["title"] == "New"
        with ThreadPoolExecutor(8) as threads:
            many = [*threads.map(opened.search, [*QUERIES] * 8)]
        assert [found(one.chunks) for one in many] == [found(opened.search(query).chunks) for query in [*QUERIES] * 8]


# The QdrantVectorStore inside, whose own search is the oracle; every kind of store

OWN: dict[str, Any] = {"embedding": {"model": "python:mine:make"}, "collection": "mine"}


@pytest.mark.parametrize("kind", distances.STORES)
@pytest.mark.parametrize("mode", ["semantic", "keyword"])
def test_invoke_finds_what_the_store_finds(kind: str, mode: str, tmp_path: Path) -> None:
    more = {"mode": mode, "top_k": 100, "keyword": {"synonyms": {"hinge": ["drone"]}}}
    with distances.collection(kind, "cosine", tmp_path) as place:
        retriever = QdrantRetriever.open(settings(store=place, **OWN, **more), embeddings=distances.EMBEDDINGS)
        store = retriever.vector_store
        assert isinstance(store, QdrantVectorStore)
        assert (store.client, store.embeddings) == (retriever.client, retriever._embeddings)
        for query in distances.QUERIES:
            ours, theirs = retriever.invoke(query), store.similarity_search_with_score(query, k=100)
            assert {d.id: d.page_content for d in ours} == {str(d.metadata["_id"]): d.page_content for d, _ in theirs}
            scores = {str(d.metadata["_id"]): max(0.0, score) for d, score in theirs}
            assert {d.id: d.metadata["score"] for d in ours} == pytest.approx(scores, abs=1e-5)
        others = [d.page_content for d in ours if "hinge" not in d.page_content and "fuse" not in d.page_content]
        assert others and all("drone" in text for text in others) == (mode == "keyword"), "synonyms are searched along"
        retriever.close()


# Cosines, also as products of vectors of length 1, against brute force

DEPTH = 15


@pytest.mark.parametrize("kind", distances.STORES)
@pytest.mark.parametrize("distance", distances.DISTANCES)
def test_scores_of_either_distance_are_cosines(kind: str, distance: str, tmp_path: Path) -> None:
    def ids(retriever: QdrantRetriever, query: str) -> list[int]:
        [row] = retriever.candidates([query])
        found = [int(hit.chunk.chunk_id[-2:]) for hit in row]
        assert [hit.scores["semantic"] for hit in row] == pytest.approx(scores[found].tolist(), abs=1e-5)
        return found

    with distances.collection(kind, distance, tmp_path) as store:
        config = settings(store=store, top_k=DEPTH, candidates=DEPTH, **OWN)
        with QdrantRetriever.open(config, embeddings=distances.EMBEDDINGS) as retriever:
            assert retriever.info.distance == distance
            unit = distances.UNIT
            for number, query in enumerate(distances.QUERIES):
                scores = distances.semantic(number)
                best = distances.ranked(scores, DEPTH)
                assert ids(retriever, query) == best
                assert {hit.score_scale for hit in retriever.search(query).chunks} == {"cosine"}
                sums = Counter[int]()
                for share, side in ((0.7, best), (0.3, ids(variant(retriever, mode="keyword"), query))):
                    sums.update({n: share / (60 + rank) for rank, n in enumerate(side, 1)})
                fused = sorted(sums, key=lambda n: (-round(sums[n], 12), n))[:DEPTH]
                assert ids(variant(retriever, mode="hybrid", fusion="rrf"), query) == fused
                cut = float(scores[best[4]] + scores[best[5]]) / 2
                for on, kept in (("each", [n for n in best if scores[n] >= cut]), ("best", best)):
                    session = variant(retriever, threshold=cut, threshold_on=on).search(query)
                    assert [int(hit.chunk.chunk_id[-2:]) for hit in session.chunks] == kept
                # MMR reads cosines, whatever the distance.
                vector = distances.QUERY_VECTORS[number]
                likeness = np.clip(unit @ vector / np.linalg.norm(vector), 0, 1)
                picks = mmr_order(likeness[best], unit[best], 0.6)
                assert ids(variant(retriever, rerank="mmr", mmr_lambda=0.6), query) == [best[place] for place in picks]


def test_scores_that_are_no_cosines_are_refused(server: QdrantServer, monkeypatch: pytest.MonkeyPatch) -> None:
    config = settings(store={"url": server.url}, **OWN)
    distances.make(server.client, "euclid")
    with pytest.raises(StoreError, match="has the distance euclid, which is no cosine: copy"):
        QdrantRetriever.open(config, embeddings=distances.EMBEDDINGS)
    server.client.delete_collection("mine")
    monkeypatch.setattr(distances, "UNIT", distances.VECTORS)
    distances.make(server.client, "dot")
    for trusted in (False, True):
        with pytest.raises(StoreError, match=r"has the distance dot and a vector of length \d\.\d+, not 1"):
            QdrantRetriever.open(
                config.model_copy(update={"trust_embedding": trusted}), embeddings=distances.EMBEDDINGS
            )


# Several dense and sparse vectors: which are searched, by whose encoder, against brute force

CAMERA = distances.QUERIES[1]


def splade(text: str) -> dict[int, float]:
    """Weigh words as a made model does, which adds a related word to each."""
    weights: dict[int, float] = {}
    for place in (distances.WORDS.index(word) for word in text.split() if word in distances.WORDS):
        weights[place] = weights.get(place, 0.0) + 1.5
        weights[(place + 1) % len(distances.WORDS)] = 0.25
    return weights


def sparse(text: str) -> models.SparseVector:
    return models.SparseVector(indices=[*splade(text)], values=[*splade(text).values()])


class Splade(SparseEmbeddings):
    """The model that a store of the user's own brings along; `change` makes something else of its vector."""

    def __init__(self, change: Callable[[SparseVector], Any] = lambda vector: vector) -> None:
        self.change = change

    def embed_query(self, text: str) -> SparseVector:
        vector: SparseVector = self.change(SparseVector(indices=[*splade(text)], values=[*splade(text).values()]))
        return vector

    def embed_documents(self, texts: list[str]) -> list[SparseVector]:
        return [self.embed_query(text) for text in texts]


@contextmanager
def brought(several: dict[str, Any], name: str, model: Splade, **values: Any) -> Iterator[Retriever]:
    with embedded(Path(several["path"])) as client:
        named = {"vector_name": "small", "sparse_vector_name": name, "validate_collection_config": False}
        hybrid: Any = {"retrieval_mode": RetrievalMode.HYBRID, "sparse_embedding": model, **named}
        store = QdrantVectorStore(client, "mine", distances.EMBEDDINGS, **hybrid)
        yield adopt_given(store, RetrieverConfig.model_validate(values), None, {})[0]


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    vectors = [
        {
            **{"small": distances.VECTORS[number].tolist(), "large": distances.VECTORS[number, :4].tolist()},
            **{"splade": sparse(text), "minicoil": sparse(text), "words": Bm25Encoder().document(text)},
        }
        for number, text in enumerate(distances.TEXTS)
    ]
    payloads = [{"page_content": text, "metadata": {"chunk_id": f"{n:02}"}} for n, text in enumerate(distances.TEXTS)]
    params = {
        "small": models.VectorParams(size=5, distance=models.Distance.COSINE),
        "large": models.VectorParams(size=4, distance=models.Distance.DOT),
    }
    weighed = {"splade": models.SparseVectorParams(), "minicoil": IDF, "words": IDF}
    folder = tmp_path_factory.mktemp("store")
    with embedded(folder) as client:
        fill(client, "mine", vectors, payloads, params=params, sparse=weighed)
    return {"path": str(folder)}


def over(store: Mapping[str, Any], **values: Any) -> QdrantRetriever:
    config = settings(**{"store": dict(store), "vector_name": "small", **OWN, **values})
    return QdrantRetriever.open(config, embeddings=distances.EMBEDDINGS)


def of_terms(name: str) -> list[tuple[int, float]]:
    """Weigh every text by brute force, with the IDF where the vector has it."""
    documents = [splade(text) for text in distances.TEXTS]
    scores = np.zeros(distances.COUNT)
    for term, weight in splade(CAMERA).items():
        held = sum(term in document for document in documents)
        rarity = np.log((distances.COUNT - held + 0.5) / (held + 0.5) + 1) if name == "minicoil" else 1
        scores += [weight * document.get(term, 0) * rarity for document in documents]
    order = sorted(range(distances.COUNT), key=lambda n: (-round(float(scores[n]), 5), n))
    return [(n, float(scores[n])) for n in order if scores[n] > 0]


@pytest.mark.parametrize("name", ["splade", "minicoil"])
def test_a_sparse_vector_is_searched_by_a_model_of_ones_own(several: dict[str, Any], name: str) -> None:
    with brought(several, name, Splade(), mode="keyword") as retriever:
        candidates, expected = retriever.candidates([CAMERA])[0], of_terms(name)
        assert [int(hit.chunk.chunk_id) for hit in candidates] == [n for n, _ in expected]
        assert [hit.score for hit in candidates] == pytest.approx([score for _, score in expected], abs=1e-4)
        session = retriever.search(CAMERA)
        assert ({chunk.score_scale for chunk in session.chunks}, session.error) == ({"sparse"}, None)


def test_a_vector_that_is_not_there_is_refused(several: dict[str, Any]) -> None:
    for values, said in (
        ({"vector_name": "smal"}, r"has no dense vector 'smal': it has '(small|large)', '"),
        ({"mode": "keyword"}, r"has no sparse vector 'bm25', .* it has '\w+', '\w+', '\w+'; use mode semantic"),
        ({"mode": "hybrid", "keyword": {"vector_name": "splade"}}, r"has no IDF modifier on .* keyword.vector_name"),
    ):
        with pytest.raises(StoreError, match=said):
            over(several, **values)


def test_faults_of_an_encoder_are_typed(several: dict[str, Any]) -> None:
    with brought(several, "splade", Splade(lambda vector: None), mode="keyword") as retriever:
        assert str(retriever.search(CAMERA).error).startswith("sparse_embedding Splade failed: AttributeError")
        with pytest.raises(EmbeddingError, match="sparse_embedding Splade failed"):
            retriever.candidates([CAMERA])
    with (
        pytest.raises(ConfigError, match="'known_words' needs words"),
        brought(several, "splade", Splade(), mode="hybrid", threshold=0.5, threshold_signal="known_words"),
    ):
        pass

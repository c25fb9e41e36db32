"""The QdrantVectorStore inside: its own search is the oracle, on an embedded store, in local mode, and on a server."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_qdrant import QdrantVectorStore, RetrievalMode
from qdrant_client import QdrantClient, models

from evals import evaluate, sweep
from evals.api import Experiment
from retrievers import QdrantRetriever
from retrievers.config import RetrieverConfig
from retrievers.errors import ConfigError, StoreError
from retrievers.retriever.opened import adopt_given, open_retriever
from retrievers.store import open_client
from tests.support import foreign
from tests.support.collections import REPEATED, index_pages, settings, write_pages
from tests.support.embeddings import Counting
from tests.support.foreign import HERE, Terms, vector_store
from tests.support.qdrant_server import QdrantServer

QUERIES = ("how do nodes stream messages", "request answer client", REPEATED, "measure the rate with hz", "zebra")
STORES = ("embedded", "local mode", "server")
MINE = ("kinematics of an arm", "a named channel of messages", "reliable camera images", "zebra")
SCORED = {"semantic", "keyword"}


@pytest.fixture(scope="module")
def configs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, RetrieverConfig]]:
    """One collection in the three kinds of store, the same points in each."""
    folder = tmp_path_factory.mktemp("stores")
    pages = write_pages(folder / "pages")
    with QdrantServer() as server:
        made = {
            "embedded": settings(store={"path": folder / "embedded"}, collection="pages", threshold=None, top_k=4),
            "server": settings(store={"url": server.url}, collection="pages", threshold=None, top_k=4),
            "local mode": settings(
                store={"path": f"local:{folder / 'local'}"}, collection="pages", threshold=None, top_k=4
            ),
        }
        for name in ("embedded", "server"):
            index_pages(made[name], pages)
        _copied(made["server"], folder / "local")
        yield made


def _copied(config: RetrieverConfig, folder: Path) -> None:
    source = open_client(config.store, {})
    info = source.get_collection("pages").config
    local = QdrantClient(path=str(folder))
    local.create_collection(
        "pages",
        info.params.vectors,
        sparse_vectors_config=info.params.sparse_vectors,
        metadata=info.metadata,
    )
    points, _ = source.scroll("pages", limit=100, with_vectors=True)
    local.upsert("pages", [models.PointStruct(id=p.id, vector=p.vector, payload=p.payload) for p in points])
    local.close()
    source.close()


def opened(config: RetrieverConfig, **values: Any) -> QdrantRetriever:
    changed = RetrieverConfig.model_validate(config.model_dump(exclude_unset=True) | values)
    return QdrantRetriever.open(changed, env={})


def by_score(found: Sequence[tuple[str, float]]) -> list[tuple[float, str]]:
    """Return pairs in an order of their own: equal scores come in any order."""
    return sorted(((round(score, 5), point) for point, score in found), key=lambda pair: (-pair[0], pair[1]))


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("mode", ["semantic", "keyword"])
def test_invoke_finds_what_the_store_finds(configs: dict[str, RetrieverConfig], kind: str, mode: str) -> None:
    with opened(configs[kind], mode=mode, top_k=9) as retriever:
        assert isinstance(retriever.vector_store, QdrantVectorStore)
        for query in QUERIES:
            theirs = retriever.vector_store.similarity_search_with_score(query, k=9)
            ours = retriever.invoke(query)
            assert by_score([(str(d.id), d.metadata["score"]) for d in ours]) == by_score(
                [(d.metadata["_id"], max(0.0, score)) for d, score in theirs]
            )
            assert [d.metadata["score"] for d in ours] == pytest.approx([max(0.0, s) for _, s in theirs], abs=1e-6)
            texts = {document.metadata["_id"]: document.page_content for document, _ in theirs}
            assert {document.id: document.page_content for document in ours} == texts


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("rerank", ["none", "mmr"])
@pytest.mark.parametrize("mode", ["semantic", "keyword", "hybrid"])
def test_invoke_search_and_evaluation_are_one_search(
    configs: dict[str, RetrieverConfig], kind: str, mode: str, rerank: str
) -> None:
    with opened(configs[kind], mode=mode, rerank=rerank, threshold=0.2) as retriever:
        table = retriever.candidates(QUERIES)
        for query, candidates in zip(QUERIES, table, strict=True):
            kept = retriever.select(candidates)
            expected = [(hit.chunk.point_id, hit.score, dict(hit.scores)) for hit in kept]
            session = retriever.search(query)
            found = [(hit.chunk.point_id, hit.score, dict(hit.scores)) for hit in session.chunks]
            assert [point for point, _, _ in found] == [point for point, _, _ in expected]
            assert [score for _, score, _ in found] == pytest.approx([score for _, score, _ in expected], abs=1e-6)
            for (_, _, ours), (_, _, theirs) in zip(found, expected, strict=True):
                assert ours == pytest.approx(theirs, abs=1e-6)
            assert [document.id for document in retriever.invoke(query)] == [point for point, _, _ in found]


@pytest.mark.parametrize("fusion", ["weighted", "rrf"])
def test_the_three_stores_fuse_alike_and_as_by_hand(configs: dict[str, RetrieverConfig], fusion: str) -> None:
    answers = []
    for kind in STORES:
        with opened(configs[kind], mode="hybrid", fusion=fusion) as retriever:
            answers.append([[(h.chunk.chunk_id, h.score) for h in row] for row in retriever.candidates(QUERIES)])
    for rows in zip(*answers, strict=True):
        for other in rows[1:]:
            assert [chunk for chunk, _ in other] == [chunk for chunk, _ in rows[0]]
            assert [score for _, score in other] == pytest.approx([score for _, score in rows[0]], abs=1e-6)
    with opened(configs["embedded"], mode="semantic") as dense, opened(configs["embedded"], mode="keyword") as sparse:
        for row, by_meaning, by_terms in zip(
            answers[0], dense.candidates(QUERIES), sparse.candidates(QUERIES), strict=True
        ):
            sides = [{hit.chunk.chunk_id: hit.known_score for hit in side} for side in (by_meaning, by_terms)]
            if fusion == "weighted":
                best = max(sides[1].values(), default=1.0)
                expected = {c: 0.7 * cosine + 0.3 * sides[1].get(c, 0.0) / best for c, cosine in sides[0].items()}
            else:
                ranks = [{chunk: rank for rank, chunk in enumerate(side, 1)} for side in sides]
                weights = (0.7, 0.3)
                expected = {
                    chunk: sum(w / (60 + r[chunk]) for w, r in zip(weights, ranks, strict=True) if chunk in r)
                    for chunk in {**ranks[0], **ranks[1]}
                }
            assert dict(row) == pytest.approx(expected, abs=1e-6)


def test_the_store_is_made_of_the_settings(configs: dict[str, RetrieverConfig]) -> None:
    modes = {"semantic": RetrievalMode.DENSE, "keyword": RetrievalMode.SPARSE, "hybrid": RetrievalMode.HYBRID}
    for mode, theirs in modes.items():
        with opened(configs["embedded"], mode=mode) as retriever:
            store = retriever.vector_store
            assert (store.collection_name, store.retrieval_mode, store.vector_name) == ("pages", theirs, "")
            assert (store.content_payload_key, store.metadata_payload_key) == ("page_content", "metadata")
            assert (store.client, store.embeddings) == (retriever.client, retriever.embeddings)


def test_synonyms_are_searched_by_the_store_too(configs: dict[str, RetrieverConfig]) -> None:
    keyword = {"synonyms": {"zebra": ["glossary"]}}
    with opened(configs["embedded"], mode="keyword", keyword=keyword) as retriever:
        theirs = retriever.vector_store.similarity_search_with_score("zebra", k=4)
        ours = retriever.invoke("zebra")
    assert [score for _, score in theirs] == pytest.approx([document.metadata["score"] for document in ours], abs=1e-6)
    assert len(ours) == 3


# A store of the caller's own


@pytest.mark.parametrize("mode", [RetrievalMode.DENSE, RetrievalMode.HYBRID])
def test_a_callers_store_is_searched_in_its_own_mode(mode: RetrievalMode) -> None:
    store = vector_store(mode=mode)
    retriever, config = adopt_given(store, RetrieverConfig(), None, {})
    assert isinstance(retriever, QdrantRetriever)
    assert retriever.vector_store is store
    assert config.mode == ("semantic" if mode == RetrievalMode.DENSE else "hybrid")
    for query in MINE:
        found = {hit.chunk.text: hit.scores["semantic"] for hit in retriever.search(query).chunks}
        plain = QdrantVectorStore(store.client, "robots", embedding=Counting())
        theirs = {d.page_content: max(0.0, s) for d, s in plain.similarity_search_with_score(query, k=5)}
        assert found == pytest.approx({text: theirs[text] for text in found}, abs=1e-6)
        assert len(found) == 5
    retriever.close()
    assert store.similarity_search("kinematics")  # it was left open
    store.client.close()


def test_it_gets_a_threshold_and_another_mode() -> None:
    store = vector_store(mode=RetrievalMode.HYBRID)
    for mode, scale in (("semantic", "cosine"), ("keyword", "sparse"), ("hybrid", "weighted")):
        retriever, _ = adopt_given(store, RetrieverConfig(mode=mode, threshold=0.6), None, {})
        session = retriever.search("kinematics of an arm")
        assert {hit.score_scale for hit in (*session.chunks, *session.below_threshold)} == {scale}
        assert all(hit.scores["semantic"] >= 0.6 for hit in session.chunks)
        assert session.filtered_out > 0 or mode == "keyword"
        retriever.close()
    by_terms = QdrantVectorStore(
        store.client, "robots", retrieval_mode=RetrievalMode.SPARSE, sparse_embedding=Terms()
    ).similarity_search_with_score("kinematics arm", k=5)
    retriever, _ = adopt_given(store, RetrieverConfig(mode="keyword"), None, {})
    [found] = retriever.candidates(["kinematics arm"])
    assert by_score([(hit.chunk.text, hit.known_score) for hit in found]) == by_score(
        [(document.page_content, score) for document, score in by_terms]
    )
    store.client.close()


def test_a_mode_that_it_has_no_terms_for_is_refused() -> None:
    store = vector_store()
    with pytest.raises(StoreError, match="has no sparse vector 'bm25', which mode 'hybrid' searches"):
        adopt_given(store, RetrieverConfig(mode="hybrid"), None, {})
    assert store.similarity_search("kinematics")
    store.client.close()


def test_one_with_another_model_than_its_collections_is_refused() -> None:
    store = vector_store()

    class Other(Counting):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [vector[::-1] for vector in super().embed_documents(texts)]

    other = QdrantVectorStore(store.client, "robots", embedding=Other())
    with pytest.raises(StoreError, match="Other is not it"):
        adopt_given(other, RetrieverConfig(), None, {})
    store.client.close()


def test_what_the_store_settles_cannot_be_set() -> None:
    with pytest.raises(ValueError, match="embedding, vector_name cannot be set for python"):
        RetrieverConfig.model_validate(
            {"python": f"{HERE}:dense", "embedding": {"provider": "wordllama"}, "vector_name": "x"}
        )
    with pytest.raises(ConfigError, match=r"metadata.text_key: QdrantVectorStore reads payload key 'body', got 'mine'"):
        open_retriever(foreign.settings("other_keys", metadata={"text_key": "mine"}), env={})


ROWS: list[dict[str, Any]] = [
    {"id": "arm", "query": "kinematics of an arm", "evidence": [{"quote": "Forward kinematics"}]},
    {"id": "soup", "query": "onion soup recipe", "in_scope": False},
]
METRICS = ["ranking/hit_rate_at_5", "scope/abstention"]


def quoted() -> list[dict[str, Any]]:
    text = next(c.text for c in foreign.chunks() if "inematics" in c.text)
    return [{**ROWS[0], "evidence": [{"quote": " ".join(text.split()[:6])}]}, ROWS[1]]


def test_evaluate_and_sweep_take_it() -> None:
    store = vector_store(mode=RetrievalMode.HYBRID)
    plain = Experiment.load(None, {"latency.repeats": 1, "latency.warmup": 0, "metrics": METRICS}, {})
    result = evaluate(store, quoted(), experiment=plain)
    assert result.report.metrics["ranking/hit_rate_at_5"].value == 1.0
    assert result.report.config["retriever"]["mode"] == "hybrid"
    axes = {"sweep.mode": ["semantic", "keyword", "hybrid"], "sweep.threshold": [0.0, 0.99], "sweep.top_k": [1, 5]}
    grid = Experiment.load(None, {"metrics": METRICS, **axes}, {})
    swept = sweep(store, quoted(), experiment=grid)
    assert len(swept.cells) == 12
    assert store.similarity_search("kinematics")
    store.client.close()


def test_an_experiment_names_its_factory_and_sweeps_it(tmp_path: Path) -> None:
    axes = {"sweep.mode": ["semantic", "hybrid"], "sweep.threshold": [0.0, 0.5], "retriever.python": f"{HERE}:hybrid"}
    swept = sweep(Experiment.load(None, {"metrics": METRICS, **axes}, {}), quoted())
    assert len(swept.cells) == 4
    assert {*swept.cells["mode"]} == {"semantic", "hybrid"}


def test_documents_of_a_flat_payload_have_their_metadata(tmp_path: Path) -> None:
    config = settings(
        store={"path": tmp_path / "store"}, collection="flat", metadata={"nested_under": ""}, threshold=None
    )
    index_pages(config, write_pages(tmp_path / "pages"))
    with QdrantRetriever.open(config, env={}) as retriever:
        best: Document = retriever.invoke("how do nodes stream messages")[0]
    assert best.metadata["source_url"] == "/docs/ros2/topics"


def test_opening_a_retriever_imports_langchain_qdrant() -> None:
    """Which a default run does; that of itself costs 20 ms beside qdrant-client and langchain-core."""
    code = (
        "import sys, tempfile; from pathlib import Path; from evals.run import main; "
        "code = main(['--quiet', '--limit', '2', '--no-gate', '--tracking.enabled', 'false', "
        "'--retriever.store.path', tempfile.mkdtemp(), '--output', str(Path(tempfile.mkdtemp()) / 'report.json')]); "
        "assert code == 0, code; assert 'langchain_qdrant' in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_scores_of_the_store_are_float32(configs: dict[str, RetrieverConfig]) -> None:
    with opened(configs["embedded"]) as retriever:
        [found] = retriever.candidates([QUERIES[0]])
    assert (found.scores == found.scores.astype(np.float32)).all()


def test_the_only_vector_of_a_collection_is_searched_whatever_its_name() -> None:
    with QdrantServer() as server:
        made = server.client
        size = models.VectorParams(size=9, distance=models.Distance.COSINE)
        made.create_collection("named", vectors_config={"text": size})
        texts = [chunk.text for chunk in foreign.chunks()]
        vectors = Counting().embed_documents(texts)
        points = [
            models.PointStruct(id=number, vector={"text": vector}, payload={"page_content": text})
            for number, (text, vector) in enumerate(zip(texts, vectors, strict=True))
        ]
        made.upsert("named", points)
        model = {"provider": "python", "model": "tests.support.embeddings:Counting"}
        config = settings(store={"url": server.url}, collection="named", embedding=model, threshold=None)
        with QdrantRetriever.open(config, env={}) as retriever:
            assert retriever.settings.vector_name == retriever.vector_store.vector_name == "text"
            assert len(retriever.invoke(MINE[0])) == 5

"""Retrievers of the user's own as a user runs them: in a file of the current folder, over the handbook."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from qdrant_client import QdrantClient

from tests.support.child import python
from tests.support.qdrant_server import QdrantServer

pytestmark = [pytest.mark.integration, pytest.mark.slow]
MINE = """
import math
import os
import re
from collections import Counter
from pathlib import Path

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_qdrant import QdrantVectorStore
from qdrant_client import QdrantClient

from retrievers.embedding.models import StaticEmbeddings
from retrievers.indexing.chunking import chunk_page
from retrievers.indexing.pages import read_corpus
from retrievers.store.chunks import to_metadata
from retrievers.embedding.tokens import count_tokens


def documents():
    pages = read_corpus(Path(os.environ["HANDBOOK"]) / "docs", "/docs").pages
    chunks = [chunk for page in pages for chunk in chunk_page(page, 256, count_tokens)]
    return [Document(page_content=chunk.text, metadata=to_metadata(chunk)) for chunk in chunks]


def terms(text):
    return re.findall(r"[a-z0-9]+", text.lower())


class Bm25(BaseRetriever):
    docs: list
    counts: list
    rarity: dict
    average: float

    def _get_relevant_documents(self, query):
        scores = [self.score(terms(query), count) for count in self.counts]
        order = sorted(range(len(scores)), key=lambda place: -scores[place])
        return [self.docs[place] for place in order[:10] if scores[place] > 0]

    def score(self, query, count):
        length = 0.25 + 0.75 * count.total() / self.average
        return sum(self.rarity.get(t, 0) * count[t] * 2.2 / (count[t] + 1.2 * length) for t in set(query))


def bm25():
    docs = documents()
    counts = [Counter(terms(doc.page_content)) for doc in docs]
    found = Counter(term for count in counts for term in count)
    rarity = {t: math.log(1 + (len(docs) - n + 0.5) / (n + 0.5)) for t, n in found.items()}
    return Bm25(docs=docs, counts=counts, rarity=rarity, average=sum(c.total() for c in counts) / len(counts))


def build():
    store = QdrantVectorStore.from_documents(documents(), StaticEmbeddings(), path="local", collection_name="handbook")
    store.client.close()


def vector_store():
    return QdrantVectorStore(QdrantClient(path="local"), "handbook", embedding=StaticEmbeddings())
"""
OURS = {"collection": "handbook", "embedding": {"provider": "wordllama"}, "mode": "semantic"}


def experiment(
    folder: Path, handbook: Path, name: str, retriever: Mapping[str, Any], metrics: Sequence[str] = ("*",)
) -> Mapping[str, Any]:
    """The report of a run of the handbook's test split, by a process of its own."""
    settings = {
        "name": name,
        "dataset": {"path": str(handbook / "golden.jsonl"), "split": "test"},
        "retriever": {"top_k": 5, "metadata": {"required": ["source_url", "title"]}, **retriever},
        "sources": {"dir": str(handbook / "docs")},
        "metrics": list(metrics),
        "latency": {"repeats": 1, "concurrency": [1]},
        "tracking": {"enabled": False},
    }
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(settings))
    command = ["-m", "evals.run", "--config", f"{name}.yaml", "--output", f"{name}.json"]
    done = python(command, folder, {"HANDBOOK": str(handbook)})
    assert (done.returncode, done.stderr) == (0, "")
    loaded: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    return loaded


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("mine")
    (made / "mine.py").write_text(MINE)
    return made


def values(report: Mapping[str, Any], *prefixes: str) -> dict[str, float | None]:
    return {name: m["value"] for name, m in report["metrics"].items() if name.startswith(prefixes)}


def test_bm25_in_python(folder: Path, handbook: Path) -> None:
    report = experiment(folder, handbook, "bm25", {"python": "mine:bm25"})
    assert report["facts"]["retriever"] == "Bm25"
    found = values(report, "ranking/", "ragas/")
    assert found["ranking/hit_rate_at_5"] is not None and found["ranking/hit_rate_at_5"] > 0.35
    assert found["ranking/ndcg_at_5"] is found["ragas/id_context_recall"] is None
    assert values(report, "determinism/") == {"determinism/rate": 1.0, "determinism/max_score_delta": None}
    assert values(report, "metadata/accuracy", "content/verbatim") == {"metadata/accuracy": 1, "content/verbatim": 1}
    assert {hit["score"] for query in report["queries"] for hit in query["retrieved"]} == {None}


@pytest.mark.parametrize(
    ("threshold", "metrics"),
    [(0.0, ["ranking/*"]), (0.3, ["ranking/*", "ragas/*", "scope/*", "metadata/*", "content/*", "cost/*"])],
)
def test_a_vector_store_scores_as_our_retriever_does_on_the_same_collection(
    folder: Path, handbook: Path, threshold: float, metrics: Sequence[str]
) -> None:
    """Built and searched by langchain-qdrant in local mode; then the same folder behind a server, for ours."""
    if not (folder / "local").exists():
        built = python(["-c", "import mine; mine.build()"], folder, {"HANDBOOK": str(handbook)})
        assert built.returncode == 0, built.stderr
    theirs = experiment(folder, handbook, "theirs", {"python": "mine:vector_store", "threshold": threshold}, metrics)
    with QdrantServer() as server:
        server.client.close()
        server.client = QdrantClient(path=str(folder / "local"))
        place = {"store": {"url": server.url}, "threshold": threshold}
        ours = experiment(folder, handbook, "ours", {**OURS, **place}, metrics)
    assert theirs["facts"]["collection"]["points"] == ours["facts"]["collection"]["points"] == 578
    assert values(theirs, "") == pytest.approx(values(ours, ""), abs=1e-6)
    exact = ("ranking/", "ragas/id_", "queries/")
    assert values(theirs, *exact) == values(ours, *exact)
    assert len(values(ours, *exact)) >= 23
    for mine, other in zip(theirs["queries"], ours["queries"], strict=True):
        assert [hit["chunk_id"] for hit in mine["retrieved"]] == [hit["chunk_id"] for hit in other["retrieved"]]
        assert mine["relevant"] == other["relevant"]

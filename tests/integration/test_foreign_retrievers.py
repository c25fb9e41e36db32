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
import os
from pathlib import Path

from langchain_core.documents import Document
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

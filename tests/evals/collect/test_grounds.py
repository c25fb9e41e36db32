"""Grounds of a retriever: which chunks are relevant, in collections of its own making and of others'."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import models

from evals.cases.case import Case
from evals.cases.reading import GoldenSet, fingerprint, load_golden
from evals.collect.pool import ground
from evals.config.experiment import ExperimentConfig
from evals.errors import DatasetError
from evals.experiment.bench import index_if_stale
from retrievers import QdrantRetriever
from retrievers.config import StoreConfig
from tests.support.embeddings import Counting
from tests.support.experiment import CASES, SETTINGS, Experiment, make_experiment, settings, silent
from tests.support.writable import writable


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    made = make_experiment(tmp_path_factory.mktemp("small"))
    index_if_stale(settings(made), {}, silent)
    return made


@pytest.fixture
def retriever(made: Experiment) -> Iterator[QdrantRetriever]:
    with QdrantRetriever.open(settings(made).retriever, env={}) as opened:
        yield opened


def test_ground_finds_the_texts_of_what_is_relevant(made: Experiment, retriever: QdrantRetriever) -> None:
    golden = load_golden(settings(made).dataset)
    grounds = ground(golden, retriever)
    assert sorted(grounds.relevance) == sorted(str(case["id"]) for case in CASES)
    assert grounds.relevance["france"].grades == {}
    [chunk_id] = grounds.relevance["forward"].grades
    assert grounds.texts is not None
    assert "Forward kinematics multiplies" in grounds.texts[chunk_id]
    assert set(grounds.texts) == {c for item in grounds.relevance.values() for c in item.grades}


def test_ground_lists_evidence_that_is_not_in_the_collection(made: Experiment, retriever: QdrantRetriever) -> None:
    rows = [{**CASES[0], "evidence": [{"source_url": "/docs/gone", "heading": "x"}]}]
    with pytest.raises(DatasetError, match=r"forward: evidence\.0: there is no page '/docs/gone'"):
        ground(golden_of(rows), retriever)


def test_chunks_named_by_their_ids_are_found_with_their_texts(made: Experiment, retriever: QdrantRetriever) -> None:
    chunk = retriever.chunks()[0]
    grounds = ground(golden_of([labelled(chunk.chunk_id)]), retriever)
    assert grounds.relevance["a"].grades == {chunk.chunk_id: 2}
    assert grounds.texts == {chunk.chunk_id: chunk.text}
    with pytest.raises(DatasetError, match=r"a: relevant_ids: the collection has no chunk 'ghost'; 1 of 1 relevant"):
        ground(golden_of([labelled("ghost")]), retriever)


def labelled(chunk_id: str) -> dict[str, Any]:
    return {"id": "a", "query": "q", "relevant_ids": {chunk_id: 2}}


def golden_of(rows: Sequence[Mapping[str, Any]]) -> GoldenSet:
    cases = tuple(Case.model_validate(row) for row in rows)
    return GoldenSet(cases=cases, places={}, name="here", fingerprint=fingerprint(cases))


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[QdrantRetriever]:
    """A collection made elsewhere: a flat payload, addresses under `url`, and no ids but the points' own."""
    client = writable(StoreConfig(path=tmp_path / "store"))
    client.create_collection("wiki", models.VectorParams(size=9, distance=models.Distance.COSINE))
    texts = {7: "the arm and its joint", "6b5a2c1e-4f39-4c1d-9d0e-0c9a3b7f2e11": "a topic is a channel"}
    client.upsert(
        "wiki",
        [
            models.PointStruct(
                id=key, vector=Counting().embed_query(text), payload={"body": text, "url": f"/wiki/{text.split()[1]}"}
            )
            for key, text in texts.items()
        ],
    )
    client.close()
    plain = {
        **SETTINGS["retriever"],
        "store": {"path": tmp_path / "store"},
        "collection": "wiki",
        "embedding": {"provider": "python", "model": "tests.support.embeddings:Counting"},
        "metadata": {"text_key": "body", "nested_under": ""},
    }
    config = ExperimentConfig.model_validate({"retriever": plain}).retriever
    with QdrantRetriever.open(config, env={}) as opened:
        yield opened


@pytest.mark.parametrize("chunk_id", ["7", "6b5a2c1e-4f39-4c1d-9d0e-0c9a3b7f2e11"])
def test_chunks_without_ids_of_their_own_are_named_by_their_points(foreign: QdrantRetriever, chunk_id: str) -> None:
    grounds = ground(golden_of([labelled(chunk_id)]), foreign)
    assert grounds.relevance["a"].grades == {chunk_id: 2}
    assert grounds.texts is not None and len(grounds.texts[chunk_id]) > 10


def test_chunks_without_a_page_are_said_before_any_query(
    foreign: QdrantRetriever, caplog: pytest.LogCaptureFixture
) -> None:
    ground(golden_of([labelled("7")]), foreign)
    assert not caplog.messages
    metadata = foreign.settings.metadata.model_copy(update={"map": {"source_url": "page"}})
    with QdrantRetriever.open(foreign.settings.model_copy(update={"metadata": metadata}), env={}) as opened:
        ground(golden_of([labelled("7")]), opened)
    assert [message for message in caplog.messages if "have no page (source_url) or document" in message]

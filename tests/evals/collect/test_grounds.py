"""Grounds of a retriever: which chunks are relevant, in collections of its own making and of others'."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import models

from evals.cases.case import Case
from evals.cases.reading import GoldenSet, fingerprint, load_golden
from evals.collect.pool import ground
from evals.config.experiment import ExperimentConfig
from evals.errors import DatasetError
from retrievers import QdrantRetriever
from retrievers.config import StoreConfig
from tests.support.collections import writable
from tests.support.embeddings import Counting
from tests.support.experiment import CASES, SETTINGS, Experiment, index_once, make_experiment, settings

# Flat payloads, addresses under `url`, and no ids but the points' own.
FOREIGN = {7: "the arm and its joint", "6b5a2c1e-4f39-4c1d-9d0e-0c9a3b7f2e11": "a topic is a channel"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    made = make_experiment(tmp_path_factory.mktemp("small"))
    index_once(made)
    return made


@pytest.fixture
def retriever(made: Experiment) -> Iterator[QdrantRetriever]:
    with QdrantRetriever.open(settings(made).retriever, env={}) as opened:
        yield opened


def golden_of(row: Mapping[str, Any]) -> GoldenSet:
    cases = (Case.model_validate(row),)
    return GoldenSet(cases=cases, places={}, name="here", fingerprint=fingerprint(cases))


def labelled(chunk_id: str) -> GoldenSet:
    return golden_of({"id": "a", "query": "q", "relevant_ids": {chunk_id: 2}})


def test_it_finds_the_texts_of_what_is_relevant(made: Experiment, retriever: QdrantRetriever) -> None:
    grounds = ground(load_golden(settings(made).dataset), retriever)
    assert sorted(grounds.relevance) == sorted(str(case["id"]) for case in CASES)
    assert grounds.relevance["france"].grades == {} and grounds.texts is not None
    [chunk_id] = grounds.relevance["forward"].grades
    assert "Forward kinematics multiplies" in grounds.texts[chunk_id]
    assert set(grounds.texts) == {c for item in grounds.relevance.values() for c in item.grades}
    named = ground(labelled(chunk_id), retriever)
    assert (named.relevance["a"].grades, named.texts) == ({chunk_id: 2}, {chunk_id: grounds.texts[chunk_id]})


@pytest.mark.parametrize(
    ("golden", "said"),
    [
        (golden_of({**CASES[0], "evidence": [{"source_url": "/docs/gone", "heading": "x"}]}),
         r"forward: evidence\.0: there is no page '/docs/gone'"),
        (labelled("ghost"), r"a: relevant_ids: the collection has no chunk 'ghost'; 1 of 1 relevant"),
    ],
)  # fmt: skip
def test_what_is_not_in_the_collection_is_refused(golden: GoldenSet, said: str, retriever: QdrantRetriever) -> None:
    with pytest.raises(DatasetError, match=said):
        ground(golden, retriever)


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[QdrantRetriever]:
    """A collection made elsewhere."""
    client = writable(StoreConfig(path=tmp_path / "store"))
    client.create_collection("wiki", models.VectorParams(size=9, distance=models.Distance.COSINE))
    for key, text in FOREIGN.items():
        payload = {"body": text, "url": f"/wiki/{text.split()[1]}"}
        point = models.PointStruct(id=key, vector=Counting().embed_query(text), payload=payload)
        client.upsert("wiki", [point])
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


def test_chunks_without_ids_of_their_own_are_named_by_their_points(foreign: QdrantRetriever) -> None:
    for key, text in FOREIGN.items():
        grounds = ground(labelled(str(key)), foreign)
        assert (grounds.relevance["a"].grades, grounds.texts) == ({str(key): 2}, {str(key): text})


def test_chunks_without_a_page_are_said_before_any_query(
    foreign: QdrantRetriever, caplog: pytest.LogCaptureFixture
) -> None:
    ground(labelled("7"), foreign)
    assert not caplog.messages
    metadata = foreign.settings.metadata.model_copy(update={"map": {"source_url": "page"}})
    with QdrantRetriever.open(foreign.settings.model_copy(update={"metadata": metadata}), env={}) as opened:
        ground(labelled("7"), opened)
    assert [message for message in caplog.messages if "have no page (source_url) or document" in message]

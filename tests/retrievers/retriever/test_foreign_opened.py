from pathlib import Path
from typing import Any

import pytest

from retrievers import QdrantRetriever
from retrievers.config import StoreConfig
from retrievers.errors import CollectionNotFoundError, ConfigError, StoreError
from retrievers.retriever.foreign import ForeignRetriever
from retrievers.retriever.opened import open_retriever
from retrievers.retriever.protocol import Retriever
from tests.support.compass import Compass, make_store
from tests.support.compass import open_retriever as open_compass
from tests.support.foreign import HERE, settings
from tests.support.writable import mark

SCALES = {
    "plain": ("Overlap", "none", "the retriever gives no scores"),
    "as_retriever": ("VectorStoreRetriever", "none", "the retriever gives no scores"),
    "sparse": ("QdrantVectorStore", "none", "the retriever gives no scores"),
    "euclid": ("QdrantVectorStore", "none", "the retriever gives no scores"),
    "own_way": ("Reversed", "none", "the retriever gives no scores"),
}


def open_named(name: str, **values: Any) -> Retriever:
    return open_retriever(settings(name, **values), env={})


@pytest.mark.parametrize("name", SCALES)
def test_what_its_scores_are_is_told_and_not_guessed(name: str) -> None:
    label, scale, reason = SCALES[name]
    with open_named(name) as retriever:
        [found] = retriever.candidates(["kinematics of an arm"])
    assert retriever.label == label
    assert found.no_cosine == reason
    assert {(c.score_scale, c.score is None) for c in found} == {(scale, scale == "none")}
    assert all(set(c.scores) == set() for c in found)


@pytest.mark.parametrize(
    ("name", "collection"),
    [("plain", None), ("dense", "robots"), ("sparse", "robots"), ("as_retriever", "robots"), ("other_keys", "robots")],
)
def test_a_store_lists_its_own_chunks(name: str, collection: str | None) -> None:
    with open_named(name) as retriever:
        assert (retriever.info.name if retriever.info else None) == collection
        assert retriever.info is None or retriever.info.points == len(retriever.chunks()) == 5


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing", "expected a LangChain BaseRetriever or a QdrantVectorStore, got NoneType"),
        ("a_class", "got the class Overlap; the factory must call it"),
        ("Overlap", "cannot be loaded: ValidationError, 1 validation error for Overlap"),
        ("late", "got a coroutine; the factory must not be async"),
        ("memory_store", "got InMemoryVectorStore; return its as_retriever()"),
        ("chunks", "got list"),
        ("fail", "cannot be loaded: RuntimeError, no index at"),
    ],
)
def test_a_factory_that_makes_something_else(name: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_named(name)
    assert str(caught.value).startswith(f"python '{HERE}:{name}'")
    assert said in str(caught.value)


@pytest.mark.parametrize("name", [*SCALES])
def test_a_threshold_that_nothing_could_be_compared_with_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"threshold: 0.2 cannot be applied .*; leave threshold out") as caught:
        open_named(name, threshold=0.2)
    assert SCALES[name][2] in str(caught.value)


def test_a_collection_may_not_be_named_beside_a_store_that_lists_its_own() -> None:
    for name in ("dense", "as_retriever"):
        with pytest.raises(ConfigError, match="reads 'robots' and its chunks are listed from there; leave store and"):
            open_named(name, collection="robots")


@pytest.mark.parametrize(("name", "key"), [("text_key", "body"), ("nested_under", "about")])
def test_payload_keys_are_those_of_the_store(name: str, key: str) -> None:
    with pytest.raises(ConfigError, match=f"metadata.{name}: QdrantVectorStore reads payload key '{key}', got 'mine'"):
        open_named("other_keys", metadata={name: "mine"})
    with open_named("other_keys", metadata={name: key}) as retriever:
        assert {chunk.source_url for chunk in retriever.chunks()} == {"/docs/arms/kinematics", "/docs/ros/topics"}


def test_a_store_whose_collection_is_gone() -> None:
    with pytest.raises(CollectionNotFoundError, match="no collection 'robots' at :memory:"):
        open_named("without_collection")


def test_a_named_collection_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no embedded store"):
        open_named("plain", store={"path": tmp_path / "gone"}, collection="circle")
    make_store(tmp_path / "store")
    with pytest.raises(CollectionNotFoundError, match="did you mean 'circle'"):
        open_named("plain", store={"path": tmp_path / "store"}, collection="circles")


def test_a_named_collection_that_is_unfinished(tmp_path: Path) -> None:
    mark(StoreConfig(path=make_store(tmp_path / "s")), "circle", state="indexing")
    with pytest.raises(StoreError, match="'circle' is unfinished"):
        open_named("plain", store={"path": tmp_path / "s"}, collection="circle")


def test_what_settings_name_is_opened(tmp_path: Path) -> None:
    with open_retriever(settings("plain"), env={}) as foreign:
        assert isinstance(foreign, ForeignRetriever)
    with open_retriever(settings("dense"), env={}) as own_store:
        assert isinstance(own_store, QdrantRetriever)
    make_store(tmp_path / "store")
    with open_compass(tmp_path / "store", Compass()) as ours:
        again: Retriever = open_retriever(ours.settings, env={}, embeddings=ours.embeddings)
        with again:
            assert isinstance(again, QdrantRetriever)
            assert (again.label, again.notes, again.embedding_label) == (
                "QdrantRetriever",
                (),
                "wordllama:l2_supercat_256",
            )


def test_ours_does_not_open_another() -> None:
    with pytest.raises(ConfigError, match="is a retriever of its own: call its factory"):
        QdrantRetriever.open(settings("plain"), env={})

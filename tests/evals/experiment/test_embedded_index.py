from pathlib import Path
from typing import Any

import pytest

from evals.config.experiment import ExperimentConfig
from evals.experiment.bench import index_if_stale, open_bench
from evals.experiment.inputs import load_inputs
from retrievers import QdrantRetriever
from retrievers.config import RetrieverConfig
from retrievers.errors import IndexingError, StoreError
from retrievers.store import open_client
from tests.support.experiment import PAGES, Experiment, index_once, make_experiment, settings, silent


def stored(config: ExperimentConfig) -> dict[str, str]:
    """Heading to text of what the collection holds."""
    client = open_client(config.retriever.store, {})
    try:
        records, _ = client.scroll(config.retriever.collection, limit=100)
    finally:
        client.close()
    payloads = [record.payload or {} for record in records]
    return {payload["metadata"]["heading"]: payload["page_content"] for payload in payloads}


@pytest.fixture
def made(tmp_path: Path) -> Experiment:
    return make_experiment(tmp_path)


def test_a_missing_collection_is_made_and_a_fresh_one_left_alone(made: Experiment) -> None:
    said: list[str] = []
    config = settings(made)
    assert index_if_stale(config, {}, lambda stage, done, total: said.append(stage))
    assert {"Kinematics", "Forward kinematics", "Topics"} <= set(stored(config))
    assert set(said) == {"embedding", "writing"}
    assert not index_if_stale(config, {}, silent)


def test_changed_added_and_removed_pages_are_brought_up_to_date(made: Experiment) -> None:
    config = settings(made)
    index_once(made)
    made.write_pages({"ros/topics.md": PAGES["ros/topics.md"].replace("lost messages", "what was lost")})
    made.write_pages({"ros/services.md": "# Services\n\nA service answers a request.\n"})
    (made.docs / "arms" / "kinematics.md").unlink()
    assert index_if_stale(config, {}, silent)
    found = stored(config)
    assert set(found) == {"Topics", "Quality of service", "Services"}
    assert "what was lost" in found["Quality of service"]
    assert not index_if_stale(config, {}, silent)


def test_another_context_indexes_again_and_none_named_keeps_the_recorded_one(made: Experiment) -> None:
    index_once(made)
    before = stored(settings(made))
    config = settings(made, index__context="title")
    assert index_if_stale(config, {}, silent)
    assert not index_if_stale(config, {}, silent)
    assert not index_if_stale(settings(made), {}, silent)
    assert stored(config) == before
    with QdrantRetriever.open(config.retriever, env={}, index=config.index) as retriever:
        assert retriever.info.index["context"] == "title"
        contexts = {chunk.heading: chunk.chunk_context for chunk in retriever.chunks()}
    assert contexts["Forward kinematics"] == "Kinematics"


def test_a_collection_that_is_not_its_own_is_refused_with_another_context(made: Experiment) -> None:
    index_once(made)
    inputs = load_inputs(settings(made, index__collection=None, index__context="none"))
    with (
        pytest.raises(StoreError, match=r"with index\.context 'path', but index\.context 'none' is expected"),
        open_bench(inputs, {}, silent),
    ):
        pass


@pytest.mark.parametrize(
    "change",
    [
        {"index__collection": None},
        {"index__collection": "another"},
        {"sources__dir": None},
        {"retriever__store": {"url": "http://127.0.0.1:9", "path": None}},
    ],
)
def test_only_an_embedded_collection_of_its_own_is_written_to(made: Experiment, change: dict[str, Any]) -> None:
    assert not index_if_stale(settings(made, **change), {}, silent)
    assert not made.store.exists()


def test_a_broken_page_is_named_and_the_collection_kept(made: Experiment) -> None:
    config = settings(made)
    index_once(made)
    before = stored(config)
    made.write_pages({"ros/broken.md": "---\ntitle: [unclosed\n---\n\ntext\n"})
    with pytest.raises(IndexingError, match=r"broken\.md"):
        index_if_stale(config, {}, silent)
    assert stored(config) == before


def test_for_a_retriever_of_the_users_own_nothing_is_indexed_but_a_collection_that_it_names(made: Experiment) -> None:
    owned = {"index__collection": "robots", "retriever__python": "mine:make"}
    by_default = RetrieverConfig.model_fields["collection"].default
    assert not index_if_stale(settings(made, **{**owned, "index__collection": by_default}), {}, silent)
    assert not index_if_stale(settings(made, **owned), {}, silent)
    assert not made.store.exists()
    named = settings(made, **owned, retriever__collection="robots", retriever__store={"path": made.store})
    assert index_if_stale(named, {}, silent)
    assert len(stored(named)) == 5

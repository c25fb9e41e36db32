"""The collection that an experiment makes of its own pages: made, brought up to date, or left alone."""

from pathlib import Path
from typing import Any

import pytest

from evals.config.experiment import ExperimentConfig
from evals.experiment.bench import index_if_stale, open_bench
from evals.experiment.inputs import load_inputs
from retrievers import QdrantRetriever
from retrievers.config import RetrieverConfig
from retrievers.errors import StoreError
from retrievers.indexing.chunking import CHUNKING_VERSION
from tests.support.collections import mark
from tests.support.experiment import PAGES, Experiment, index_once, make_experiment, settings, silent


@pytest.fixture
def made(tmp_path: Path) -> Experiment:
    made = make_experiment(tmp_path)
    index_once(made)
    return made


def stale(config: ExperimentConfig) -> bool:
    return index_if_stale(config, {}, silent)


def stored(config: ExperimentConfig) -> dict[str | None, tuple[str, str]]:
    """Heading to text and context of what the collection holds."""
    with QdrantRetriever.open(config.retriever, env={}) as retriever:
        return {chunk.heading: (chunk.text, chunk.chunk_context or "") for chunk in retriever.chunks()}


def test_a_missing_collection_is_made_and_a_fresh_one_left_alone(tmp_path: Path) -> None:
    config, said = settings(make_experiment(tmp_path)), list[str]()
    assert index_if_stale(config, {}, lambda stage, done, total: said.append(stage))
    assert {"Kinematics", "Forward kinematics", "Topics"} <= set(stored(config))
    assert set(said) == {"embedding", "writing"} and not stale(config)


def test_changed_added_and_removed_pages_are_brought_up_to_date(made: Experiment) -> None:
    config = settings(made)
    made.write_pages({"ros/topics.md": PAGES["ros/topics.md"].replace("lost messages", "what was lost")})
    made.write_pages({"ros/services.md": "# Services\n\nA service answers a request.\n"})
    (made.docs / "arms" / "kinematics.md").unlink()
    assert stale(config)
    found = stored(config)
    assert set(found) == {"Topics", "Quality of service", "Services"}
    assert "what was lost" in found["Quality of service"][0] and not stale(config)


def test_another_context_indexes_again_and_none_named_keeps_the_recorded_one(made: Experiment) -> None:
    before, config = stored(settings(made)), settings(made, index__context="title")
    assert stale(config) and not stale(config) and not stale(settings(made))
    after = stored(config)
    assert {heading: text for heading, (text, _) in after.items()} == {k: text for k, (text, _) in before.items()}
    assert after["Forward kinematics"][1] == "Kinematics"
    with QdrantRetriever.open(config.retriever, env={}, index=config.index) as retriever:
        assert retriever.info.index["context"] == "title"


@pytest.mark.parametrize("other", [{"chunking": CHUNKING_VERSION - 1}, {"state": "building"}])
def test_what_was_cut_by_another_version_or_is_unfinished_is_made_again(
    made: Experiment, other: dict[str, Any]
) -> None:
    config = settings(made)
    mark(config.retriever.store, "robots", **other)
    assert stale(config) and not stale(config)


def test_a_collection_that_is_not_its_own_is_refused_with_another_context(made: Experiment) -> None:
    inputs = load_inputs(settings(made, index__collection=None, index__context="none"))
    said = r"with index\.context 'path', but index\.context 'none' is expected"
    with pytest.raises(StoreError, match=said), open_bench(inputs, {}, silent):
        pass


@pytest.mark.parametrize(
    "change",
    [
        {"index__collection": None},
        {"index__collection": "another"},
        {"sources__dir": None},
        {"retriever__store": {"url": "http://127.0.0.1:9", "path": None}},
        {"index__collection": "robots", "retriever__python": "mine:make"},
        {"index__collection": RetrieverConfig.model_fields["collection"].default, "retriever__python": "mine:make"},
    ],
)
def test_only_an_embedded_collection_of_its_own_is_written_to(tmp_path: Path, change: dict[str, Any]) -> None:
    made = make_experiment(tmp_path)
    assert not stale(settings(made, **change)) and not made.store.exists()


def test_the_collection_that_a_retriever_of_the_users_own_names_is_made(tmp_path: Path) -> None:
    made = make_experiment(tmp_path)
    own = {"retriever__python": "mine:make", "retriever__collection": "robots"}
    assert stale(settings(made, **own, retriever__store={"path": made.store}))
    assert len(stored(settings(made))) == 5

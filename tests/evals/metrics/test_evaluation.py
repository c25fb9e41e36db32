from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import models

from evals.collect.pool import ground
from evals.config.experiment import ExperimentConfig
from evals.errors import DatasetError
from evals.experiment.embedded_index import index_if_stale
from evals.golden.loading import GoldenSet, load_golden
from evals.grid.measure import Measured, measure
from evals.metrics.collaborators import Collaborators
from retrievers import QdrantRetriever
from retrievers.config import REQUIRED_METADATA, StoreConfig
from retrievers.store import open_client
from tests.support.embeddings import Counting
from tests.support.experiment import CASES, SETTINGS, Experiment, make_experiment, settings, silent

NO_JUDGE = "there is no judge (judge.model): no LLM-graded metric was computed"


def run(config: ExperimentConfig) -> Measured:
    index_if_stale(config, {}, silent)
    golden = load_golden(config.dataset)
    with QdrantRetriever.open(config.retriever, env={}) as retriever:
        collaborators = Collaborators(retrievers=[retriever], progress=silent)
        return measure(config, golden, ground(golden, retriever), collaborators)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return make_experiment(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def result(made: Experiment) -> Measured:
    return run(settings(made, criteria={"ranking/hit_rate_at_3": ">= 0.7"}))


@pytest.fixture
def retriever(made: Experiment, result: Measured) -> Iterator[QdrantRetriever]:
    with QdrantRetriever.open(settings(made).retriever, env={}) as opened:
        yield opened


def values(result: Measured) -> dict[str, float | None]:
    return {summary.metric: summary.value for summary in result.summaries}


def test_a_query_that_finds_nothing_counts_in_every_mean(result: Measured) -> None:
    unfound = next(o for o in result.observed.observations if o.case.id == "unfound")
    assert unfound.selection == ()
    assert result.scores["ranking/hit_rate_at_3"] == {"forward": 1.0, "inverse": 1.0, "channel": 1.0, "unfound": 0.0}
    assert values(result)["ranking/hit_rate_at_3"] == 0.75


def test_scores_are_of_the_queries_in_the_scope_of_their_metric(result: Measured) -> None:
    assert set(result.scores["scope/abstention"]) == {"france", "soup"}
    assert set(result.scores["ranking/mrr_at_3"]) == {"forward", "inverse", "channel", "unfound"}
    assert set(result.scores["cost/context_tokens"]) == {str(case["id"]) for case in CASES}


def test_what_is_returned_are_the_first_candidates_that_reach_the_threshold(result: Measured) -> None:
    assert any(len(o.selection) == 3 for o in result.observed.observations)
    for observation in result.observed.observations:
        assert len(observation.candidates) == 5
        reaching = [c for c in observation.candidates if c.known_score >= 0.3]
        assert list(observation.selection) == reaching[:3]


def test_only_chosen_metrics_are_computed_and_the_verdicts_always(result: Measured) -> None:
    assert {name.partition("/")[0] for name in values(result)} == {
        "ranking", "scope", "determinism", "cost", "queries",
    }  # fmt: skip
    assert (
        values(result)["queries/pass_rate"]
        == result.validation.outcomes.count("SUCCESS") / 6
        == result.validation.pass_rate
    )


def test_the_result_says_what_ran_and_whether_its_criteria_hold(result: Measured, made: Experiment) -> None:
    asked = settings(made, criteria={"ranking/hit_rate_at_3": ">= 0.7"})
    required = result.config.retriever.metadata.required
    metadata = asked.retriever.metadata.model_copy(update={"required": required})
    retriever = asked.retriever.model_copy(update={"metadata": metadata})
    assert result.config == asked.model_copy(update={"retriever": retriever})
    assert required == REQUIRED_METADATA
    assert [(gate.metric, gate.figure, gate.passed) for gate in result.gates] == [("ranking/hit_rate_at_3", 0.75, True)]
    assert result.notes == [NO_JUDGE]


def test_running_again_gives_the_same_scores(result: Measured, made: Experiment) -> None:
    again = run(settings(made))
    assert again.scores == result.scores
    assert values(again) == values(result)


@pytest.mark.parametrize(
    ("ids", "note"),
    [
        (("france", "soup"), "no in-scope query: metrics over them have no value"),
        (("forward",), "no out-of-scope query: metrics over them have no value"),
    ],
)
def test_a_kind_of_query_that_is_missing_is_noted(made: Experiment, ids: Sequence[str], note: str) -> None:
    result = run(settings(made, dataset__ids=ids))
    assert len(result.notes) == 2 and result.notes[1] == NO_JUDGE
    assert note in result.notes[0]
    lacking = "ranking/mrr_at_3" if ids[0] == "france" else "scope/abstention"
    summary = next(s for s in result.summaries if s.metric == lacking)
    assert (summary.value, summary.n, summary.note) == (None, 0, "no query of this kind")


def test_a_model_that_changes_its_mind_is_found_out(tmp_path: Path) -> None:
    made = make_experiment(tmp_path)
    result = run(
        settings(
            made,
            retriever__embedding={"provider": "python", "model": "tests.support.embeddings:Drifting"},
            metrics=["determinism/*", "latency/total_*"],
            latency__concurrency=[1, 2],
        )
    )
    rate = next(s for s in result.summaries if s.metric == "determinism/rate")
    assert (rate.value, rate.n) == (0.0, 6)
    concurrent = next(s for s in result.summaries if s.metric == "latency/total_p50_ms_c2")
    assert concurrent.value is None
    assert any("at concurrency 2 the results of" in note for note in result.notes)


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
    with pytest.raises(DatasetError, match=r"forward: evidence\.0: the collection has no page '/docs/gone'"):
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
    from evals.golden.case import Case
    from evals.golden.loading import fingerprint

    cases = tuple(Case.model_validate(row) for row in rows)
    return GoldenSet(cases=cases, places={}, name="here", fingerprint=fingerprint(cases))


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[QdrantRetriever]:
    """A collection made elsewhere: a flat payload, addresses under `url`, and no ids but the points' own."""
    client = open_client(StoreConfig(path=tmp_path / "store"), {}, create=True)
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


def test_pages_are_found_under_another_name_of_their_address(foreign: QdrantRetriever) -> None:
    row = {"id": "a", "query": "q", "evidence": [{"source_url": "/wiki/arm", "quote": "the arm and its joint"}]}
    assert ground(golden_of([row]), foreign).relevance["a"].grades == {"7": 1}


def test_chunks_without_a_page_are_said_before_any_query(
    foreign: QdrantRetriever, caplog: pytest.LogCaptureFixture
) -> None:
    ground(golden_of([labelled("7")]), foreign)
    assert not caplog.messages
    metadata = foreign.settings.metadata.model_copy(update={"map": {"source_url": "page"}})
    with QdrantRetriever.open(foreign.settings.model_copy(update={"metadata": metadata}), env={}) as opened:
        ground(golden_of([labelled("7")]), opened)
    assert [message for message in caplog.messages if "have no page (source_url) or document" in message]

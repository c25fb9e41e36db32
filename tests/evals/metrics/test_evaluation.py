"""One run through the engine, a grid of one cell: what it retrieves, scores, counts and notes."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from evals.cases.reading import load_golden
from evals.collect.pool import ground
from evals.config.experiment import ExperimentConfig
from evals.experiment.bench import index_if_stale
from evals.grid.measure import Measured, measure
from evals.metrics.collaborators import Collaborators
from retrievers import QdrantRetriever
from retrievers.config import REQUIRED_METADATA
from tests.support.experiment import CASES, Experiment, make_experiment, settings, silent

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

"""Our ragas metrics against ragas itself, and how it treats empty results."""

import asyncio
import random
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from math import isnan
from statistics import fmean
from typing import Any

import pytest

from evals.collect.observations import Observation, Score, Unscored
from evals.metrics import METRICS
from evals.metrics.declaration import QueryMetric, summarise
from tests.support.observed import make_chunk, make_context, observe, results
from tests.support.scored import scored

CLASSES: Mapping[str, str] = {
    "ragas/id_context_precision": "IDBasedContextPrecision",
    "ragas/id_context_recall": "IDBasedContextRecall",
    "ragas/nonllm_context_precision": "NonLLMContextPrecisionWithReference",
    "ragas/nonllm_context_recall": "NonLLMContextRecall",
}
WORDS = "robot joint torque sensor frame topic service action plan grasp camera depth wheel motor gain".split()


@cache
def ragas_class(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the very classes we use
        from ragas import metrics

        return getattr(metrics, name)


def ragas_samples(observations: Sequence[Observation], texts: Mapping[str, str]) -> list[Any]:
    """Samples as a user of ragas would make them, by hand."""
    from ragas.dataset_schema import SingleTurnSample

    return [
        SingleTurnSample(
            retrieved_context_ids=[found.chunk.chunk_id for found in o.selection],
            retrieved_contexts=[found.chunk.text for found in o.selection],
            reference_context_ids=list(o.relevance.grades),
            reference_contexts=[texts[chunk_id] for chunk_id in o.relevance.grades],
        )
        for o in observations
    ]


def random_observations(count: int = 40) -> tuple[list[Observation], dict[str, str]]:
    """Results that share few, some or all words with what is relevant, never empty; and the texts of all chunks."""
    rng = random.Random(11)
    texts = {f"c{n}": " ".join(rng.choices(WORDS, k=rng.randint(1, 12))) for n in range(30)}
    texts |= {f"near{n}": texts[f"c{n}"] + " " + rng.choice(WORDS) for n in range(10)}
    observations = []
    for _ in range(count):
        returned = rng.sample(sorted(texts), rng.randint(1, 8))
        grades = dict.fromkeys(rng.sample(sorted(texts), rng.randint(1, 6)), 1)
        observations.append(observe(results(*(make_chunk(i, texts[i]) for i in returned)), grades))
    return observations, texts


def score(name: str, observations: Sequence[Observation], texts: Mapping[str, str]) -> list[Score]:
    metric = METRICS[name]
    assert isinstance(metric, QueryMetric)
    return list(scored(metric, observations, make_context(texts=texts)))


@pytest.mark.parametrize("name", CLASSES)
def test_equals_ragas_own_class_on_non_empty_results(name: str) -> None:
    observations, texts = random_observations()
    ours = score(name, observations, texts)
    metric = ragas_class(CLASSES[name])()
    expected = [asyncio.run(metric.single_turn_ascore(sample)) for sample in ragas_samples(observations, texts)]
    assert len(set(expected)) > 3, "the results must differ in score"
    assert ours == pytest.approx(expected, abs=1e-9)


A, B = make_chunk("a", "publishers send messages on topics"), make_chunk("b", "a gripper closes around the handle")
X = make_chunk("x", "zzzz qqqq wwww")
TEXTS = {"a": A.text, "b": B.text}
HALF = observe(results(A, X), {"a": 1, "b": 1})
EMPTY = observe((), {"a": 1, "b": 1})


def ragas_evaluate(observations: Sequence[Observation]) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Per-sample scores and means of `ragas.evaluate`, by our metric names."""
    classes = {name: ragas_class(class_name)() for name, class_name in CLASSES.items()}
    from ragas import EvaluationDataset, evaluate

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # evaluate() is deprecated as a whole
        warnings.simplefilter("ignore", ResourceWarning)  # it leaves a file of its own open
        found = evaluate(
            EvaluationDataset(samples=ragas_samples(observations, TEXTS)),
            metrics=list(classes.values()),
            show_progress=False,
        )
    return (
        {name: [row[metric.name] for row in found.scores] for name, metric in classes.items()},
        {name: found._repr_dict[metric.name] for name, metric in classes.items()},
    )


def test_equals_ragas_evaluate_on_a_small_set_of_non_empty_results() -> None:
    observations = [HALF, observe(results(B, A), {"a": 1}), observe(results(X), {"b": 1})]
    scores, means = ragas_evaluate(observations)
    for name in CLASSES:
        ours = score(name, observations, TEXTS)
        assert ours == pytest.approx(scores[name], abs=1e-9)
        assert summarise(name, ours, "mean").value == pytest.approx(means[name], abs=1e-9)


def test_ragas_drops_empty_results_from_two_means_where_ours_count_0() -> None:
    """One query half right, one empty: ragas' precision stays at 0.5 as if the second had not been asked."""
    scores, means = ragas_evaluate([HALF, EMPTY])
    dropped = {"ragas/id_context_precision", "ragas/nonllm_context_recall"}
    for name in CLASSES:
        ours = score(name, [HALF, EMPTY], TEXTS)
        assert ours[1] == 0.0
        assert summarise(name, ours, "mean").value == fmean([scores[name][0], 0.0])
        assert isnan(scores[name][1]) == (name in dropped)
        assert means[name] == pytest.approx(scores[name][0] / (1 if name in dropped else 2))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ragas/id_context_precision", 1 / 3),
        ("ragas/id_context_recall", 0.5),
        ("ragas/nonllm_context_precision", 0.5),
        ("ragas/nonllm_context_recall", 0.5),
    ],
)
def test_hand_computed(name: str, expected: float) -> None:
    """Returned x, a, x2; relevant a and b: one of three, one of two; average precision with `a` at rank 2 is 1/2."""
    returned = results(X, A, make_chunk("x2", "1234 5678"))
    assert score(name, [observe(returned, {"a": 1, "b": 1})], TEXTS) == pytest.approx([expected], abs=1e-9)


def test_a_chunk_that_came_twice_counts_once_by_id() -> None:
    assert score("ragas/id_context_precision", [observe(results(A, A, X), {"a": 1})], TEXTS) == [0.5]


@pytest.mark.parametrize(
    ("name", "value"), [("ragas/nonllm_context_precision", 1 / (1 + 1e-10)), ("ragas/nonllm_context_recall", 0.5)]
)
def test_a_relevant_chunk_that_the_collection_lacks_is_unlike_everything(name: str, value: float) -> None:
    assert score(name, [observe(results(A), {"a": 1, "gone": 1})], TEXTS) == [pytest.approx(value, abs=1e-15)]


def test_ids_need_no_texts() -> None:
    assert score("ragas/id_context_recall", [observe(results(A), {"a": 1, "gone": 1})], {}) == [0.5]


def test_no_query_gives_no_score() -> None:
    assert score("ragas/id_context_recall", [], {}) == []


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("returned", [("a", "b"), ("b",), ()])
def test_where_the_chunks_cannot_be_listed_only_the_precision_of_ids_is_true(
    name: str, returned: Sequence[str]
) -> None:
    """The share of what was returned needs no other chunk; an empty result does not make up for an unknown one."""
    known = observe(results(*returned), {"a": 1} if "a" in returned else {})
    unlisted = replace(known, relevance=replace(known.relevance, incomplete="not listed"))
    metric = METRICS[name]
    assert isinstance(metric, QueryMetric)
    [score] = scored(metric, [unlisted], replace(make_context(), relevant_texts=None))
    if name == "ragas/id_context_precision":
        assert score == (0.0 if not returned else ("a" in returned) / len(returned))
    else:
        assert isinstance(score, Unscored)


def test_with_labelled_ids_and_no_listing_ids_are_scored_and_texts_are_not() -> None:
    """Scoring texts where all happen to have come back would leave out what did not."""
    labelled = [observe(results("a"), {"a": 1}), observe(results("b"), {"a": 1}), observe((), {"a": 1})]
    for name in CLASSES:
        metric = METRICS[name]
        assert isinstance(metric, QueryMetric)
        scores = scored(metric, labelled, replace(make_context(), relevant_texts=None))
        if name.startswith("ragas/id_"):
            assert scores == [1.0, 0.0, 0.0]
        else:
            assert scores == [Unscored(reason="the texts of the relevant chunks are not known")] * 3

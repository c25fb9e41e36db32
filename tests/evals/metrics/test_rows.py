"""What holds for every row of the table: the score of many results is the score of each alone, whatever the padding."""

import random
from dataclasses import replace

import numpy as np
import pytest

from evals.collect.observations import Failure, Observation, Score, Unscored
from evals.judge.verdicts import ChunkVerdict, Judging
from evals.metrics import METRICS, PASS_RATE
from evals.metrics.declaration import Context, QueryMetric
from tests.support.observed import make_case, make_chunk, make_context, observe, results
from tests.support.scored import results_of

ROWS = {
    name: metric for name, metric in {**METRICS, PASS_RATE.name: PASS_RATE}.items() if isinstance(metric, QueryMetric)
}
UNSCORED = {
    *("index/ann_recall_at_5", "index/ann_recall_at_100", "metadata/accuracy"),
    *("content/verbatim", "content/heading_in_source", "content/section_match"),
}
"""Rows for which the world has no exact search, no source pages and no headings in its evidence."""
RESULTS = ("ragas/llm_context_recall", "ragas/llm_context_relevance", "ragas/llm_context_entity_recall")


def world(seed: int) -> tuple[list[Observation], Context]:
    """Random results: ties, repeated ids, equal texts, empty, out of scope, unlabelled, refused chunks, verdicts."""
    rng = random.Random(seed)
    words = "arm joint motor torque sensor frame topic service plan grasp camera wheel".split()
    chunks = [
        make_chunk(
            f"c{n % 18}",  # two of them share an id
            " ".join(rng.choices(words, k=rng.choice([3, 8]))),
            heading=rng.choice(["A", "B", None]),
            section_path=rng.choice(["A > B", None]),
            source_url=rng.choice(["/docs/a", "/docs/b#x", "docs/c", None]),
            chunk_index=rng.choice([0, 1, 2, None]),
            total_chunks=3,
            tags=("robots",),
        )
        for n in range(20)
    ]
    observations, verdicts, scores = [], {}, {}
    for number in range(40):
        found = [chunks[n] for n in (rng.choices if number % 7 == 0 else rng.sample)(range(20), k=rng.randint(0, 12))]
        kept = found[: rng.choice([0, 1, 3, 12])]
        inside = number % 5 != 0
        grades = {f"c{n}": rng.randint(1, 3) for n in rng.sample(range(18), rng.randint(1, 5))} if inside else {}
        labelled = inside and number % 6 != 1
        case = make_case(
            f"q{number}",
            in_scope=inside,
            relevant_ids=grades if labelled else {},
            expected_topics=rng.sample(words, 2) if rng.random() < 0.7 else [],
            source_url_pattern=rng.choice([None, "docs/a"]),
            reference_answer=rng.choice([None, "The arm has a joint. The motor turns."]),
            min_results=rng.choice([1, 3]),
        )
        observation = observe(
            results(*kept, scores=[round(0.9 - 0.05 * (n // 2), 2) for n in range(len(kept))]),
            grades if labelled else {},
            items=[frozenset(rng.sample(sorted(grades), 1)) for _ in range(70)] if labelled else [],
            irrelevant=[f"c{n}" for n in range(18) if f"c{n}" not in grades][:4] if labelled else [],
            candidates=results(*found, scores=[round(0.9 - 0.05 * (n // 2), 2) for n in range(len(found))]),
            case=case,
        )
        observations.append(observation)
        for key in {chunk.chunk_id for chunk in kept}:
            failed = Failure(type="Timeout", message="late")
            verdicts[case.id, key] = (
                failed if rng.random() < 0.05 else ChunkVerdict(verdict=rng.randint(0, 1), reason="")
            )
        for name in RESULTS:
            scores[name, case.id, tuple(chunk.chunk_id for chunk in kept)] = round(rng.random(), 3)
    judging = Judging(model="m", verdicts=verdicts, scores=scores, claims={})
    texts = {chunk.chunk_id: chunk.text for chunk in chunks}
    return observations, replace(make_context(required=["title", "heading"], texts=texts), judging=judging)


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("seed", [1, 2])
def test_many_rows_score_as_each_alone(name: str, seed: int) -> None:
    observations, context = world(seed)
    results, metric = results_of(observations), ROWS[name]
    together = metric.values(results, context)
    order = np.asarray(random.Random(seed).sample(range(len(observations)), len(observations)))
    shuffled = metric.values(results.at(order), context)
    scored = 0
    for place, row in enumerate(order.tolist()):
        alone = results.at(np.asarray([row]))
        trimmed = type(alone)(alone.lists, alone.list_of, alone.places[:, : int(alone.lengths[0])])
        expected = _comparable(together[row])
        assert _comparable(shuffled[place]) == expected
        assert _comparable(metric.values(trimmed, context)[0]) == expected
        scored += isinstance(together[row], float) and not np.isnan(together.values[row])
    assert scored or name in UNSCORED


def _comparable(score: Score) -> object:
    if isinstance(score, Unscored | Failure):
        return score
    return pytest.approx(score, abs=1e-12, nan_ok=True)

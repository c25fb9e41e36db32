"""The statistics of a judge as summaries and as JSON."""

import json
from dataclasses import fields

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from evals.collect.observations import Failure, Summary
from evals.judge.trust.agreement import Judged, agree
from evals.judge.trust.correction import correct
from evals.judge.trust.noise import Rejudged, noise_share, self_agreement
from evals.judge.trust.trust import Trust, summaries, view
from evals.report.trust_schema import TrustSection
from tests.support.json_schema import closed

NAMES = ("judge/agreement", "judge/kappa", "judge/false_useful", "judge/false_useless")
ROWS = [
    Judged(query_id=f"q{query:02}", chunk_id=f"c{chunk}", verdict=verdict, label=label, reason=f"{query} {chunk}")  # type: ignore[arg-type]
    for query in range(20)
    for chunk, (verdict, label) in enumerate([(1, 1), (0, 0), (int(query % 5 == 0), int(query % 7 == 0))])
]


def whole() -> Trust:
    rng = np.random.default_rng(0)
    judged = {f"q{place:03}": float(score) for place, score in enumerate(rng.random(150))}
    again = {key: (score, min(1.0, score + 0.1)) for key, score in judged.items()}
    rejudged = [Rejudged(query_id=f"q{q}", chunk_id="c", first=1, second=int(q % 9 > 0)) for q in range(30)]  # type: ignore[arg-type]
    return Trust(
        agreement=agree(ROWS, 0),
        self_agreement=self_agreement(rejudged, 0),
        noise_share=noise_share(again, 0),
        noise_metric="ragas/llm_context_precision",
        corrections=(
            correct("ragas/llm_context_precision", judged, {key: judged[key] * 0.9 for key in sorted(judged)[:100]}, 0),
            correct("ragas/llm_context_recall", judged, {"q000": 0.5}, 0),
        ),
    )


def test_a_summary_for_each_statistic() -> None:
    trust = whole()
    found = {summary.metric: summary for summary in summaries(trust)}
    assert list(found) == [
        *NAMES,
        "judge/self_agreement",
        "judge/noise_share",
        "ragas/llm_context_precision_corrected",
        "ragas/llm_context_recall_corrected",
    ]
    assert trust.agreement is not None
    accuracy = trust.agreement.accuracy
    assert found["judge/agreement"] == Summary(
        metric="judge/agreement",
        value=accuracy.value,
        ci_low=accuracy.interval.low,
        ci_high=accuracy.interval.high,
        n=60,
    )
    assert found["judge/kappa"].value == trust.agreement.kappa.value
    assert found["judge/false_useful"].n == trust.agreement.false_useful.n
    assert found["judge/false_useless"].value == trust.agreement.false_useless.value
    assert found["judge/self_agreement"].value == 26 / 30
    assert found["ragas/llm_context_precision_corrected"].value == trust.corrections[0].corrected.value


def test_what_was_not_asked_for_has_no_summary_and_is_null_in_json() -> None:
    assert summaries(Trust()) == []
    assert view(Trust()) == {"agreement": None, "self_agreement": None, "noise_share": None, "corrections": []}


@pytest.mark.parametrize("trust", [Trust(), whole()], ids=["empty", "whole"])
def test_the_json_is_what_the_published_schema_describes_in_full(trust: Trust) -> None:
    described = Draft202012Validator(closed(TrustSection.model_json_schema()))
    assert [*described.iter_errors(json.loads(json.dumps(view(trust), allow_nan=False)))] == []


def test_a_missing_value_or_interval_says_why() -> None:
    found = {
        one.metric: one for one in summaries(Trust(agreement=agree(ROWS[:18], 0), corrections=whole().corrections))
    }
    assert found["judge/agreement"].note == "not computable: only 6 queries, 10 are needed"
    refused = found["ragas/llm_context_recall_corrected"]
    assert (refused.value, refused.note) == (None, "only 1 query with human verdicts can be used, 100 are needed")
    assert summaries(Trust(agreement=agree([], 0)))[0].note == "no verdict on a labelled chunk"


def test_failures_and_bounds_are_handed_on() -> None:
    failed = Judged(query_id="q", chunk_id="x", verdict=Failure(type="TimeoutError", message=""), label=1)
    found = summaries(Trust(agreement=agree([*ROWS, failed], 0)))
    assert [one.n_failed for one in found] == [1, 1, 0, 1]
    assert found[0].bound_low is not None and found[0].value is not None and found[0].bound_high is not None
    assert found[0].bound_low < found[0].value < found[0].bound_high
    assert found[2].bound_low is None


def test_json_holds_everything_once() -> None:
    trust = whole()
    found = json.loads(json.dumps(view(trust), allow_nan=False))
    assert trust.agreement is not None
    assert (found["agreement"]["n_queries"], found["agreement"]["n_verdicts"]) == (20, 60)
    for summary, name in zip(summaries(trust), ("accuracy", "kappa", "false_useful", "false_useless"), strict=False):
        expected = {field.name: getattr(summary, field.name) for field in fields(summary) if field.name != "metric"}
        assert {key: found["agreement"][name][key] for key in expected} == expected
    assert found["noise_share"]["metric"] == "ragas/llm_context_precision"
    assert found["self_agreement"]["n_queries"] == 30
    first = found["corrections"][0]
    assert (first["metric"], first["tuning"]) == ("ragas/llm_context_precision", trust.corrections[0].tuning)
    assert first["raw"]["n"] == 150 and first["labels_alone"]["n"] == 100
    assert found["corrections"][1]["corrected"]["value"] is None


def test_json_lists_the_disagreements_with_their_kind_and_the_judges_reason() -> None:
    found = view(Trust(agreement=agree(ROWS, 0)))["agreement"]["disagreements"]
    assert [(row["query_id"], row["kind"]) for row in found] == [
        ("q05", "false_useful"),
        ("q07", "false_useless"),
        ("q10", "false_useful"),
        ("q14", "false_useless"),
        ("q15", "false_useful"),
    ]
    assert found[0] == {
        "query_id": "q05",
        "chunk_id": "c2",
        "verdict": 1,
        "label": 0,
        "kind": "false_useful",
        "reason": "5 2",
    }

import json
from typing import Any

from evals.collect.observations import Gate, Summary
from evals.config.experiment import ExperimentConfig
from evals.judge.verdicts import ChunkVerdict, Claim
from evals.report.model import JudgeFacts, Report
from evals.tracking.values import (
    MOST_METRICS,
    USUAL,
    metric_values,
    metrics_table,
    parameters,
    queries_table,
    tags,
)
from retrievers.config import dump
from tests.support.judged import judging
from tests.support.results import UNLISTED, facts, report, result, without_scores

CRITERIA = "mlflow.genaiEvaluate.qualityCriteria"


def of(config: dict[str, Any]) -> Report:
    return report().model_copy(update={"config": config})


def test_a_users_own_keys_are_no_names_of_parameters() -> None:
    """MLflow would refuse `retriever.abbreviations.R&D`."""
    nested = {"abbreviations": {"R&D": "research"}, "keyword": {"synonyms": {"C++": ["cpp"]}, "language": "german"}}
    found = parameters(of({"retriever": {**nested, "filters": {"any": [{"a(b)": 1}]}, "top_k": 3}}))
    assert found == {
        "retriever.top_k": "3",
        "retriever.embedding.model": "l2",
        "retriever.abbreviations": "{'R&D': 'research'}",
        "retriever.keyword.synonyms": "{'C++': ['cpp']}",
        "retriever.keyword.language": "german",
        "retriever.filters": "{'any': [{'a(b)': 1}]}",
        "retriever.class": "QdrantRetriever",
    }


def test_parameters_are_the_usual_five_and_what_differs_from_the_defaults() -> None:
    model = {"retriever": {"embedding": {"model": "l2_supercat_256"}, "threshold": 0.3}}
    changes = {
        "retriever": {"candidates": 7, **model["retriever"]},
        "sweep": {"top_k": [3, 5]},
        "criteria": {"scope/auroc": "> 0.5"},
    }
    plain = parameters(of(dump(ExperimentConfig.model_validate({"tracking": {"uri": "http://***@host"}, **model}))))
    changed = parameters(of(dump(ExperimentConfig.model_validate(changes))))
    assert list(plain) == [*USUAL, "retriever.class"]
    assert changed == {**plain, "retriever.candidates": "7", "sweep.top_k": "[3, 5]"}


def entry(value: float | None) -> Summary:
    return Summary(metric="m", value=value)


def test_metrics_are_values_alone_those_that_say_most_first() -> None:
    names = {f"candidates/recall_at_{n}": entry(n / 7) for n in range(1, 60)}
    leading = {"ranking/ndcg_at_5": entry(0.123456789), "ranking/hit_rate_at_5": entry(1.0), "a": entry(None)}
    found = metric_values(report().model_copy(update={"metrics": names | leading, "criteria": []}))
    assert len(found) == MOST_METRICS
    assert list(found.items())[:3] == [
        ("ranking/hit_rate_at_5", 1.0),
        ("ranking/ndcg_at_5", 0.123456789),
        ("candidates/recall_at_1", 1 / 7),
    ]


def test_criteria_are_told_as_mlflow_reads_them_one_a_metric_that_has_a_value() -> None:
    """MLflow knows `>=` and `<=` alone; the second criterion is of a metric without a value."""
    [rule] = json.loads(tags(report())[CRITERIA])["rules"]
    assert rule == {"metricKey": "ranking/hit_rate_at_5", "comparator": "GTE", "threshold": 0.4}
    gates = [
        Gate(metric="ranking/precision_at_3", condition=condition, figure=0.5, passed=True, reason="")
        for condition in ("< 0.5", "no worse")
    ]
    assert CRITERIA not in tags(report().model_copy(update={"criteria": gates}))


def test_what_the_judge_said_is_in_the_table_and_who_it_was_in_the_tags() -> None:
    said = judging(
        verdicts={
            ("right", "a"): ChunkVerdict(verdict=1, reason="It helps."),
            ("right", "b"): ChunkVerdict(verdict=0, reason="It does not."),
        },
        claims={("right", ("a", "b")): (Claim(statement="It turns.", attributed=1, reason="It says so."),)},
    )
    judge = JudgeFacts(provider="cohere", model="command", parameters={"seed": 0}, fingerprint="cafe")
    made = report(result(judging=said), facts(judge=judge))
    rows = queries_table(made)
    assert [row["judge"] for row in rows] == ["1. useful: It helps.\n2. useless: It does not.", "", ""]
    assert [row["claims"] for row in rows] == ["supported: It turns. (It says so.)", "", ""]
    assert [row["metric"] for row in metrics_table(made)] == list(made.metrics)
    assert tags(made)["judge.model"] == "command"
    assert "judge" not in queries_table(report())[0] and "judge.model" not in tags(report())


def test_a_run_of_a_retriever_without_scores_has_no_tag_of_what_is_not_known() -> None:
    told = tags(report(without_scores(), UNLISTED))
    assert told["mode"] == "Bm25"
    assert "collection" not in told
    assert "None" not in told.values()
    rows = queries_table(report(without_scores(), UNLISTED))
    assert [row["top_score"] for row in rows] == [None, None, None]
    assert rows[1]["retrieved"] == "1.   –     b.md:1-2"

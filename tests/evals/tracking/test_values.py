import json
from typing import Any

from evals.collect.observations import Gate, Summary
from evals.config.experiment import ExperimentConfig
from evals.report.model import Report
from evals.tracking.values import MOST_METRICS, USUAL, metric_values, parameters, tags
from retrievers.config import dump
from tests.support.results import report

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

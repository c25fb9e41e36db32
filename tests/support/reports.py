"""Reports put together by hand, of as many queries and metrics as a test needs."""

import json
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from evals.report.model import Report
from evals.report.parsing import parse
from tests.support.results import FACTS

NDCG = "ranking/ndcg_at_10"
HIT = "ranking/hit_rate_at_5"
TOKENS = "cost/context_tokens"
FALSE_ANSWER = "scope/false_answer"
P95 = "latency/total_p95_ms"
Score = float | str | None
"""A number, `failed` or `unscored`; None where the metric is not over the query."""


def hit(rank: int, score: float, chunk_id: str, grade: int = 0) -> dict[str, Any]:
    return {"rank": rank, "score": score, "chunk_id": chunk_id, "grade": grade}


def document(
    scores: Mapping[str, Sequence[Score]],
    whole: Mapping[str, float | None] | None = None,
    rows: Sequence[Mapping[str, Any]] | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """Return a report of queries q0, q1, … with those scores, and of `whole`, values of metrics that score no query.

    A query succeeds when its scores are nothing but ones. `rows` are changes of their entries, one each; `changes` are
    other facts, `config`, `name` and `criteria`.
    """
    count = max(map(len, scores.values()), default=0)
    queries = [
        {
            "id": (name := own.get("id", f"q{place}")),
            "query": f"query {name}",
            "fingerprint": f"case {name}",
            "in_scope": True,
            "relevant": {"a.md:1-2": 1},
            "top_score": 0.5,
            "retrieved": [hit(1, 0.5, "a.md:1-2", 1)],
            "outcome": "SUCCESS" if all(column[place] == 1 for column in scores.values()) else "FAILURE",
            "reasons": [],
            "content_relevance": 1.0,
            "accuracy_score": 1.0,
            "time_ms": 1.5,
            **own,
        }
        for place, own in enumerate(rows or [{}] * count)
    ]
    values = {name: _mean(column) for name, column in scores.items()} | dict(whole or {})
    values["queries/pass_rate"] = _mean([float(query["outcome"] == "SUCCESS") for query in queries])
    hits = [one for query in queries for one in (*query["retrieved"], *query.get("best_below_threshold", ()))]
    top = {key: changes.pop(key) for key in ("config", "name", "criteria") if key in changes}
    return {
        "schema_version": 2,
        "name": "by hand",
        "passed": True,
        "facts": FACTS.model_dump(mode="json") | changes,
        "config": {"retriever": {"mode": "semantic", "top_k": 3}},
        "metrics": {
            name: {"metric": name, "value": value, "n": 1, "note": "nothing to say" if value is None else ""}
            for name, value in values.items()
        },
        "criteria": [],
        "notes": [],
        "queries": queries,
        "scores": {
            name: [{value: "because"} if isinstance(value, str) else value for value in column]
            for name, column in scores.items()
        },
        "proxies": {},
        "chunks": {one["chunk_id"]: {"source": one["chunk_id"], "breadcrumb": "m › h", "text": "text"} for one in hits},
    } | top


def report(*arguments: Any, **changes: Any) -> Report:
    return parse(json.dumps(document(*arguments, **changes)), "by hand")


def _mean(values: Sequence[Score]) -> float | None:
    numbers = [value for value in values if isinstance(value, float | int)]
    return fmean(numbers) if numbers else None


def closed(schema: dict[str, Any]) -> Any:
    shut = {"additionalProperties": False}
    return json.loads(json.dumps(schema), object_hook=lambda node: node | shut if "properties" in node else node)

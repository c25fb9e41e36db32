"""Reports put together by hand, of as many queries and metrics as a test needs."""

import json
from collections.abc import Mapping, Sequence
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


def hit(rank: int, score: float, source: str, grade: int = 0) -> dict[str, Any]:
    return {
        "rank": rank, "score": score, "chunk_id": source, "source": source, "breadcrumb": "m › h", "grade": grade,
        "preview": "text",
    }  # fmt: skip


def row(name: str, scores: Mapping[str, Score], **changes: Any) -> dict[str, Any]:
    """Return a query's entry; it succeeds when its scores hold nothing but ones."""
    made = {
        "id": name,
        "query": f"query {name}",
        "fingerprint": f"case {name}",
        "in_scope": True,
        "relevant": {"a.md:1-2": 1},
        "top_score": 0.5,
        "retrieved": [hit(1, 0.5, "a.md:1-2", 1)],
        "scores": {metric: _score(value) for metric, value in scores.items() if value is not None},
        "outcome": "SUCCESS" if all(value == 1 for value in scores.values()) else "FAILURE",
        "reasons": [],
        "content_relevance": 1.0,
        "accuracy_score": 1.0,
        "time_ms": 1.5,
    }
    return made | changes


def metric(value: float | None, name: str = "", **changes: Any) -> dict[str, Any]:
    return {"metric": name, "value": value, "n": 1, "note": "nothing to say" if value is None else ""} | changes


def judge(**changes: Any) -> dict[str, Any]:
    return {"provider": "cohere", "model": "x", "parameters": {"temperature": 0.0}, "fingerprint": "1"} | changes


def document(
    scores: Mapping[str, Sequence[Score]],
    whole: Mapping[str, float | None] | None = None,
    rows: Sequence[dict[str, Any]] | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """Return a report of queries q0, q1, … with those scores, and of `whole`, values of metrics that score no query.

    `rows` are the queries in place of those; `changes` are other facts, `config`, `name` and `criteria`.
    """
    count = max((len(values) for values in scores.values()), default=0)
    made = [row(f"q{n}", {name: values[n] for name, values in scores.items()}) for n in range(count)]
    queries = list(rows) if rows is not None else made
    top = {key: changes.pop(key) for key in ("config", "name", "criteria") if key in changes}
    values = {name: metric(_mean(column), name) for name, column in scores.items()}
    values |= {name: metric(value, name) for name, value in (whole or {}).items()}
    passed = sum(query["outcome"] == "SUCCESS" for query in queries)
    rate = metric(passed / len(queries) if queries else None, "queries/pass_rate")
    return by_column({
        "schema_version": 2,
        "name": "by hand",
        "passed": True,
        "facts": FACTS.model_dump(mode="json") | {"in_scope": len(queries), "out_of_scope": 0} | changes,
        "config": {"retriever": {"mode": "semantic", "top_k": 3}},
        "metrics": values | {"queries/pass_rate": rate},
        "criteria": [],
        "notes": [],
        "queries": queries,
    } | top)  # fmt: skip


def by_column(made: dict[str, Any]) -> dict[str, Any]:
    """Return a report whose rows hold scores, and whose hits hold their chunks, as a report holds them."""
    rows, chunks = [dict(one) for one in made["queries"]], {}
    names = dict.fromkeys(name for one in rows for name in one["scores"])
    proxied = dict.fromkeys(name for one in rows for name in one.get("proxies", {}))
    columns = {name: [one["scores"].get(name) for one in rows] for name in names}
    proxies = {name: [one.get("proxies", {}).get(name) for one in rows] for name in proxied}
    for one in rows:
        one.pop("scores"), one.pop("proxies", None)
        for kind in ("retrieved", "best_below_threshold"):
            one[kind] = [dict(each) for each in one.get(kind, [])]
            for each in one[kind]:
                about = {name: each.pop(name, "") for name in ("source", "breadcrumb", "heading", "preview")}
                chunks[each["chunk_id"]] = {"text": about.pop("preview"), **about}
    return made | {"queries": rows, "scores": columns, "proxies": proxies, "chunks": chunks}


def report(*arguments: Any, **changes: Any) -> Report:
    return parse(json.dumps(document(*arguments, **changes)), "by hand")


def _score(value: Score) -> Any:
    return {value: "because"} if isinstance(value, str) else value


def _mean(values: Sequence[Score]) -> float | None:
    numbers = [value for value in values if isinstance(value, float | int)]
    return sum(numbers) / len(numbers) if numbers else None


def closed(schema: dict[str, Any]) -> Any:
    """Return the schema whose objects have no further properties."""
    shut = {"additionalProperties": False}
    return json.loads(json.dumps(schema), object_hook=lambda node: node | shut if "properties" in node else node)

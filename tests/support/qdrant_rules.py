"""What a real Qdrant refuses, in its recorded words: keys, strict mode, the rate limit."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support import clock
from tests.support.loopback import Reply, Request

RECORDED = Path(__file__).parent / "qdrant_1_18_3"
"""Recorded answers of Qdrant 1.18.3."""
READING = re.compile(r"(/points(/query|/query/batch|/scroll|/count)?$)")


def recorded(name: str) -> Any:
    """Return the server's answer, with lists of numbers cut."""
    return json.loads((RECORDED / f"{name}.json").read_text())


def reply(name: str, **numbers: object) -> Reply:
    """Return a recorded refusal, `{old}` in its words replaced by the numbers of the case at hand."""
    record = recorded(name)
    answer, headers = record["answer"], {k: v for k, v in record["headers"].items() if k == "retry-after"}
    if isinstance(answer, str):
        return Reply(status=record["status"], body=answer.encode(), content_type="text/plain", headers=headers)
    said = answer["status"]["error"]
    for old, new in numbers.items():
        said = said.replace(old.removeprefix("_"), str(new))
    return Reply.json({**answer, "status": {"error": said}}, record["status"], **headers)


@dataclass(kw_only=True)
class Rules:
    """Limits of the server.

    Attributes:
        api_key: Requests without this key are refused; None: no key is needed.
        read_only: True if the key may not write.
        scope: The only collection that the key is for; None: all.
        strict: The collections' strict mode; None: off.
        indexed: Payload keys that have an index, with its type.
    """

    api_key: str | None = None
    read_only: bool = False
    scope: str | None = None
    strict: Mapping[str, Any] | None = None
    indexed: dict[str, str] = field(default_factory=dict)
    _tokens: float = math.inf
    _filled: float = 0.0

    def refusal(self, request: Request, name: str, reads: bool) -> Reply | None:
        """Return the refusal of a request about a collection; None where it is allowed."""
        key = request.headers.get("api-key")
        if self.api_key and key != self.api_key:
            return reply("auth-none" if key is None else "auth-wrong")
        if self.scope and name not in ("", self.scope):
            return reply("auth-scoped-other", my_documents=name)
        if (self.read_only or self.scope) and not reads:
            return reply("auth-read-only-write")
        if self.strict is None or not name or not request.body:
            return None
        return self._against_strict_mode(request.path, request.body) or self._too_fast(request.path, request.body)

    def _against_strict_mode(self, path: str, body: Mapping[str, Any]) -> Reply | None:
        limits: Mapping[str, Any] = self.strict or {}
        searches = body.get("searches", [body])
        if len(searches) > limits.get("search_max_batchsize", math.inf):
            return reply("strict-batch", _32=len(searches), _16=limits["search_max_batchsize"])
        points = body.get("points", [])
        if (
            path.endswith("/points")
            and len(points) > limits.get("upsert_max_batchsize", math.inf)
            and "ids" not in body
        ):
            return reply("strict-upsert-batch", _100=len(points), _64=limits["upsert_max_batchsize"])
        asked = searches if READING.search(path) and "ids" not in body and "points" not in body else ()
        return next((refused for search in asked if (refused := self._search(search, limits))), None)

    def _search(self, search: Mapping[str, Any], limits: Mapping[str, Any]) -> Reply | None:
        limit = 0 if "exact" in search else search.get("limit") or 10  # a count has none
        if limit > limits.get("max_query_limit", math.inf):
            return reply("strict-limit", _500=limit, _100=limits["max_query_limit"])
        exact = (search.get("params") or {}).get("exact") or search.get("exact")
        if exact and limits.get("search_allow_exact") is False:
            return _said("Bad request: Exact search disabled! Help: Set exact=false.")
        if _largest(search.get("filter")) > limits.get("condition_max_size", math.inf):
            return _said("Bad request: Condition size limit reached")
        return self._unindexed(search.get("filter"))

    def _unindexed(self, condition: Any) -> Reply | None:
        if (self.strict or {}).get("unindexed_filtering_retrieve") is not False:
            return None
        for key, kinds in _keys(condition):
            if self.indexed.get(key) not in kinds:
                names = {"metadata.start_line": key, "float, integer": ", ".join(kinds)}
                return reply("strict-unindexed-filter", **names)
        return None

    def _too_fast(self, path: str, body: Mapping[str, Any]) -> Reply | None:
        """Return a bucket of a minute's queries that fills steadily; each query of a batch takes one."""
        limit = (self.strict or {}).get("read_rate_limit")
        if limit is None or not READING.search(path):
            return None
        cost, now = len(body.get("searches", [body])), clock.now()
        if cost > limit:
            return reply("rate-limited-batch")
        self._tokens = min(limit, self._tokens + (now - self._filled) * limit / 60)
        self._filled = now
        if self._tokens >= cost:
            self._tokens -= cost
            return None
        wait = math.ceil((cost - self._tokens) * 60 / limit)
        refused = reply("rate-limited", _6s=f"{wait}s")
        return Reply(status=429, body=refused.body, headers={"Retry-After": str(wait)})


def _said(text: str) -> Reply:
    return Reply.json({"status": {"error": text}}, 400)


def _keys(condition: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the payload keys of a filter, each with the types of index that serve it."""
    if isinstance(condition, list):
        for part in condition:
            yield from _keys(part)
    elif isinstance(condition, Mapping):
        if "key" in condition:
            value = (condition.get("match") or {}).get("value")
            by_range = condition.get("range") is not None
            yield (
                condition["key"],
                ("float", "integer") if by_range else ("bool",) if value in (True, False) else ("keyword",),
            )
        for part in condition.values():
            yield from _keys(part)


def _largest(condition: Any) -> int:
    """Return the most values that a condition of a filter holds."""
    if isinstance(condition, list):
        return max(map(_largest, condition), default=0)
    if not isinstance(condition, Mapping):
        return 0
    held = len((condition.get("match") or {}).get("any") or condition.get("has_id") or ())
    return max(held, *map(_largest, condition.values()))

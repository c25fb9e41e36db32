"""Qdrant's REST calls on the loopback, answered by an in-memory `QdrantClient`, with faults and refusals on demand.

Only the network is doubled: the client under test is the real one, and so is the engine behind this server. What it
refuses, it says in the words that a real Qdrant 1.18.3 was recorded with.
"""

import json
import math
import re
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from tests.support.collections import widen
from tests.support.loopback import LoopbackServer, Reply, Request

# What it refuses: keys, strict mode

RECORDED = Path(__file__).parent / "qdrant_1_18_3"
"""Recorded answers of Qdrant 1.18.3."""
READING = re.compile(r"(/points(/query|/query/batch|/scroll|/count)?$)")


def recorded(name: str) -> Any:
    return json.loads((RECORDED / f"{name}.json").read_text())


def reply(name: str, **numbers: object) -> Reply:
    """Return a recorded answer; in the words of a refusal `old` becomes the number of the case at hand."""
    record = recorded(name)
    answer, headers = record["answer"], {k: v for k, v in record["headers"].items() if k == "retry-after"}
    if isinstance(answer, str):
        return Reply(status=record["status"], body=answer.encode(), content_type="text/plain", headers=headers)
    for old, new in numbers.items():
        said = answer["status"]["error"].replace(old.removeprefix("_"), str(new))
        answer = {**answer, "status": {"error": said}}
    return Reply.json(answer, record["status"], **headers)


@dataclass(kw_only=True)
class Rules:
    """What the server needs or has: a key, one that may not write or is for one collection alone, the collections'
    strict mode, payload keys that have an index with its type.
    """

    api_key: str | None = None
    read_only: bool = False
    scope: str | None = None
    strict: Mapping[str, Any] | None = None
    indexed: dict[str, str] = field(default_factory=dict)

    def refusal(self, request: Request, name: str, reads: bool) -> Reply | None:
        key = request.headers.get("api-key")
        if self.api_key and key != self.api_key:
            return reply("auth-none" if key is None else "auth-wrong")
        if self.scope and name not in ("", self.scope):
            return reply("auth-scoped-other", my_documents=name)
        if (self.read_only or self.scope) and not reads:
            return reply("auth-read-only-write")
        if self.strict is None or not name or not request.body:
            return None
        return self._against_strict_mode(request.path, request.body)

    def _against_strict_mode(self, path: str, body: Mapping[str, Any]) -> Reply | None:
        limits: Mapping[str, Any] = self.strict or {}
        searches = body.get("searches", [body])
        if len(searches) > limits.get("search_max_batchsize", math.inf):
            return reply("strict-batch", _32=len(searches), _16=limits["search_max_batchsize"])
        if "ids" in body:
            return None
        points = body.get("points", [])
        if path.endswith("/points") and len(points) > limits.get("upsert_max_batchsize", math.inf):
            return reply("strict-upsert-batch", _100=len(points), _64=limits["upsert_max_batchsize"])
        asked = searches if READING.search(path) and "points" not in body else ()
        return next((refused for search in asked if (refused := self._search(search, limits))), None)

    def _search(self, search: Mapping[str, Any], limits: Mapping[str, Any]) -> Reply | None:
        limit = 0 if "exact" in search else search.get("limit") or 10  # a count has none
        if limit > limits.get("max_query_limit", math.inf):
            return reply("strict-limit", _500=limit, _100=limits["max_query_limit"])
        for key, kinds in _keys(search.get("filter")) if limits.get("unindexed_filtering_retrieve") is False else ():
            if self.indexed.get(key) not in kinds:
                names = {"metadata.start_line": key, "float, integer": ", ".join(kinds)}
                return reply("strict-unindexed-filter", **names)
        return None


def _keys(condition: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the payload keys of a filter, each with the types of index that serve it."""
    if isinstance(condition, list):
        for part in condition:
            yield from _keys(part)
    elif isinstance(condition, Mapping):
        if "key" in condition:
            value = (condition.get("match") or {}).get("value")
            by_range = condition.get("range") is not None
            kinds = ("float", "integer") if by_range else ("bool",) if value in (True, False) else ("keyword",)
            yield condition["key"], kinds
        for part in condition.values():
            yield from _keys(part)


# The server

KEY = "qdrant-SECRET-0123456789"
REQUESTS: Mapping[str, type[BaseModel]] = {
    "PUT ": models.CreateCollection,
    "PATCH ": models.UpdateCollection,
    "PUT points": models.PointsList,
    "POST points": models.PointRequest,
    "POST points/delete": models.PointIdsList,
    "POST points/scroll": models.ScrollRequest,
    "POST points/query": models.QueryRequest,
    "POST points/query/batch": models.QueryRequestBatch,
    "POST points/count": models.CountRequest,
}


class QdrantServer(LoopbackServer):
    """A Qdrant server with what it refuses, and other names of its collections."""

    def __init__(self, *, api_key: str | None = None, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls)
        self.rules = Rules(api_key=api_key)
        self.aliases: dict[str, str] = {}
        self.keeps_metadata = True
        """As servers do from 1.16 on."""
        self.client = QdrantClient(":memory:")

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        self.client.close()

    def answer(self, request: Request) -> Reply:
        _, root, *rest = request.path.split("/")
        name, _, action = "/".join(rest).partition("/")
        reads = request.method == "GET" or action.startswith(("points/query", "points/scroll", "points/count"))
        reads = reads or (request.method, action) == ("POST", "points")
        with self._lock:
            if refused := self.rules.refusal(request, name, reads):
                return refused
            if root in ("", "aliases"):
                return self._about_the_server(root)
            if root != "collections":
                return super().answer(request)
            name = self.aliases.get(name, name)
            return self._answer(f"{request.method} {action}" if name else "LIST", name, request.body or {})

    def _about_the_server(self, root: str) -> Reply:
        if not root:
            return Reply.json(recorded("root")["answer"])
        known = {name: to for name, to in self.aliases.items() if self.rules.scope in (None, to)}
        listed = [{"alias_name": name, "collection_name": to} for name, to in known.items()]
        return Reply.json({"result": {"aliases": listed}, "status": "ok", "time": 0.0})

    def _answer(self, action: str, name: str, body: Mapping[str, Any]) -> Reply:
        client = self.client
        if action not in ("LIST", "PUT ", "GET exists") and not client.collection_exists(name):
            return reply("info-missing", nope=name)
        wanted: Any = REQUESTS[action].model_validate(body) if action in REQUESTS else None
        actions: Mapping[str, Callable[[], Any]] = {
            "LIST": lambda: {"collections": [{"name": c} for c in self._listed()]},
            "GET exists": lambda: {"exists": client.collection_exists(name)},
            "GET ": lambda: self._info(name),
            "PUT ": lambda: client.create_collection(
                name, wanted.vectors, wanted.sparse_vectors, metadata=self._kept(wanted)
            ),
            "PATCH ": lambda: self._update(name, wanted),
            "PUT index": lambda: self._index(**body),
            "DELETE ": lambda: client.delete_collection(name),
            "PUT points": lambda: client.upsert(name, wanted.points),
            "POST points/delete": lambda: client.delete(name, wanted.points),
            "POST points/scroll": lambda: self._scroll(name, wanted),
            "POST points/query": lambda: self._query(name, wanted),
            "POST points/query/batch": lambda: [self._query(name, search) for search in wanted.searches],
            "POST points": lambda: client.retrieve(
                name, wanted.ids, wanted.with_payload or False, wanted.with_vector or False
            ),
            "POST points/count": lambda: client.count(name, wanted.filter, exact=wanted.exact is not False),
        }
        try:
            result = plain(actions[action]())
        except (ValueError, UnexpectedResponse) as error:
            return Reply.json({"status": {"error": str(error)}, "time": 0.0}, 400)
        if action == "PUT points":
            widen(client, name)
        return Reply.json({"result": result, "status": "ok", "time": 0.0})

    def _listed(self) -> list[str]:
        return [c.name for c in self.client.get_collections().collections if self.rules.scope in (None, c.name)]

    def _kept(self, wanted: models.CreateCollection | models.UpdateCollection) -> Any:
        return wanted.metadata if self.keeps_metadata else None

    def _info(self, name: str) -> Any:
        known = plain(self.client.get_collection(name))
        schema = {key: {"data_type": kind, "points": 0} for key, kind in self.rules.indexed.items()}
        strict = {"strict_mode_config": {"enabled": True, **self.rules.strict}} if self.rules.strict else {}
        return {**known, "config": {**known["config"], **strict}, "payload_schema": schema}

    def _index(self, field_name: str, field_schema: str) -> Any:
        self.rules.indexed[field_name] = field_schema
        return {"operation_id": 0, "status": "completed"}

    def _update(self, name: str, wanted: models.UpdateCollection) -> bool:
        if strict := wanted.strict_mode_config:
            self.rules.strict = strict.model_dump(mode="json", exclude_none=True) if strict.enabled else None
            return True
        return self.client.update_collection(name, metadata=self._kept(wanted))

    def _scroll(self, name: str, wanted: models.ScrollRequest) -> Any:
        points, offset = self.client.scroll(name, wanted.filter, **_page(wanted, payload=True))
        return {"points": plain(points), "next_page_offset": offset}

    def _query(self, name: str, wanted: models.QueryRequest) -> Any:
        asked = wanted.query.nearest if isinstance(wanted.query, models.NearestQuery) else wanted.query
        found = self.client.query_points(
            name, asked, using=wanted.using, query_filter=wanted.filter, **_page(wanted, payload=False)
        )
        return {"points": [{**plain(point), "score": float(np.float32(point.score))} for point in found.points]}


def _page(wanted: models.ScrollRequest | models.QueryRequest, *, payload: bool) -> dict[str, Any]:
    shown = {"with_payload": payload if wanted.with_payload is None else wanted.with_payload}
    return {"limit": wanted.limit or 10, "offset": wanted.offset, "with_vectors": wanted.with_vector or False, **shown}


def plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return [plain(item) for item in value] if isinstance(value, list) else value


# One that answers from recordings alone


class RecordedServer(LoopbackServer):
    """A server with one collection of any name: a recording with some properties changed, and its first points."""

    def __init__(self, info: str, points: Sequence[Mapping[str, Any]], changed: Mapping[str, Any]) -> None:
        super().__init__()
        self._info = merged(recorded(info)["answer"]["result"], changed)
        self._points = points

    def answer(self, request: Request) -> Reply:
        _, root, *rest = request.path.split("/")
        action = "/".join(rest[1:])
        if root != "collections" or action == "cluster":
            names = {"": "root", "aliases": "auth-scoped-aliases", "collections": "cluster-shards"}
            return reply(names.get(root, root))
        results: Mapping[str, Any] = {
            "": self._info,
            "exists": {"exists": True},
            "points/count": {"count": self._info["points_count"]},
            "points": self._points,
            "points/query": {"points": [{"id": point["id"], "version": 0, "score": 0.0} for point in self._points]},
            "points/scroll": {"points": self._points, "next_page_offset": None},
        }
        return Reply.json({"result": results[action], "status": "ok", "time": 0.0})


def merged(known: Any, changed: Any) -> Any:
    if not (isinstance(known, dict) and isinstance(changed, Mapping)):
        return changed
    return {**known, **{key: merged(known.get(key), value) for key, value in changed.items()}}

"""Qdrant's REST calls on the loopback, answered by an in-memory `QdrantClient`, with faults on demand.

Only the network is doubled: the client under test is the real one, and so is the engine behind this server.
"""

import ssl
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from pydantic import BaseModel
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from retrievers.embedding.bm25 import Bm25Encoder
from tests.support.collections import widen
from tests.support.loopback import Fault, LoopbackServer, Reply, Request
from tests.support.qdrant_rules import Rules, recorded, reply

KEY = "qdrant-SECRET-0123456789"
Action = Callable[[str, Mapping[str, Any]], Any]


class QdrantServer(LoopbackServer):
    """A Qdrant server.

    Args:
        api_key: Requests without this key are refused; None: no key is needed.
        keeps_metadata: True if collections keep their metadata, as servers do from 1.16 on.
        tls: Speak TLS, with the certificate of this context.

    Attributes:
        rules: What it refuses.
        aliases: Other names of collections.
        config: What the configuration of every collection says beside its vectors, as recorded.
        indexed_vectors: The number of indexed vectors that every collection tells.
    """

    def __init__(
        self, *, api_key: str | None = None, keeps_metadata: bool = True, tls: ssl.SSLContext | None = None
    ) -> None:
        super().__init__(tls)
        self.rules = Rules(api_key=api_key)
        self.aliases: dict[str, str] = {}
        self.config: dict[str, Any] = {}
        self.indexed_vectors = 0
        self._shards: dict[str, int] = {}
        self.keeps_metadata = keeps_metadata
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
            if name == "aliases":
                return self._rename(request.body["actions"])
            if root in ("", "aliases"):
                return self._about_the_server(root)
            if root != "collections":
                return failure(404)
            name = self.aliases.get(name, name)
            return self._answer(f"{request.method} {action}" if name else "LIST", name, request.body or {})

    def _about_the_server(self, root: str) -> Reply:
        if not root:
            return Reply.json(recorded("root")["answer"])
        known = {name: to for name, to in self.aliases.items() if self.rules.scope in (None, to)}
        listed = [{"alias_name": name, "collection_name": to} for name, to in known.items()]
        return Reply.json({"result": {"aliases": listed}, "status": "ok", "time": 0.0})

    def _rename(self, actions: Any) -> Reply:
        for action in actions:
            for change in (action.get("create_alias"), action.get("delete_alias")):
                if change and "collection_name" in change:
                    self.aliases[change["alias_name"]] = change["collection_name"]
                elif change:
                    del self.aliases[change["alias_name"]]
        return Reply.json({"result": True, "status": "ok", "time": 0.0})

    def _answer(self, action: str, name: str, body: Mapping[str, Any]) -> Reply:
        client = self.client
        if action not in ("LIST", "PUT ", "GET exists") and not client.collection_exists(name):
            return reply("info-missing", nope=name)
        actions: Mapping[str, Action] = {
            "LIST": lambda _, __: {"collections": [{"name": c} for c in self._listed()]},
            "GET exists": lambda name, _: {"exists": client.collection_exists(name)},
            "GET ": self._info,
            "PUT ": self._create,
            "PATCH ": self._update,
            "DELETE ": lambda name, _: client.delete_collection(name),
            "PUT points": self._upsert,
            "PUT points/payload": self._overwrite_payload,
            "POST points/delete": self._delete,
            "POST points/scroll": self._scroll,
            "POST points/query": self._query,
            "POST points/query/batch": self._query_batch,
            "POST points": self._retrieve,
            "POST points/count": self._count,
            "PUT index": self._index,
        }
        if action not in actions:
            return failure(404)
        try:
            return Reply.json({"result": plain(actions[action](name, body)), "status": "ok", "time": 0.0})
        except (ValueError, UnexpectedResponse) as error:
            return Reply.json({"status": {"error": str(error)}, "time": 0.0}, 400)

    def _listed(self) -> list[str]:
        return [c.name for c in self.client.get_collections().collections if self.rules.scope in (None, c.name)]

    def _info(self, name: str, _: Mapping[str, Any]) -> Any:
        known = plain(self.client.get_collection(name))
        schema = {key: {"data_type": kind, "points": 0} for key, kind in self.rules.indexed.items()}
        strict = {"strict_mode_config": {"enabled": True, **self.rules.strict}} if self.rules.strict else {}
        shards = {"shard_number": self._shards.get(name, 1)}
        params = {**known["config"]["params"], **shards, **self.config.get("params", {})}
        config = {**known["config"], **self.config, **strict, "params": params}
        indexed = {"indexed_vectors_count": self.indexed_vectors}
        return {**known, **indexed, "config": config, "payload_schema": schema}

    def _index(self, _: str, body: Mapping[str, Any]) -> Any:
        self.rules.indexed[body["field_name"]] = body["field_schema"]
        return {"operation_id": 0, "status": "completed"}

    def _create(self, name: str, body: Mapping[str, Any]) -> bool:
        wanted = models.CreateCollection.model_validate(body)
        self._shards[name] = wanted.shard_number or 1
        return self.client.create_collection(
            name,
            vectors_config=wanted.vectors,
            sparse_vectors_config=wanted.sparse_vectors,
            metadata=wanted.metadata if self.keeps_metadata else None,
        )

    def _update(self, name: str, body: Mapping[str, Any]) -> bool:
        wanted = models.UpdateCollection.model_validate(body)
        if wanted.strict_mode_config:
            on = wanted.strict_mode_config.enabled
            self.rules.strict = plain(wanted.strict_mode_config, exclude_none=True) if on else None
            return True
        return self.client.update_collection(name, metadata=wanted.metadata if self.keeps_metadata else None)

    def _upsert(self, name: str, body: Mapping[str, Any]) -> Any:
        points: Any = models.PointsList.model_validate(body).points
        done = self.client.upsert(name, points)
        widen(self.client, name)
        return done

    def _overwrite_payload(self, name: str, body: Mapping[str, Any]) -> Any:
        wanted = models.SetPayload.model_validate(body)
        return self.client.overwrite_payload(name, wanted.payload, points=wanted.points or [])

    def _delete(self, name: str, body: Mapping[str, Any]) -> Any:
        return self.client.delete(name, models.PointIdsList.model_validate(body).points)

    def _scroll(self, name: str, body: Mapping[str, Any]) -> Any:
        wanted = models.ScrollRequest.model_validate(body)
        points, offset = self.client.scroll(
            name,
            wanted.filter,
            limit=wanted.limit or 10,
            offset=wanted.offset,
            with_payload=wanted.with_payload if wanted.with_payload is not None else True,
            with_vectors=wanted.with_vector or False,
        )
        return {"points": plain(points), "next_page_offset": offset}

    def _query_batch(self, name: str, body: Mapping[str, Any]) -> Any:
        return [self._query(name, search) for search in body["searches"]]

    def _retrieve(self, name: str, body: Mapping[str, Any]) -> Any:
        wanted = models.PointRequest.model_validate(body)
        vectors = wanted.with_vector or False
        return self.client.retrieve(name, wanted.ids, with_payload=wanted.with_payload or False, with_vectors=vectors)

    def _query(self, name: str, body: Mapping[str, Any]) -> Any:
        wanted = models.QueryRequest.model_validate(body)
        asked = wanted.query.nearest if isinstance(wanted.query, models.NearestQuery) else wanted.query
        if isinstance(asked, models.Document):
            wanted = wanted.model_copy(update={"query": _encoded(asked)})
        found = self.client.query_points(
            name,
            query=wanted.query,
            using=wanted.using,
            query_filter=wanted.filter,
            limit=wanted.limit or 10,
            offset=wanted.offset or 0,
            with_payload=wanted.with_payload or False,
            with_vectors=wanted.with_vector or False,
        )
        return {"points": [{**plain(point), "score": float(np.float32(point.score))} for point in found.points]}

    def _count(self, name: str, body: Mapping[str, Any]) -> Any:
        wanted = models.CountRequest.model_validate(body)
        return self.client.count(name, wanted.filter, exact=wanted.exact is not False)


def _encoded(document: models.Document) -> models.SparseVector:
    """Encode a text as the server does, whose weights are those of its engine; a repeated term of a query weighs 1."""
    assert document.model == "qdrant/bm25"
    language = dict(document.options or {}).get("language", "english")
    terms = Bm25Encoder(language).query(document.text).indices
    return models.SparseVector(indices=terms, values=[1.0] * len(terms))


def plain(value: Any, *, exclude_none: bool = False) -> Any:
    """Convert models to JSON values, at any depth."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=exclude_none)
    return [plain(item) for item in value] if isinstance(value, list) else value


def failure(status: int) -> Reply:
    """Return an error of the server or of something in front of it."""
    texts = {404: "no such path", 429: "Rate limit", 500: "panicked"}
    return Reply.json({"status": {"error": texts[status]}, "time": 0.0}, status)


FAULTS = MappingProxyType(
    {
        "401": Fault(reply=reply("auth-wrong")),
        "403": Fault(reply=reply("auth-scoped-other")),
        "404": Fault(reply=failure(404)),
        "429": Fault(reply=failure(429)),
        "429 with Retry-After": Fault(reply=replace(reply("rate-limited"), headers={"Retry-After": "7"})),
        "500": Fault(reply=failure(500)),
        "503": Fault(reply=Reply.html("<html>503 Service Unavailable</html>", 503)),
        "reset": Fault(reset=True),
        "torn": Fault(torn=True),
        "502 HTML": Fault(reply=Reply.html("<html>502 Bad Gateway</html>", 502)),
        "200 HTML": Fault(reply=Reply.html("<html>a proxy's greeting</html>", 200)),
        "200 truncated": Fault(reply=Reply(body=b'{"result": {"points": [')),
        "200 other": Fault(reply=Reply.json({"hello": "world"})),
        "slow": Fault(slow=True),
    }
)

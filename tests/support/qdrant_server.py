"""Qdrant's REST calls on the loopback, answered by an in-memory `QdrantClient`, with faults on demand.

Only the network is doubled: the client under test is the real one, and so is the engine behind this server.
"""

import ssl
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from pydantic import BaseModel
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from tests.support.collections import widen
from tests.support.loopback import Fault, LoopbackServer, Reply, Request

KEY = "qdrant-SECRET-0123456789"
Action = Callable[[str, Mapping[str, Any]], Any]


class QdrantServer(LoopbackServer):
    """A Qdrant server.

    Args:
        api_key: Requests without this key are refused; None: no key is needed.
        keeps_metadata: Whether collections keep their metadata, as servers do from 1.16 on.
        tls: Speak TLS, with the certificate of this context.
    """

    def __init__(
        self, *, api_key: str | None = None, keeps_metadata: bool = True, tls: ssl.SSLContext | None = None
    ) -> None:
        super().__init__(tls)
        self.api_key = api_key
        self.keeps_metadata = keeps_metadata
        self.client = QdrantClient(":memory:")

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        self.client.close()

    def answer(self, request: Request) -> Reply:
        if self.api_key and request.headers.get("api-key") != self.api_key:
            return refused(401 if "api-key" not in request.headers else 403)
        _, root, *rest = request.path.split("/")
        name, _, action = "/".join(rest).partition("/")
        if root != "collections":
            return refused(404)
        with self._lock:
            return self._answer(f"{request.method} {action}" if name else "LIST", name, request.body or {})

    def _answer(self, action: str, name: str, body: Mapping[str, Any]) -> Reply:
        client = self.client
        if action not in ("LIST", "PUT ", "GET exists") and not client.collection_exists(name):
            return Reply.json({"status": {"error": f"Not found: Collection `{name}` doesn't exist!"}, "time": 0}, 404)
        actions: Mapping[str, Action] = {
            "LIST": lambda _, __: client.get_collections(),
            "GET exists": lambda name, _: {"exists": client.collection_exists(name)},
            "GET ": lambda name, _: client.get_collection(name),
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
            "PUT index": lambda name, _: {"operation_id": 0, "status": "completed"},  # it filters without one
        }
        if action not in actions:
            return refused(404)
        try:
            return Reply.json({"result": plain(actions[action](name, body)), "status": "ok", "time": 0.0})
        except (ValueError, UnexpectedResponse) as error:
            return Reply.json({"status": {"error": str(error)}, "time": 0.0}, 400)

    def _create(self, name: str, body: Mapping[str, Any]) -> bool:
        wanted = models.CreateCollection.model_validate(body)
        return self.client.create_collection(
            name,
            vectors_config=wanted.vectors,
            sparse_vectors_config=wanted.sparse_vectors,
            metadata=wanted.metadata if self.keeps_metadata else None,
        )

    def _update(self, name: str, body: Mapping[str, Any]) -> bool:
        wanted = models.UpdateCollection.model_validate(body)
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
        found = self.client.query_points(
            name,
            query=wanted.query,
            using=wanted.using,
            query_filter=wanted.filter,
            limit=wanted.limit or 10,
            with_payload=wanted.with_payload or False,
            with_vectors=wanted.with_vector or False,
        )
        return {"points": [{**plain(point), "score": float(np.float32(point.score))} for point in found.points]}

    def _count(self, name: str, body: Mapping[str, Any]) -> Any:
        wanted = models.CountRequest.model_validate(body)
        return self.client.count(name, wanted.filter, exact=wanted.exact is not False)


def plain(value: Any) -> Any:
    """Models to JSON values, as deep as they go."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return [plain(item) for item in value] if isinstance(value, list) else value


def refused(status: int) -> Reply:
    """An error with a status, as Qdrant words it."""
    texts = {401: "Must provide an API key", 403: "Forbidden", 404: "no such path", 429: "Rate limit", 500: "panicked"}
    return Reply.json({"status": {"error": texts[status]}, "time": 0.0}, status)


FAULTS = MappingProxyType(
    {
        "401": Fault(reply=refused(401)),
        "403": Fault(reply=refused(403)),
        "404": Fault(reply=refused(404)),
        "429": Fault(reply=refused(429)),
        "429 with Retry-After": Fault(
            reply=Reply.json({"status": {"error": "Rate limit"}, "time": 0.0}, 429, **{"Retry-After": "7"})
        ),
        "500": Fault(reply=refused(500)),
        "reset": Fault(reset=True),
        "torn": Fault(torn=True),
        "502 HTML": Fault(reply=Reply.html("<html>502 Bad Gateway</html>", 502)),
        "200 HTML": Fault(reply=Reply.html("<html>a proxy's greeting</html>", 200)),
        "200 truncated": Fault(reply=Reply(body=b'{"result": {"points": [')),
        "200 other": Fault(reply=Reply.json({"hello": "world"})),
        "slow": Fault(slow=True),
    }
)

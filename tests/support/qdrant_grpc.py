"""Qdrant's gRPC calls on the loopback: each is put to a `QdrantServer` as the REST request that it stands for.

So both have the same faults, rules, collections and record of requests.
"""

import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn, Self

import grpc
import qdrant_client.grpc as messages
from pydantic import BaseModel
from qdrant_client import models
from qdrant_client.conversions.conversion import GrpcToRest, RestToGrpc, payload_to_grpc

from tests.support.loopback import Reply, Request
from tests.support.qdrant_server import QdrantServer

CODES: Mapping[int, grpc.StatusCode] = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    500: grpc.StatusCode.INTERNAL,
    503: grpc.StatusCode.UNAVAILABLE,
}


class GrpcFront:
    """The gRPC port of a server; a context manager.

    Args:
        server: What answers.
        credentials: Speak TLS with these.
        port: Where to listen; a free port when left out.
    """

    def __init__(self, server: QdrantServer, credentials: grpc.ServerCredentials | None = None, port: int = 0) -> None:
        self._grpc = grpc.server(ThreadPoolExecutor(4))
        add_to: Any = messages
        add_to.add_PointsServicer_to_server(_Points(server), self._grpc)
        add_to.add_CollectionsServicer_to_server(_Collections(server), self._grpc)
        add_to.add_QdrantServicer_to_server(_Root(server), self._grpc)
        place = f"127.0.0.1:{port}"
        add = self._grpc.add_insecure_port
        self.port: int = self._grpc.add_secure_port(place, credentials) if credentials else add(place)

    def __enter__(self) -> Self:
        self._grpc.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._grpc.stop(0).wait()


class _Servicer:
    def __init__(self, server: QdrantServer) -> None:
        self._server = server

    def ask(self, context: grpc.ServicerContext, method: str, path: str, body: Any = None) -> Any:
        """Return the `result` of the REST request that a call stands for."""
        headers = {str(key): str(value) for key, value in context.invocation_metadata()}
        plain = json.loads(body.model_dump_json(exclude_none=True)) if isinstance(body, BaseModel) else body
        reply = self._server.handle(Request(method=method, path=path, headers=headers, body=plain))
        if reply.status != 200 or reply.sent < 1:
            _abort(context, reply)
        answer = json.loads(reply.body)
        return answer.get("result", answer)


def _abort(context: grpc.ServicerContext, reply: Reply) -> NoReturn:
    headers = {key.lower(): value for key, value in reply.headers.items()}
    if "retry-after" in headers:
        context.set_trailing_metadata((("retry-after", headers["retry-after"]),))
    try:
        said = json.loads(reply.body)["status"]["error"]
    except (ValueError, KeyError):
        said = reply.body.decode()
    code = CODES[reply.status] if reply.sent == 1 else grpc.StatusCode.UNAVAILABLE
    context.abort(code, said if reply.sent == 1 else "Socket closed")
    raise AssertionError


class _Root(_Servicer, messages.QdrantServicer):
    def HealthCheck(self, request: Any, context: Any) -> Any:
        answer = self.ask(context, "GET", "/")
        return messages.HealthCheckReply(title=answer["title"], version=answer["version"], commit=answer["commit"])


class _Collections(_Servicer, messages.CollectionsServicer):
    def CollectionExists(self, request: Any, context: Any) -> Any:
        found = self.ask(context, "GET", f"/collections/{request.collection_name}/exists")
        return messages.CollectionExistsResponse(result=messages.CollectionExists(exists=found["exists"]))

    def List(self, request: Any, context: Any) -> Any:
        names = [one["name"] for one in self.ask(context, "GET", "/collections")["collections"]]
        listed = [messages.CollectionDescription(name=name) for name in names]
        return messages.ListCollectionsResponse(collections=listed)

    def ListAliases(self, request: Any, context: Any) -> Any:
        listed = [messages.AliasDescription(**one) for one in self.ask(context, "GET", "/aliases")["aliases"]]
        return messages.ListAliasesResponse(aliases=listed)

    def Get(self, request: Any, context: Any) -> Any:
        found = self.ask(context, "GET", f"/collections/{request.collection_name}")
        info = models.CollectionInfo.model_validate({**found, "payload_schema": found["payload_schema"]})
        return messages.GetCollectionInfoResponse(result=RestToGrpc.convert_collection_info(info))

    def Create(self, request: Any, context: Any) -> Any:
        sparse = {k: GrpcToRest.convert_sparse_vector_params(v) for k, v in request.sparse_vectors_config.map.items()}
        wanted = models.CreateCollection(
            vectors=GrpcToRest.convert_vectors_config(request.vectors_config),
            sparse_vectors=sparse,
            metadata=GrpcToRest.convert_payload(request.metadata),
        )
        return self._done(context, "PUT", request.collection_name, wanted)

    def Update(self, request: Any, context: Any) -> Any:
        wanted = models.UpdateCollection(metadata=GrpcToRest.convert_payload(request.metadata))
        return self._done(context, "PATCH", request.collection_name, wanted)

    def Delete(self, request: Any, context: Any) -> Any:
        return self._done(context, "DELETE", request.collection_name, None)

    def _done(self, context: Any, method: str, name: str, body: Any) -> Any:
        return messages.CollectionOperationResponse(
            result=bool(self.ask(context, method, f"/collections/{name}", body))
        )


class _Points(_Servicer, messages.PointsServicer):
    def Query(self, request: Any, context: Any) -> Any:
        found = self._of(context, request, "POST", "points/query", GrpcToRest.convert_query_points(request))
        return messages.QueryResponse(result=[_scored(point) for point in found["points"]])

    def QueryBatch(self, request: Any, context: Any) -> Any:
        searches = [GrpcToRest.convert_query_points(one) for one in request.query_points]
        batch = models.QueryRequestBatch(searches=searches)
        found = self._of(context, request, "POST", "points/query/batch", batch)
        results = [messages.BatchResult(result=[_scored(point) for point in one["points"]]) for one in found]
        return messages.QueryBatchResponse(result=results)

    def Scroll(self, request: Any, context: Any) -> Any:
        wanted = models.ScrollRequest(
            filter=_given(request, "filter", GrpcToRest.convert_filter),
            limit=request.limit,
            offset=_given(request, "offset", GrpcToRest.convert_point_id),
            with_payload=GrpcToRest.convert_with_payload_interface(request.with_payload),
            with_vector=_given(request, "with_vectors", GrpcToRest.convert_with_vectors_selector),
        )
        found = self._of(context, request, "POST", "points/scroll", wanted)
        after = found["next_page_offset"]
        offset = None if after is None else RestToGrpc.convert_extended_point_id(after)
        return messages.ScrollResponse(result=[_record(one) for one in found["points"]], next_page_offset=offset)

    def Get(self, request: Any, context: Any) -> Any:
        wanted = models.PointRequest(
            ids=list(map(GrpcToRest.convert_point_id, request.ids)),
            with_payload=GrpcToRest.convert_with_payload_interface(request.with_payload),
            with_vector=_given(request, "with_vectors", GrpcToRest.convert_with_vectors_selector),
        )
        return messages.GetResponse(
            result=[_record(one) for one in self._of(context, request, "POST", "points", wanted)]
        )

    def Count(self, request: Any, context: Any) -> Any:
        wanted = models.CountRequest(filter=_given(request, "filter", GrpcToRest.convert_filter), exact=request.exact)
        found = self._of(context, request, "POST", "points/count", wanted)
        return messages.CountResponse(result=messages.CountResult(count=found["count"]))

    def Upsert(self, request: Any, context: Any) -> Any:
        points = models.PointsList(points=list(map(GrpcToRest.convert_point_struct, request.points)))
        return self._written(context, request, "PUT", "points", points)

    def Delete(self, request: Any, context: Any) -> Any:
        selector = GrpcToRest.convert_points_selector(request.points)
        return self._written(context, request, "POST", "points/delete", selector)

    def OverwritePayload(self, request: Any, context: Any) -> Any:
        selector: Any = GrpcToRest.convert_points_selector(request.points_selector)
        payload = models.SetPayload(payload=GrpcToRest.convert_payload(request.payload), points=selector.points)
        return self._written(context, request, "PUT", "points/payload", payload)

    def CreateFieldIndex(self, request: Any, context: Any) -> Any:
        kind = messages.FieldType.Name(request.field_type).removeprefix("FieldType").lower()
        body = {"field_name": request.field_name, "field_schema": kind}
        return self._written(context, request, "PUT", "index", body)

    def _written(self, context: Any, request: Any, method: str, action: str, body: Any) -> Any:
        self._of(context, request, method, action, body)
        return messages.PointsOperationResponse(result=messages.UpdateResult(status=messages.UpdateStatus.Completed))

    def _of(self, context: Any, request: Any, method: str, action: str, body: Any) -> Any:
        return self.ask(context, method, f"/collections/{request.collection_name}/{action}", body)


def _given(request: Any, name: str, convert: Callable[[Any], Any]) -> Any:
    return convert(getattr(request, name)) if request.HasField(name) else None


def _scored(point: Mapping[str, Any]) -> Any:
    identity = RestToGrpc.convert_extended_point_id(point["id"])
    return messages.ScoredPoint(id=identity, payload=payload_to_grpc(point["payload"] or {}), score=point["score"])


def _record(point: Mapping[str, Any]) -> Any:
    vector = point.get("vector")
    return messages.RetrievedPoint(
        id=RestToGrpc.convert_extended_point_id(point["id"]),
        payload=payload_to_grpc(point["payload"] or {}),
        vectors=None if vector is None else RestToGrpc.convert_vector_struct_output(vector),
    )

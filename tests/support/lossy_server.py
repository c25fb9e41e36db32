"""A Qdrant server whose index misses some of the nearest points, unless a search is exact or its beam is wide."""

from collections.abc import Mapping
from typing import Any

from tests.support.qdrant_server import QdrantServer

ENOUGH = 64
"""The beam from which on nothing is missed."""


class LossyServer(QdrantServer):
    """Answers an approximate search for a dense vector without its second, fourth, … best point."""

    def __init__(self) -> None:
        super().__init__()
        self.indexed_vectors = 1_000

    def _query(self, name: str, body: Mapping[str, Any]) -> Any:
        params = body.get("params") or {}
        if params.get("exact") or body.get("using") or (params.get("hnsw_ef") or 0) >= ENOUGH:
            return super()._query(name, body)
        whole = super()._query(name, {**body, "limit": 2 * body["limit"]})
        return {"points": whole["points"][::2][: body["limit"]]}

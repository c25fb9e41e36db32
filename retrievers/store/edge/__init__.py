"""Qdrant Edge, the engine in this process, behind the methods of QdrantClient that the project uses."""

from retrievers.store.edge.client import EdgeClient

__all__ = ["EdgeClient"]

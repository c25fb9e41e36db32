"""Moved to `tests.support.cohere_server`."""

from tests.support.cohere_server import RERANK_FAULTS as FAULTS
from tests.support.cohere_server import RerankServer, relevance

__all__ = ["FAULTS", "RerankServer", "relevance"]

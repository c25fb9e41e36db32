"""Moved to `tests.support.openai_embedding_server`."""

from tests.support.openai_embedding_server import KEY, ProviderServer

__all__ = ["KEY", "ProviderServer"]

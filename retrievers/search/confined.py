"""A client that sees a part of a collection alone, such as one tenant's points: for it there is nothing else.

The condition is added where requests leave, so that no search, count, listing or sample can be without it. Only points
are hidden: the properties of the collection, and the term counts of its IDF, are those of the whole.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from retrievers.config import RetrieverConfig
from retrievers.errors import CollectionStateError, ConfigError
from retrievers.search.pushdown import compile_filters
from retrievers.store import CollectionInfo, store_errors
from retrievers.store.embedded import EmbeddedStore

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models


def confined(
    client: "QdrantClient", config: RetrieverConfig, info: CollectionInfo
) -> tuple["QdrantClient", CollectionInfo]:
    """Return a client of the configured part of a collection, and the properties of this part.

    Args:
        client: An open client, which is returned as it is where the settings name no part.
        config: Names the collection, and the condition `within`.
        info: Properties of the whole collection.

    Raises:
        ConfigError: The condition names a field that does not exist, or a value that nothing has.
        CollectionStateError: No point meets it.
        StoreError: The store failed.
    """
    if config.within is None:
        return client, info
    try:
        part = compile_filters(client, config.model_copy(update={"filters": config.within}), info)
    except ConfigError as error:
        raise ConfigError(str(error).replace("filters:", "within:")) from None
    assert part is not None
    kind = ConfinedEmbedded if isinstance(client, EmbeddedStore) else Confined
    own = cast("QdrantClient", kind(client, part))
    with store_errors(config.store, config.collection):
        points = own.count(config.collection, exact=info.limits.exact).count
    if not points:
        raise CollectionStateError(f"no point of collection {info.name!r} is within {config.within!r}")
    # What indexing recorded of its points is about the whole collection.
    manifest = {name: value for name, value in info.manifest.items() if name != "points"}
    return own, replace(info, points=points, manifest=manifest)


class Confined:
    """A client whose requests about points all carry a condition; the points that they found are read by their ids."""

    def __init__(self, client: Any, part: "models.Filter") -> None:
        self._client, self._part = client, part

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def query_points(self, collection_name: str, *, query_filter: Any = None, **options: Any) -> Any:
        """Search the part."""
        return self._client.query_points(collection_name, query_filter=self._both(query_filter), **options)

    def query_batch_points(
        self, collection_name: str, requests: "Sequence[models.QueryRequest]", **options: Any
    ) -> Any:
        """Search the part, several times."""
        return self._client.query_batch_points(collection_name, self._all(requests), **options)

    def scroll(self, collection_name: str, scroll_filter: Any = None, **options: Any) -> Any:
        """List points of the part."""
        return self._client.scroll(collection_name, self._both(scroll_filter), **options)

    def count(self, collection_name: str, count_filter: Any = None, **options: Any) -> Any:
        """Count points of the part."""
        return self._client.count(collection_name, self._both(count_filter), **options)

    def _all(self, requests: "Sequence[models.QueryRequest]") -> "list[models.QueryRequest]":
        return [request.model_copy(update={"filter": self._both(request.filter)}) for request in requests]

    def _both(self, other: Any) -> "models.Filter":
        from qdrant_client import models

        return self._part if other is None else models.Filter(must=[self._part, other])


class ConfinedEmbedded(Confined):
    """The same of an embedded store, with the methods that it has besides."""

    def nearest(self, collection_name: str, requests: "Sequence[models.QueryRequest]") -> Sequence[Sequence[Any]]:
        """Search the part."""
        points: Sequence[Sequence[Any]] = self._client.nearest(collection_name, self._all(requests))
        return points

    def stored(self, collection_name: str, ids: Sequence[Any], **options: Any) -> Sequence[Any]:
        """Read points by their ids."""
        points: Sequence[Any] = self._client.stored(collection_name, ids, **options)
        return points

    def generation(self, collection_name: str) -> str:
        """Return a word that changes whenever the collection does."""
        return str(self._client.generation(collection_name))

    def changing(self, collection_name: str) -> AbstractContextManager[None]:
        """Make all writes inside the block one change."""
        block: AbstractContextManager[None] = self._client.changing(collection_name)
        return block

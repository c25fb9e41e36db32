"""Methods that an embedded store has besides those of QdrantClient."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, runtime_checkable

if TYPE_CHECKING:
    from qdrant_client import models


@runtime_checkable
class EmbeddedStore(Protocol):
    """An embedded store, as searches, indexing and caches use it. A client of a server is none."""

    def nearest(self, collection_name: str, requests: "Sequence[models.QueryRequest]") -> Sequence[Sequence[Any]]:
        """Search as `query_batch_points` does, and return points as the engine gives them: at less cost."""

    def stored(
        self, collection_name: str, ids: Sequence[Any], *, with_payload: Any = False, with_vectors: Any = False
    ) -> Sequence[Any]:
        """Read as `retrieve` does, and return points as the engine gives them, each once and in any order."""

    def generation(self, collection_name: str) -> str:
        """Return a word that changes whenever the collection does."""

    def changing(self, collection_name: str) -> AbstractContextManager[None]:
        """Make all writes inside the block one change."""


def is_embedded(client: Any) -> TypeGuard[EmbeddedStore]:
    """Return True if a client is of an embedded store; each class is looked at once, since that takes 6 us."""
    kind = type(client)
    if kind not in _KINDS:
        _KINDS[kind] = issubclass(kind, EmbeddedStore)
    return _KINDS[kind]


_KINDS: dict[type[Any], bool] = {}

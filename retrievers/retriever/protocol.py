"""The interface by which an evaluation asks a retriever: ours (`QdrantRetriever`), or the user's own (`foreign`)."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, cast

from retrievers.config import RetrieverConfig
from retrievers.errors import RetrievalError, StoreError
from retrievers.records import Chunk, RetrievalSession
from retrievers.search.candidates import Candidates
from retrievers.search.selection import failed
from retrievers.store.chunks import records, scroll
from retrievers.store.collection import SAMPLE, CollectionInfo, read_info

if TYPE_CHECKING:
    from qdrant_client.models import Record


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The collection behind a retriever, whose chunks can be listed.

    Attributes:
        client: An open client.
        config: Names the collection and its payload.
        info: Properties of the collection when it was opened.
    """

    client: Any
    config: RetrieverConfig
    info: CollectionInfo


def read_listing(client: Any, config: RetrieverConfig) -> Listing:
    """Return the collection that the settings name.

    Raises:
        StoreError: It does not exist, is unfinished or cannot be read.
    """
    info = read_info(client, config)
    if info.manifest.get("state", "complete") != "complete":
        raise StoreError(f"collection {info.name!r} is unfinished; index it again (python -m retrievers index DIR)")
    return Listing(client=client, config=config, info=info)


@contextmanager
def closed_on_error(client: Any) -> Iterator[None]:
    """Close a client, unless it is None, if the block raises an error."""
    try:
        yield
    except BaseException:
        if client is not None:
            client.close()
        raise


class Retriever(ABC):
    """A retriever that can be evaluated. Sessions of failures and lists of chunks are the same for all retrievers.

    Attributes:
        by_text: Set it if texts with the same id are chunks of their own. It is read if chunks cannot be listed.
    """

    by_text: bool = False

    if TYPE_CHECKING:  # at run time they would be the defaults of a subclass's fields of these names

        @property
        def settings(self) -> RetrieverConfig:
            """The settings that it was opened with."""

        @property
        def label(self) -> str:
            """The class that retrieves."""

        @property
        def embedding_label(self) -> str | None:
            """The model that embeds; None if it is not known."""

        @property
        def notes(self) -> tuple[str, ...]:
            """Notes for the reader of its results."""

        @property
        def batch_size(self) -> int:
            """Number of queries of one batch."""

    @abstractmethod
    def with_settings(self, settings: RetrieverConfig) -> "Retriever":
        """Return the retriever with other settings, over the same open resources.

        Raises:
            RetrievalError: The settings do not fit the collection.
        """

    @abstractmethod
    def candidates(
        self, queries: Sequence[str], *, depth: int | None = None, use_cache: bool = True, chunks: Any = None
    ) -> Candidates:
        """Find candidates for each query before threshold and cut, to the candidate depth.

        Args:
            queries: Questions.
            depth: Another depth than the configured one.
            use_cache: Use query vectors that are kept in memory.
            chunks: The `chunks` of the candidates of an earlier call, so that no chunk is read again.

        Raises:
            RetrievalError: A query is unusable, or the retriever failed.
        """

    @abstractmethod
    def close(self) -> None:
        """Close its open resources."""

    @property
    def info(self: Any) -> Any:
        """Properties of the collection when it was opened (`CollectionInfo`); None if they are not known."""
        return self._listing.info if self._listing else None

    def search(self: Any, query: str, *, use_cache: bool = True) -> RetrievalSession:
        """Retrieve, and report how it went. Faults are not raised: they are the session's `status` and `error`.

        Args:
            query: A question. A blank one gives an empty session with a warning.
            use_cache: True to use a vector that is kept in memory.
        """
        try:
            return cast(RetrievalSession, self._session(query, use_cache))
        except RetrievalError as error:
            return failed(query, error, self._told)

    def chunks(self, where: Mapping[str, Sequence[str]] | None = None) -> list[Chunk]:
        """Return chunks of the collection without a search, by the values of fields (see `store.chunks.scroll`).

        Raises:
            StoreError: The store failed, or the collection is not known.
        """
        listing = self._listed()
        return scroll(listing.client, listing.config, where, listing.info)

    def describe(self) -> "tuple[CollectionInfo, dict[str, Record]] | None":
        """Read the properties of the collection and its first points again. Return None if no collection is known.

        At most 256 points are read, in the order of their ids. They have their vectors if another program made the
        collection. Vectors that `retrievers index` made are determined by the texts and the recorded model.

        Raises:
            StoreError: The store failed.
        """
        if self.info is None:
            return None
        listing = self._listed()
        info = read_info(listing.client, listing.config)
        vectors = not info.manifest and bool(info.dimension) and ([info.vector_name] if info.vector_name else True)
        points = records(listing.client, listing.config, count=SAMPLE, with_vectors=vectors)
        return info, {str(point.id): point for point in points}

    def __enter__(self) -> Self:
        return self

    def __exit__(self: Any, *_: object) -> None:
        self.close()

    def _listed(self: Any) -> Listing:
        if self._listing is None:
            raise StoreError(f"python {self.settings.python!r} lists no chunks; name the store and collection it reads")
        return cast(Listing, self._listing)

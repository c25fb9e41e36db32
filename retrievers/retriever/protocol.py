"""What an evaluation asks of a retriever: ours (`QdrantRetriever`), or the user's own behind `retrievers.foreign`."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

from retrievers.config import RetrieverConfig
from retrievers.records import Chunk, RetrievalSession
from retrievers.search.candidates import Candidates
from retrievers.store import CollectionInfo, Deployment


class Retriever(Protocol):
    """A retriever that can be evaluated."""

    @property
    def settings(self) -> RetrieverConfig:
        """What it was opened with."""

    @property
    def label(self) -> str:
        """The class that retrieves."""

    @property
    def embedding_label(self) -> str | None:
        """The model that embeds, None when it is not known."""

    @property
    def info(self) -> CollectionInfo | None:
        """The collection it reads from, None when that is not known: its chunks cannot be listed then."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of its results must know."""

    @property
    def batch_size(self) -> int:
        """How many queries are worth asking at once."""

    def search(self, query: str, *, use_cache: bool = True) -> RetrievalSession:
        """Retrieve as an application would, and tell how it went. Faults are in the session, not raised."""

    def candidates(
        self, queries: Sequence[str], *, depth: int | None = None, use_cache: bool = True, chunks: Any = None
    ) -> Candidates:
        """Find candidates for each query before threshold and cut, to the candidate depth.

        Args:
            queries: Questions.
            depth: Another depth than the configured one.
            use_cache: Use kept query vectors.
            chunks: The `chunks` that an earlier call's candidates have, so that none is read again.

        Raises:
            RetrievalError: A query is unusable, or the retriever failed.
        """

    def chunks(self, where: Mapping[str, Sequence[str]] | None = None) -> list[Chunk]:
        """Chunks of the collection without a search, by field values; all when `where` is left out.

        Raises:
            StoreError: The store failed, or the chunks cannot be listed (`info` is None).
        """

    def sample(self, count: int) -> list[tuple[str, Mapping[str, Any]]]:
        """Point ids and raw payloads of the collection's first points, at most `count`.

        Raises:
            StoreError: As for `chunks`.
        """

    def survey(self) -> tuple[CollectionInfo, Deployment | None] | None:
        """Return the collection's own description now, and how its server runs it; None where `info` is None.

        Raises:
            StoreError: The store failed.
        """

    def close(self) -> None:
        """Close its open resources."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

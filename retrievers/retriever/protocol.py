"""What an evaluation asks of a retriever: ours (`QdrantRetriever`), or the user's own behind `retrievers.foreign`."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self, runtime_checkable

from retrievers.config import RetrieverConfig
from retrievers.records import Chunk, RetrievalSession
from retrievers.search.candidates import CandidateTable, Chunks
from retrievers.store import CollectionInfo


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

    def chunk_table(self) -> Chunks:
        """Return an empty table of chunks, which calls of `candidates` fill."""

    def candidates(
        self, queries: Sequence[str], *, depth: int | None = None, use_cache: bool = True, chunks: Any = None
    ) -> CandidateTable:
        """Find candidates for each query before threshold and cut, to the candidate depth.

        Args:
            queries: Questions.
            depth: Another depth than the configured one.
            use_cache: Use kept query vectors.
            chunks: The table of the chunks that earlier calls found (see `chunk_table`).

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

    def describe(self) -> CollectionInfo | None:
        """Return the collection's own description now; None where `info` is None.

        Raises:
            StoreError: The store failed.
        """

    def close(self) -> None:
        """Close its open resources."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


@runtime_checkable
class FindsNeighbours(Retriever, Protocol):
    """A retriever whose search for vectors can be made with other parameters."""

    def neighbours(
        self, vectors: Sequence[Sequence[float]], search: Mapping[str, Any] | None, depth: int, chunks: Any
    ) -> CandidateTable:
        """Find the points nearest to vectors, each to the same depth.

        Args:
            vectors: Vectors of queries.
            search: Qdrant's `SearchParams`, as a mapping.
            depth: Number of points for each.
            chunks: The table that numbers them (see `chunk_table`).

        Raises:
            RetrievalError: The search failed.
        """

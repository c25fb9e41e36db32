"""A saved retrieval, and the retriever that answers from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn, Self
from uuid import uuid4

from evals.errors import ExperimentError
from retrievers.config import RetrieverConfig
from retrievers.records import Chunk, RetrievalSession
from retrievers.search.candidate_table import CandidateTable
from retrievers.search.chunk_list import ChunkList
from retrievers.search.table_builder import TableBuilder
from retrievers.store import CollectionInfo

NOT_MEASURED = "not measured: the run started from a saved retrieval"


@dataclass(frozen=True, kw_only=True)
class EvidenceScope:
    """The part of a collection in which relevant chunks were looked for.

    Attributes:
        whole: True for all chunks of the collection.
        pages: Addresses of the pages whose chunks it has.
        ids: Ids of chunks that golden queries name; a chunk that is not there does not exist.
        size: Number of chunks; they are the first of the saved ones.
    """

    whole: bool
    pages: frozenset[str]
    ids: frozenset[str]
    size: int

    def refuse_other(self, where: Mapping[str, Sequence[str]] | None) -> None:
        """Make sure that a condition on chunks asks for nothing else.

        Raises:
            ExperimentError: It does, so that the answer may lack chunks.
        """
        if self.whole:
            return
        for name, values in ({"source_url": ("any page",)} if where is None else where).items():
            present = {"source_url": self.pages, "chunk_id": self.ids, "point_id": self.ids}.get(name, frozenset())
            other = sorted({*values} - present)
            if other:
                raise ExperimentError(
                    f"golden data: {name} {other[0]!r} is named as relevant, and the saved retrieval does not hold its "
                    f"chunks ({len(other)} such); expected the golden data that it was saved with: save it again with "
                    "--save-retrieval"
                )


@dataclass(frozen=True, kw_only=True)
class SavedVariant:
    """The candidates of one way to retrieve.

    Attributes:
        settings: The settings that decide what is found, by dotted name.
        depth: The candidate depth.
        label: The class that retrieved.
        embedding: The model that embedded, None where it is not known.
        notes: Notes of the retriever for readers of its results.
        ids: Ids of the golden queries, in the order of the table.
        table: Their candidates.
    """

    settings: Mapping[str, Any]
    depth: int
    label: str
    embedding: str | None
    notes: tuple[str, ...]
    ids: tuple[str, ...]
    table: CandidateTable

    @cached_property
    def row_of(self) -> Mapping[str, int]:
        """Text of a query to its row."""
        return {text: number for number, text in enumerate(self.table.texts)}


@dataclass(frozen=True, kw_only=True)
class SavedRetrieval:
    """All that a run needs of its retrievers and their collection.

    Attributes:
        name: Name of the folder, without its path; empty before it is written.
        saved_at: Time of saving, ISO 8601 with time zone.
        variants: One for a single run, else those of the sweep.
        chunks: The chunks of `listing`, then the others that were found.
        info: The collection, None where chunks cannot be listed.
        collection: The facts of the collection as a report holds them, None likewise.
        versions: Versions of Python and of the libraries that retrieved.
    """

    name: str = ""
    saved_at: str
    variants: tuple[SavedVariant, ...]
    chunks: ChunkList
    listing: EvidenceScope
    info: CollectionInfo | None
    collection: Mapping[str, Any] | None
    versions: Mapping[str, str]


class SavedRetriever:
    """Answers from a saved retrieval, without a store and without a model."""

    def __init__(self, retrieval: SavedRetrieval, variant: SavedVariant, settings: RetrieverConfig) -> None:
        self.retrieval, self.variant, self.settings = retrieval, variant, settings

    @property
    def label(self) -> str:
        """The class that retrieved."""
        return self.variant.label

    @property
    def embedding_label(self) -> str | None:
        """The model that embedded, None where it is not known."""
        return self.variant.embedding

    @property
    def info(self) -> CollectionInfo | None:
        """The collection at the time of saving."""
        return self.retrieval.info

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of the retriever that was saved, and where the candidates are from."""
        saved = self.retrieval
        origin = f"started from the retrieval {saved.name!r}, saved on {saved.saved_at}: nothing was searched"
        return (*self.variant.notes, origin)

    @property
    def batch_size(self) -> int:
        """The number of saved queries: there is no request to be kept small."""
        return max(1, len(self.variant.table))

    def search(self, query: str, *, with_vector: bool = False, use_cache: bool = True) -> RetrievalSession:
        """Return a failed session: a saved retrieval cannot search."""
        return RetrievalSession(
            session_id=uuid4().hex, query=query, parameters={}, status="error", error="a saved retrieval cannot search"
        )

    def chunk_table(self) -> ChunkList:
        """Return the saved chunks."""
        return self.retrieval.chunks

    def candidates(
        self, queries: Sequence[str], *, depth: int | None = None, use_cache: bool = True, chunks: Any = None
    ) -> CandidateTable:
        """Return the saved candidates of each query.

        Raises:
            ExperimentError: A query was not saved.
        """
        depth, table = depth or self.settings.candidates, self.variant.table
        builder = TableBuilder(self.retrieval.chunks)
        for query in queries:
            row = self.variant.row_of.get(query)
            if row is None:
                raise ExperimentError(f"query {query!r} is not in the saved retrieval {self.retrieval.name!r}")
            candidates = table[row]
            builder.extend(candidates.at(range(min(depth, len(candidates)))).alone())
        return builder.table()

    def chunks(self, where: Mapping[str, Sequence[str]] | None = None) -> list[Chunk]:
        """Return saved chunks by field values.

        Raises:
            ExperimentError: Others are asked for than were saved.
        """
        listing = self.retrieval.listing
        listing.refuse_other(where)
        chunks = [self.retrieval.chunks[code] for code in range(listing.size)]
        conditions = {name: frozenset(values) for name, values in (where or {}).items()}
        return [chunk for chunk in chunks if all(chunk.value(name) in values for name, values in conditions.items())]

    def sample(self, count: int) -> NoReturn:
        """Refuse: payloads are not saved, only the facts that were made of them.

        Raises:
            ExperimentError: Always.
        """
        raise ExperimentError("a saved retrieval holds no payloads; its collection facts are those of saving")

    def survey(self) -> None:
        """Return None: nothing can be asked about the collection as it is now."""

    def close(self) -> None:
        """Do nothing: there is no open resource."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

"""The records of retrieval: chunks, ranked results, sessions. All of them are frozen."""

import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

# `sparse`: scores by the user's own model of sparse vectors. `unknown`: scores of the user's own retriever, comparable
# within one result at most. `none`: the retriever gives no scores.
ScoreScale = Literal[
    "cosine", "bm25", "sparse", "weighted", "rrf", "dbsf", "rerank", "known_words", "unknown", "none"
]  # fmt: skip
UNBOUNDED: frozenset[str] = frozenset({"bm25", "sparse"})
"""Scales that a threshold may read although their scores are not within 0 and 1."""
Status = Literal["success", "error", "timeout"]

PREVIEW_LENGTH = 200
# Stands between the headings of a section path.
SECTION_SEPARATOR = " > "

# Other names of fields, with their canonical names.
ALIASES: Mapping[str, str] = {
    "url": "source_url",
    "source": "source_url",  # what LangChain's document loaders write
    "document_section": "section_path",
    "source_document": "source_document_id",
    "document_id": "source_document_id",
    "vector_id": "point_id",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunk:
    """A passage of a page as the collection holds it.

    Every chunk has `chunk_id`, `point_id` and `text`. In a collection that another program made, any other field may be
    missing (None). Lines are 1-based and inclusive. `section_path` holds the headings from the page's top, joined
    by `SECTION_SEPARATOR`.

    Attributes:
        page_number: Page of a PDF on which the chunk begins, from 1. Such a chunk has no lines.
        chunk_context: Title and headings that were embedded and indexed before the text (`index.context`).
        chunk_headings: Headings of all sections in the chunk, if there are several (`index.merge_small`). `heading` and
            `section_path` are those of the first section.
        problems: One line for each payload value that was left out because it has the wrong type.
        extra: All other values of the payload, by their own keys. They do not count when chunks are compared.
    """

    chunk_id: str
    point_id: str
    text: str
    source_url: str | None = None
    title: str | None = None
    section_path: str | None = None
    heading: str | None = None
    chunk_index: int | None = None
    total_chunks: int | None = None
    source_document_id: str | None = None
    content_hash: str | None = None
    module: str | None = None
    chapter: str | None = None
    tags: tuple[str, ...] | None = None
    sidebar_position: float | None = None
    chunk_token_count: int | None = None
    file_path: str | None = None
    start_line: int | None = None
    end_line: int | None = None
    page_number: int | None = None
    chunk_context: str | None = None
    chunk_headings: tuple[str, ...] | None = None
    problems: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def indexed_text(self) -> str:
        """The text as it is embedded and indexed for BM25: after its context if it has one."""
        return with_context(self.chunk_context, self.text)

    @property
    def chunk_text_preview(self) -> str:
        """The first 200 characters of the text, on one line."""
        return " ".join(self.text.split())[:PREVIEW_LENGTH]

    @property
    def source(self) -> str:
        """Location of the chunk, as `path:start-end` or `path:page`, as far as it is known."""
        path = self.file_path or self.source_url or self.source_document_id or self.chunk_id
        if self.start_line is None:
            return path if self.page_number is None else f"{path}:{self.page_number}"
        return f"{path}:{self.start_line}" + ("" if self.end_line is None else f"-{self.end_line}")

    @property
    def page(self) -> str:
        """The page of the chunk, or the chunk's id if its page is not known."""
        return self.source_url or self.file_path or self.source_document_id or self.chunk_id

    @property
    def breadcrumb(self) -> str:
        """Module › chapter › heading, without unknown and repeated names."""
        return " › ".join(dict.fromkeys(filter(None, (self.module, self.chapter, self.heading))))

    @property
    def headings(self) -> frozenset[str | None]:
        """All headings that the chunk stands under, those of its section path and of further sections among them."""
        of_path = (self.section_path or "").split(SECTION_SEPARATOR)
        return frozenset((self.heading, *of_path, *(self.chunk_headings or ())))

    def value(self, name: str) -> Any:
        """Return a field by its canonical name or an alias.

        Raises:
            AttributeError: There is no such field.
        """
        return getattr(self, ALIASES.get(name, name))


def with_context(context: str | None, text: str) -> str:
    """Join the context of a chunk and its text, as they are embedded and indexed."""
    return f"{context}\n\n{text}" if context else text


# The fields of a chunk that are written under the payload's metadata key.
METADATA_FIELDS = tuple(f.name for f in fields(Chunk) if f.name not in ("point_id", "text", "problems", "extra"))


@dataclass(frozen=True, kw_only=True, slots=True)
class RetrievedChunk:
    """A chunk at its place in a result.

    Attributes:
        score: The final score. None if the retriever gives no scores; `score_scale` is then `none`.
        scores: The components of the score: `semantic` (the cosine), `keyword` (BM25), `fused` and `rerank`.
        original_rank: The rank before reranking.
        original_score: The score before reranking.
    """

    rank: int
    score: float | None
    score_scale: ScoreScale
    chunk: Chunk
    scores: Mapping[str, float] = field(default_factory=dict)
    original_rank: int | None = None
    original_score: float | None = None

    @property
    def source(self) -> str:
        """Location of the chunk, as `path:start-end`."""
        return self.chunk.source

    @property
    def breadcrumb(self) -> str:
        """Module › chapter › heading."""
        return self.chunk.breadcrumb


@dataclass(frozen=True, kw_only=True, slots=True)
class StageTimings:
    """Wall time of the stages of one search, in milliseconds; None for a stage that did not run."""

    embed_ms: float | None = None
    search_ms: float | None = None
    rerank_ms: float | None = None
    total_ms: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Confidence:
    """Confidence in a result, from its scores alone.

    Attributes:
        scale: Scale of the scores, which are those that the threshold reads.
        average: Mean score of the returned chunks; None if nothing was returned.
        level: `high`, `medium`, `low`, or `none` for an empty result.
        reason: Reason for the level, in a sentence.
    """

    average: float | None = None
    level: Literal["high", "medium", "low", "none"]
    reason: str
    scale: ScoreScale = "cosine"


@dataclass(frozen=True, kw_only=True, slots=True)
class RetrievalSession:
    """One search, its result, and how it went.

    Attributes:
        parameters: Settings of the search (mode, top_k, threshold, collection and so on).
        embedding: Provider, model and dimension.
        candidates_found: Number of candidates of the search.
        filtered_out: Number of candidates that the threshold removed.
        below_threshold: The best of the removed candidates, at most three. They are not part of the result.
        status: `success`, `error` or `timeout`. `error` says what happened.
    """

    session_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    query: str
    parameters: Mapping[str, Any]
    status: Status
    error: str | None = None
    chunks: tuple[RetrievedChunk, ...] = ()
    below_threshold: tuple[RetrievedChunk, ...] = ()
    candidates_found: int = 0
    filtered_out: int = 0
    embedding: Mapping[str, Any] = field(default_factory=dict)
    timings: StageTimings = field(default_factory=StageTimings)
    confidence: Confidence | None = None
    warnings: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()

    @property
    def sources(self) -> Mapping[str, int]:
        """The number of chunks from each page, in the order of the result."""
        return Counter(result.chunk.page for result in self.chunks)

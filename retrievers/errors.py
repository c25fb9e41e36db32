"""The errors of retrieval, each with the actual value, the expected value and the remedy.

RetrievalError
├── ConfigError                  a setting is missing, unknown or out of range
├── QueryError                   a query is blank or too long
├── EmbeddingError               the embedding model failed
│   └── MissingKeyError          its API key is not in the environment
├── RerankError                  the reranker failed
├── ForeignRetrieverError        the user's own retriever failed, or returned what is no document
├── StoreError                   the vector store failed
│   ├── StoreUnreachableError    nothing answers at the URL, or the folder does not exist
│   ├── StoreLockedError         another process holds the embedded store
│   ├── StoreTimeoutError        the store did not answer in time
│   ├── BatchTooLargeError       the store takes fewer queries or points in one request
│   ├── StoreFullError           the disk has no room for what was to be written
│   ├── StoreUnsupportedError    the embedded engine cannot do what was asked
│   ├── CollectionNotFoundError  the store has no such collection
│   ├── CollectionStateError     the collection is unfinished, lacks a vector, or is not ours to write to
│   ├── CollectionDamagedError   its files are not as they were written
│   ├── CollectionChangedError   the collection was written to during a search
│   └── EmbeddingMismatchError   the collection holds vectors of another model or dimension
└── IndexingError                pages cannot be indexed; every fault is listed
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Self

from retrievers.text.quoting import shortened
from retrievers.text.secrets import without_secrets


class RetrievalError(Exception):
    """Base of all errors raised on purpose by `retrievers`; its text is fit to be shown to a user.

    Attributes:
        transient: True if the same request may succeed a little later (see `retrievers.net.retry`).
        retry_after_s: Seconds that the other side asks to wait.
        timed_out: True if a request got no answer in time.
        stage: Stage that failed: `embed`, `store` or `rerank`; empty when it is not known.
        attempts: Number of attempts.
    """

    transient: bool = False
    retry_after_s: float | None = None
    timed_out: bool = False
    stage: str = ""
    attempts: int = 1

    def __init__(self, message: str = "") -> None:
        # A server may have quoted the key that it refuses. First, as a shorter text may hold a half of it.
        super().__init__(shortened(without_secrets(message)))

    def marked(self, *, transient: bool, retry_after_s: float | None = None, timed_out: bool = False) -> Self:
        """Return this error, marked for retries."""
        self.transient, self.retry_after_s, self.timed_out = transient, retry_after_s, timed_out
        return self

    def tried(self, stage: str, attempts: int, said: str) -> Self:
        """Return this error, marked as the last of some attempts, with a remark on them behind its text."""
        self.stage, self.attempts = stage, attempts
        self.args = (f"{self}{said}",)
        return self


class ConfigError(RetrievalError):
    """A setting is missing, unknown or out of range."""


class QueryError(RetrievalError):
    """A query is blank, or longer than the limits."""


class EmbeddingError(RetrievalError):
    """The embedding model failed or returned unusable vectors."""


class MissingKeyError(EmbeddingError):
    """The provider needs an API key that the environment does not hold."""


class RerankError(RetrievalError):
    """The reranker failed or returned something unusable."""


class ForeignRetrieverError(RetrievalError):
    """The user's own retriever failed, or returned something that is no usable document."""


class StoreError(RetrievalError):
    """The vector store refused or failed a request."""


class StoreUnreachableError(StoreError):
    """Nothing answers at the URL, or the embedded store's folder does not exist."""


class StoreLockedError(StoreError):
    """Another process holds the embedded store."""


class StoreTimeoutError(StoreError):
    """The store did not answer within the time allowed."""

    timed_out = True


class BatchTooLargeError(StoreError):
    """The store takes fewer queries or points in one request."""


class StoreFullError(StoreError):
    """The disk has no room for what was to be written; the collection is as it was."""


class StoreUnsupportedError(StoreError):
    """The embedded engine cannot do what was asked; nothing was done."""


class CollectionNotFoundError(StoreError):
    """The store has no collection of that name."""


class CollectionStateError(StoreError):
    """The collection is unfinished or lacks a vector, or was not made by `retrievers index` and is not written to."""


class CollectionDamagedError(StoreError):
    """The files of an embedded collection are not as they were written: it must be indexed again."""


class CollectionChangedError(StoreError):
    """The collection was written to during a search: what was found is no longer there."""


class EmbeddingMismatchError(StoreError):
    """The collection holds vectors of another model or dimension than the one configured."""


class IndexingError(RetrievalError):
    """Pages cannot be indexed.

    Attributes:
        faults: One line per fault, each beginning with the file it is about.
    """

    def __init__(self, message: str, faults: Sequence[str] = ()) -> None:
        super().__init__("\n  ".join([message, *faults]))
        self.faults = tuple(faults)


def nearest(name: str, known: Iterable[str], limit: int = 3) -> str:
    """Say which known names are nearest to `name`, as a clause to append to an error (empty when none is near)."""
    known = list(dict.fromkeys(known))
    matches = get_close_matches(name, known, n=limit, cutoff=0.5)
    matches = matches or [k for k in known if name and (name in k or k in name)][:limit]
    return f"; did you mean {' or '.join(repr(m) for m in matches)}?" if matches else ""

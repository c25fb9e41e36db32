"""The errors of retrieval, each with the actual value, the expected value and the remedy.

RetrievalError
├── ConfigError                  a setting is missing, unknown or out of range
├── QueryError                   a query is blank or too long
├── EmbeddingError               the embedding model failed
│   └── MissingKeyError          its API key is not in the environment
├── RerankError                  the reranker failed
├── ForeignRetrieverError        the user's own retriever failed, or returned what is no document
├── StoreError                   the vector store failed, or a collection is not what the settings say
│   ├── CollectionNotFoundError  there is none of that name, or it has to be made again
│   └── CollectionChangedError   the collection was written to during a search
└── IndexingError                pages cannot be indexed; every fault is listed
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from retrievers.text.shown import shortened, without_secrets


class RetrievalError(Exception):
    """Base of all errors raised on purpose by `retrievers`; its text is fit to be shown to a user.

    Attributes:
        transient: True if the same request may succeed a little later (see `retrievers.net`).
        retry_after_s: Seconds that the other side asks to wait.
        timed_out: True if a request got no answer in time.
    """

    transient: bool = False
    retry_after_s: float | None = None
    timed_out: bool = False

    def __init__(self, message: str = "") -> None:
        # A server may have quoted the key that it refuses. First, as a shorter text may hold a half of it.
        super().__init__(shortened(without_secrets(message)))


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
    """The vector store failed or refused a request, or a collection is not what the settings say."""


class CollectionNotFoundError(StoreError):
    """The store has no collection of that name that can be read: it is missing, or has to be made again."""


class CollectionChangedError(StoreError):
    """The collection was written to during a search: what was found is no longer there."""


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
    return f"; did you mean {' or '.join(map(repr, matches))}?" if matches else ""

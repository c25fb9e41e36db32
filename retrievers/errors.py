"""The errors of retrieval. Each message has the actual value, the expected value and the remedy.

RetrievalError
├── ConfigError                  a setting is missing, unknown or out of range
├── QueryError                   a query is blank or too long
├── EmbeddingError               the embedding model failed
│   └── MissingKeyError          its API key is not in the environment
├── RerankError                  the reranker failed
├── ForeignRetrieverError        the user's own retriever failed, or returned something else than documents
├── StoreError                   the vector store failed, or a collection does not fit the settings
│   ├── CollectionNotFoundError  there is no collection of that name, or it has to be made again
│   └── CollectionChangedError   the collection was written to during a search
└── IndexingError                pages cannot be indexed; every fault is listed
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from retrievers.text.shown import shortened, without_secrets


class RetrievalError(Exception):
    """Base of all errors that `retrievers` raises on purpose. The message can be shown to a user.

    Attributes:
        transient: True if the same request may succeed a little later (see `retrievers.net`).
        retry_after_s: Seconds that the server asks to wait.
        timed_out: True if a request got no answer in time.
        faults: A line for each fault of an input, which begins with its place; empty if there is one fault alone.
    """

    transient: bool = False
    retry_after_s: float | None = None
    timed_out: bool = False

    def __init__(self, message: str = "", faults: Sequence[str] = ()) -> None:
        # A server may have quoted the key that it refuses. It is hidden first: a shortened text may hold half of it.
        super().__init__(shortened(without_secrets("\n  ".join([message, *faults]))))
        self.faults = tuple(faults)


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
    """The vector store failed or refused a request, or a collection does not fit the settings."""


class CollectionNotFoundError(StoreError):
    """The store has no readable collection of that name: it is missing, or has to be made again."""


class CollectionChangedError(StoreError):
    """The collection was written to during a search: a point that the search found is gone."""


class IndexingError(RetrievalError):
    """Pages cannot be indexed. `faults` lists every fault by file."""


def nearest(name: str, names: Iterable[str], limit: int = 3) -> str:
    """Return the names nearest to `name` as a clause to append to an error; empty if no name is near."""
    names = list(dict.fromkeys(names))
    matches = get_close_matches(name, names, n=limit, cutoff=0.5)
    matches = matches or [other for other in names if name and (name in other or other in name)][:limit]
    return f"; did you mean {' or '.join(map(repr, matches))}?" if matches else ""

"""Sparse vectors of queries: BM25 encoded here or by the server, or the user's own model (SPLADE, BM42, miniCOIL)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, Union

from retrievers.config import KeywordConfig, factory
from retrievers.embedding.bm25 import Bm25Encoder
from retrievers.errors import ConfigError, EmbeddingError
from retrievers.net.faults import cause

if TYPE_CHECKING:
    from qdrant_client.models import Document, SparseVector

Terms: TypeAlias = Union["SparseVector", "Document"]
SERVER_MODEL = "qdrant/bm25"
METHODS = ("embed_query", "query_embed", "encode_query")


class QueryEncoder(Protocol):
    """Encodes queries for the sparse vector that is searched."""

    def query(
        self, text: str, expansions: Sequence[str] = (), expansion_weight: float = 0.5, *, term_counts: bool = True
    ) -> Terms:
        """Return the weights of a query's terms, or the query for the server to encode; see `Bm25Encoder.query`."""


def query_encoder(config: KeywordConfig) -> QueryEncoder:
    """Make the encoder that the settings name.

    Raises:
        ConfigError: The user's factory cannot be loaded, or makes nothing that encodes.
    """
    if config.encoder == "server":
        return ServerEncoder(config.language)
    if config.encoder == "bm25":
        return Bm25Encoder(config.language)
    target = config.encoder.removeprefix("python:")
    encoder = factory.build(target, "keyword.encoder")
    method = next((getattr(encoder, name) for name in METHODS if callable(getattr(encoder, name, None))), encoder)
    if not callable(method):
        raise ConfigError(
            f"keyword.encoder {target!r}: expected a function from a text to a sparse vector, or an object with "
            f"{' or '.join(METHODS)}; the factory made {type(encoder).__name__}"
        )
    return OwnEncoder(target, method)


@dataclass(frozen=True)
class ServerEncoder:
    """Leaves the encoding to a Qdrant server: BM25 of its own, which weighs a repeated term of a query once."""

    language: str

    def query(self, text: str, *_: Any, **__: Any) -> "Document":
        """Return the text for the server to encode."""
        from qdrant_client.models import Document

        options = {} if self.language == "english" else {"options": {"language": self.language}}
        return Document(text=text, model=SERVER_MODEL, **options)


@dataclass(frozen=True)
class OwnEncoder:
    """The user's own model of sparse vectors."""

    target: str
    encode: Callable[[str], Any]

    def query(self, text: str, *_: Any, **__: Any) -> "SparseVector":
        """Return the weights of a query.

        Raises:
            EmbeddingError: The model failed, or returned no sparse vector.
        """
        try:
            return _sparse(self.encode(text))
        except (Exception, SystemExit) as error:  # the user's own code may raise anything
            said = cause(error, "keyword.encoder")
            raise EmbeddingError(f"keyword.encoder {self.target!r} failed: {said}") from error


def _sparse(vector: Any) -> "SparseVector":
    """Return indices and weights as Qdrant takes them, of a mapping, of pairs of lists, or of any library's object."""
    from qdrant_client.models import SparseVector

    if isinstance(vector, Iterable) and not isinstance(vector, Mapping | Sequence) and not hasattr(vector, "indices"):
        vector = next(iter(vector))  # FastEmbed yields the vectors of several texts
    if isinstance(vector, Mapping):
        weights = {int(index): float(value) for index, value in vector.items()}
    else:
        indices, values = (vector.indices, vector.values) if hasattr(vector, "indices") else vector
        weights = {int(i): float(value) for i, value in zip(indices, values, strict=True)}
    terms = sorted(index for index, value in weights.items() if value)
    return SparseVector(indices=terms, values=[weights[index] for index in terms])

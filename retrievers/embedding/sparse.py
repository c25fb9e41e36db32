"""BM25 term weights as Qdrant and langchain-qdrant take them."""

from typing import TYPE_CHECKING

from retrievers.embedding.bm25 import Bm25Encoder, TermWeights

if TYPE_CHECKING:
    from langchain_qdrant import SparseEmbeddings
    from langchain_qdrant.sparse_embeddings import SparseVector
    from qdrant_client import models


def sparse(terms: TermWeights) -> "models.SparseVector":
    """Convert term weights for Qdrant."""
    from qdrant_client import models

    return models.SparseVector(indices=list(terms.indices), values=list(terms.values))


def sparse_embeddings(encoder: Bm25Encoder) -> "SparseEmbeddings":
    """Return sparse embeddings that encode documents and queries as the encoder does."""
    from langchain_qdrant import SparseEmbeddings
    from langchain_qdrant.sparse_embeddings import SparseVector

    def vector(terms: TermWeights) -> "SparseVector":
        return SparseVector(indices=list(terms.indices), values=list(terms.values))

    class Bm25Embeddings(SparseEmbeddings):
        def embed_documents(self, texts: list[str]) -> list[SparseVector]:
            return [vector(encoder.document(text)) for text in texts]

        def embed_query(self, text: str) -> SparseVector:
            return vector(encoder.query(text))

    return Bm25Embeddings()

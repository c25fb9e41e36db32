"""BM25 term weights as Qdrant takes them."""

from typing import TYPE_CHECKING

from retrievers.embedding.bm25 import TermWeights

if TYPE_CHECKING:
    from qdrant_client import models


def sparse(terms: TermWeights) -> "models.SparseVector":
    """Convert term weights for Qdrant."""
    from qdrant_client import models

    return models.SparseVector(indices=list(terms.indices), values=list(terms.values))

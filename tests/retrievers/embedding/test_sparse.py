from qdrant_client import models

from retrievers.embedding.bm25 import TermWeights
from retrievers.embedding.sparse import sparse


def test_terms_and_weights_are_kept() -> None:
    terms = TermWeights(indices=(3, 17), values=(0.5, 2.0))
    assert sparse(terms) == models.SparseVector(indices=[3, 17], values=[0.5, 2.0])

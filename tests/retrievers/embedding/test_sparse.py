import pytest

from retrievers.embedding.bm25 import Bm25Encoder, TermWeights
from retrievers.embedding.sparse import sparse_embeddings

TEXTS = ["running robots", "the robot and the robot", "the and of", ""]


@pytest.mark.parametrize("average", [2.0, 256.0])
def test_langchains_sparse_embeddings_are_the_encoders(average: float) -> None:
    encoder = Bm25Encoder("english", average)
    embeddings = sparse_embeddings(encoder)
    documents = [
        TermWeights(indices=tuple(v.indices), values=tuple(v.values)) for v in embeddings.embed_documents(TEXTS)
    ]
    assert documents == [encoder.document(text) for text in TEXTS]
    query = embeddings.embed_query("the running robot")
    assert TermWeights(indices=tuple(query.indices), values=tuple(query.values)) == encoder.query("the running robot")
    assert embeddings.embed_documents([]) == []

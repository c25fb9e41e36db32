"""Embedding models as a user would bring them, named in settings as `tests.support.embeddings:Name`."""

from langchain_core.embeddings import Embeddings

WORDS = ("kinematics", "joint", "pose", "channel", "messages", "topic", "reliable", "arm")


class Counting(Embeddings):
    """One dimension for each of eight words, and one for having none of them."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        counts = [float(text.lower().count(word)) for word in WORDS]
        return [*counts, float(not any(counts))]

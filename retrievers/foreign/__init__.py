"""Retrievers that are not ours: any LangChain `BaseRetriever` or `QdrantVectorStore`, as an evaluation needs them.

What they cannot give (scores, stages, a list of all chunks) is absent, with the reason; it is never guessed.
"""

"""The user's own retrievers: any LangChain `BaseRetriever` or `QdrantVectorStore`, adapted to an evaluation.

What they cannot give (scores, stages, a list of all chunks) is absent, with the reason; it is never guessed.
"""

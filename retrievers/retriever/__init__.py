"""The retriever: embed, search, rerank, threshold, cut."""

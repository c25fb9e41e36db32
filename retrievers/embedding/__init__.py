"""Queries and texts to vectors: dense models, BM25 terms, tokens."""

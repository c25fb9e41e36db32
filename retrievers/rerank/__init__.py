"""Rerankers: one protocol (`reranking`), cross-encoders, maximal marginal relevance."""

"""Rerankers: cross-encoders and maximal marginal relevance."""

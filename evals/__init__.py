"""Evaluation of retrieval: golden queries in, scores with their uncertainty out."""

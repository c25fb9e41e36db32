"""Graded by a language model: what its verdicts are worth."""

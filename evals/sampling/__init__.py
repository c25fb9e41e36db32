"""Judging a part of the queries: a seeded beginning of their order, the same for every cell."""

"""The use of caches in a line of text."""

from collections.abc import Mapping

from evals.report.model.caches import CacheEntry

NAMES = {"embedding": "query vectors", "result": "results", "judge": "verdicts"}


def cache_line(caches: Mapping[str, CacheEntry]) -> str:
    """Return the hit rates of the caches that were asked; empty where none was."""
    asked = [
        f"{NAMES.get(name, name)} {entry.hits:,} of {entry.lookups:,} ({entry.rate:.0%})"
        for name, entry in caches.items()
        if entry.rate is not None
    ]
    return f"From caches: {', '.join(asked)}" if asked else ""

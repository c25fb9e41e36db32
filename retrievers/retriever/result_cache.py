"""Answers of earlier searches, given again where they still hold."""

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

from retrievers.config import CacheConfig
from retrievers.embedding.cache import ResultCache
from retrievers.records import StageTimings
from retrievers.retriever.stages import Answer
from retrievers.store.embedded import EmbeddedStore

ON_A_SERVER = "a server, whose changes are not told"
"""The version of a collection on a server: results go by age alone."""


def open_result_cache(config: CacheConfig, client: Any) -> ResultCache[Answer]:
    """Open the cache of results: valid until an embedded store changes, on a server as long as the settings allow."""
    if isinstance(client, EmbeddedStore):
        return ResultCache(config.results)
    return ResultCache(config.results if config.results_ttl_s else 0, config.results_ttl_s)


def version_of(client: Any, collection: str) -> Hashable:
    """Return a value that changes with the collection, as far as its store tells: an embedded store's generation."""
    return client.generation(collection) if isinstance(client, EmbeddedStore) else ON_A_SERVER


def remembered(
    queries: Sequence[str],
    results: ResultCache[Answer],
    version: Callable[[], Hashable],
    way: Hashable,
    find: Callable[[list[str]], list[Answer]],
) -> list[Answer]:
    """Return the answer to each query, in order: a cached one, or one that is searched for now, once, and then cached.

    Args:
        queries: Questions.
        results: The answers that are kept; one of no size is passed by.
        version: The version that the collection has.
        way: Everything else that an answer depends on.
        find: Searches for those that are not known.
    """
    start = time.perf_counter()
    keeps = results.size > 0
    now = version() if keeps else None  # before the search: what changes during it makes what was found old
    kept = {query: hit for query in queries if keeps and (hit := results.get((query, way), now))}
    waited = StageTimings(total_ms=(time.perf_counter() - start) * 1000 / max(1, len(queries)))
    missing = [query for query in dict.fromkeys(queries) if query not in kept]
    found = find(missing) if missing else []
    for answer in found if keeps else ():
        results.put((answer.query, way), answer, now)
    state = "miss" if keeps else "off"
    ready = {one.query: replace(one, cache={**one.cache, "result": state}) for one in found}
    ready |= {q: replace(one, timings=waited, cache={"embedding": "off", "result": "hit"}) for q, one in kept.items()}
    return [ready[query] for query in queries]

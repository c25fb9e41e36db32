"""Sessions of earlier searches, given again where they still hold."""

import time
import uuid
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

from retrievers.config import CacheConfig
from retrievers.embedding.cache import ResultCache
from retrievers.records import RetrievalSession, StageTimings
from retrievers.store.embedded import is_embedded

ON_A_SERVER = "a server, which does not report its changes"
"""The version of a collection on a server: results go by age alone."""


def open_result_cache(config: CacheConfig, client: Any) -> ResultCache[RetrievalSession]:
    """Open the cache of results: valid until an embedded store changes, on a server as long as the settings allow."""
    if is_embedded(client):
        return ResultCache(config.results)
    return ResultCache(config.results if config.results_ttl_s else 0, config.results_ttl_s)


def version_of(client: Any, collection: str) -> Hashable:
    """Return a value that changes with the collection, as far as its store tells: an embedded store's generation."""
    return client.generation(collection) if is_embedded(client) else ON_A_SERVER


def remembered(
    queries: Sequence[str],
    results: ResultCache[RetrievalSession],
    version: Callable[[], Hashable],
    settings: Callable[[], Hashable],
    find: Callable[[list[str]], list[RetrievalSession]],
) -> list[RetrievalSession]:
    """Return a session for each query, in order: a cached one, or one that is searched for now, once, and then cached.

    Args:
        queries: Questions.
        results: The sessions that are kept; a cache of no size is passed by.
        version: The version that the collection has.
        settings: Returns everything else that a result depends on.
        find: Searches for those that are not known.
    """
    start = time.perf_counter()
    keeps = results.size > 0
    # The version before the search: what changes during it makes what was found old.
    now, setup = (version(), settings()) if keeps else (None, None)
    kept = {query: hit for query in queries if keeps and (hit := results.get((query, setup), now))}
    waited = StageTimings(total_ms=(time.perf_counter() - start) * 1000 / max(1, len(queries)))
    missing = [query for query in dict.fromkeys(queries) if query not in kept]
    sessions = find(missing) if missing else []
    for session in sessions if keeps else ():
        results.put((session.query, setup), session, now)
    state = "miss" if keeps else "off"
    ready = {session.query: replace(session, cache={**session.cache, "result": state}) for session in sessions}
    for query, session in kept.items():
        ready[query] = _again(replace(session, timings=waited, cache={"embedding": "off", "result": "hit"}))
    # What was searched for now has an id of its own; each repetition gets another.
    first = {query: index for index, query in reversed([*enumerate(queries)])}
    return [ready[query] if first[query] == index else _again(ready[query]) for index, query in enumerate(queries)]


def _again(session: RetrievalSession) -> RetrievalSession:
    return replace(session, session_id=uuid.uuid4().hex)

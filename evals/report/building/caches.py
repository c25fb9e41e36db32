"""The use of caches during a run. Pure."""

from evals.metrics.run_result import RunResult
from evals.report.model.caches import CacheEntry


def cache_entries(result: RunResult) -> dict[str, CacheEntry]:
    """Return the look-ups of the caches of query vectors, of results, and of the judge's verdicts.

    Timed and repeated calls ask no cache and do not count. A result is always searched for in a golden run, so that
    its cache is not asked. Of the judge every request counts as a look-up that found nothing.
    """
    states = [observation.candidates.cache for observation in result.observed.observations]
    values = {name: [state.get(name, "off") for state in states] for name in ("embedding", "result")}
    entries = {name: _entry(each.count("hit"), each.count("miss")) for name, each in values.items()}
    if result.judging:
        entries["judge"] = _entry(result.judging.whole_usage.hits, result.judging.whole_usage.calls)
    return entries


def _entry(hits: int, misses: int) -> CacheEntry:
    lookups = hits + misses
    return CacheEntry(hits=hits, lookups=lookups, rate=hits / lookups if lookups else None)

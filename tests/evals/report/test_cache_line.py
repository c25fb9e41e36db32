from evals.report.model.report import CacheEntry
from evals.report.terminal import cache_line


def entry(hits: int, lookups: int) -> CacheEntry:
    return CacheEntry(hits=hits, lookups=lookups, rate=hits / lookups if lookups else None)


def test_the_caches_that_were_asked_are_named_with_their_rates() -> None:
    caches = {"embedding": entry(44, 88), "result": entry(0, 0), "judge": entry(1200, 1600)}
    assert cache_line(caches) == "From caches: query vectors 44 of 88 (50%), verdicts 1,200 of 1,600 (75%)"


def test_no_line_where_none_was_asked() -> None:
    assert cache_line({"embedding": entry(0, 0)}) == cache_line({}) == ""

"""The metrics that the terminal shows beside those that have a criterion; the report has them all. Pure."""

from collections.abc import Collection
from fnmatch import fnmatchcase

PATTERNS = (
    "queries/pass_rate",
    "ragas/*",
    "judge/*",
    "ranking/expected_top3_in_5",
    "ranking/hit_rate_at_K",
    "ranking/recall_at_K",
    "ranking/mrr_at_K",
    "ranking/map_at_K",
    "ranking/ndcg_at_K",
    "ranking/evidence_recall_at_K",
    "candidates/ndcg_at_10",
    "candidates/recall_at_100",
    "metadata/*",
    "content/*",
    "scope/*",
    "determinism/*",
    "latency/total_mean_ms",
    "latency/total_p50_ms",
    "latency/total_p95_ms",
    "latency/total_p99_ms",
    "latency/total_p95_ms_c4",
    "latency/drift",
    "cost/*",
)
"""Names and patterns; `_at_K` is at the deepest that was measured."""


def headline(*measured: Collection[str]) -> list[str]:
    """The metrics of runs that are shown, in their order; `_at_K` at the deepest that all of the runs have.

    Args:
        measured: The metrics of each run.
    """
    patterns = [deepest(pattern, *measured) for pattern in PATTERNS]
    every = dict.fromkeys(name for names in measured for name in names)
    return [name for name in every if any(fnmatchcase(name, pattern) for pattern in patterns)]


def deepest(pattern: str, *measured: Collection[str]) -> str:
    """The deepest name for a pattern that ends in `_at_K`, of those that all runs have if any; others as they are."""
    stem = pattern.removesuffix("K")
    if stem == pattern:
        return pattern
    known = [{int(name.removeprefix(stem)) for name in names if name.startswith(stem)} for names in measured]
    depths = set.intersection(*known) or set.union(*known)
    return f"{stem}{max(depths)}" if depths else pattern

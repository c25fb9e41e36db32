"""Which way a metric is better."""

from fnmatch import fnmatchcase

from evals.report.comparison.records import Direction

LOWER = (
    "scope/false_*",
    "scope/max_out_of_scope_score",
    "content/overlap",
    "content/duplicate_rate",
    "determinism/max_score_delta",
    "latency/*_ms",
    "latency/*_ms_c*",
    "cost/*",
    "judge/false_*",
    "judge/noise_share",
    "judge/bisection_error",
)
NEITHER = ("latency/drift", "cost/judge_cache_hits", "cost/judge_calls_saved")
"""Of drift 0 is best, and both ways from there are worse; which calls a run was spared is no merit of it."""


def direction(metric: str) -> Direction:
    """`lower` for errors, times and costs, `neither` where no way is better, `higher` for all else."""
    if any(fnmatchcase(metric, pattern) for pattern in NEITHER):
        return "neither"
    return "lower" if any(fnmatchcase(metric, pattern) for pattern in LOWER) else "higher"

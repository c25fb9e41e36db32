from evals.metrics import METRICS, VERDICT_METRIC
from evals.report.comparison.directions import direction

LOWER = {
    "content/overlap", "content/duplicate_rate", "scope/false_answer", "scope/false_abstention",
    "scope/max_out_of_scope_score", "determinism/max_score_delta", "cost/context_tokens",
    "cost/judge_calls", "cost/judge_tokens", "cost/judge_usd", "judge/false_useful", "judge/false_useless",
    "judge/noise_share",
    "judge/bisection_error",
}  # fmt: skip


def test_the_direction_of_every_metric_by_hand() -> None:
    times = {name for name in METRICS if name.startswith("latency/") and name != "latency/drift"}
    found = {name: direction(name) for name in [*METRICS, VERDICT_METRIC]}
    assert {name for name, way in found.items() if way == "lower"} == LOWER | times
    assert {name for name, way in found.items() if way == "neither"} == {
        "latency/drift",
        "cost/judge_cache_hits",
        "cost/judge_calls_saved",
    }


def test_latency_at_any_concurrency() -> None:
    assert direction("latency/total_p95_ms_c16") == "lower"

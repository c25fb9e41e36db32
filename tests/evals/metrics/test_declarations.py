from typing import get_args

from evals.metrics import METRICS, VERDICT_METRIC, declared
from evals.metrics.declaration import Need
from evals.metrics.listing import listing, markdown
from evals.report.generate import METRICS as METRICS_PAGE
from evals.report.generate import with_metrics

LOWER = {
    "content/overlap", "content/duplicate_rate", "scope/false_answer", "scope/false_abstention",
    "scope/max_out_of_scope_score", "determinism/max_score_delta", "cost/context_tokens",
    "cost/judge_calls", "cost/judge_tokens", "cost/judge_usd", "judge/false_useful", "judge/false_useless",
}  # fmt: skip


def test_the_direction_of_every_metric_by_hand() -> None:
    times = {name for name in METRICS if name.startswith("latency/") and name != "latency/drift"}
    found = {name: declared(name).direction for name in [*METRICS, VERDICT_METRIC]}
    assert {name for name, way in found.items() if way == "lower"} == LOWER | times
    assert {name for name, way in found.items() if way == "neither"} == {
        "latency/drift",
        "cost/judge_cache_hits",
        *(f"ranking/judged_at_{k}" for k in (1, 3, 5, 10)),
    }


def test_latency_at_any_concurrency() -> None:
    assert declared("latency/total_p95_ms_c16").direction == "lower"


def test_values_are_written_as_their_units_ask_for() -> None:
    written = {
        "ranking/ndcg_at_5": "0.667",
        "latency/total_p95_ms_c16": "1,234.6",
        "cost/context_tokens": "1,234.6",
        "cost/judge_tokens": "1,235",
        "cost/judge_usd": "1,234.5678",
        VERDICT_METRIC: "0.500",
    }
    values = {"ranking/ndcg_at_5": 2 / 3, VERDICT_METRIC: 0.5}
    assert {name: declared(name).written(values.get(name, 1234.5678)) for name in written} == written


def test_what_needs_a_pass_a_judge_or_pages_says_so() -> None:
    of = {need: {name for name, metric in METRICS.items() if need in metric.needs} for need in get_args(Need)}
    assert of["latency"] == {name for name in METRICS if name.startswith("latency/")}
    assert of["determinism"] == {name for name in METRICS if name.startswith("determinism/")}
    assert of["judge usage"] == {name for name in METRICS if name.startswith("cost/judge_")}
    assert of["judge"] == {name for name in METRICS if name.startswith(("judge/", "ragas/llm_"))}
    assert of["sources"] == {"metadata/accuracy", "content/verbatim", "content/heading_in_source"}


def test_a_metric_that_this_version_does_not_know_is_not_shown_and_needs_nothing() -> None:
    unknown = declared("ranking/gone_at_5")
    assert (unknown.headline, unknown.direction, unknown.needs) == ("never", "higher", frozenset())


def test_every_range_holds_its_middle_and_shares_are_between_0_and_1() -> None:
    for metric in METRICS.values():
        low, high = metric.range
        assert low < high
        assert metric.unit != "share" or metric.range == (0, 1)


def test_the_list_of_the_documentation_is_that_of_the_declarations() -> None:
    assert with_metrics(page := METRICS_PAGE.read_text(encoding="utf-8")) == page, "run `make schema`"


def test_a_listed_metric_says_its_values_its_direction_and_what_it_is_about() -> None:
    lines = {line.split()[0]: line for line in listing().splitlines()}
    assert lines.keys() == {*METRICS, VERDICT_METRIC}
    assert lines["latency/drift"].split("  ", 1)[1].split() == (
        "ratio, from -1 neither change of the median time from first to last half".split()
    )
    assert "| `ranking/mrr_at_K` | score, 0 to 1 | higher | trec_eval 9, `recip_rank` | labels |" in markdown()

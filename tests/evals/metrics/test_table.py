"""The registry: names that MLflow and the design allow, and choosing among them."""

import re
from itertools import product

import pytest

from evals.errors import ExperimentError
from evals.metrics import (
    METRICS,
    NEED_A_JUDGE,
    VERDICT_METRIC,
    Reach,
    addresses,
    candidates,
    choose,
    chunk_sequence,
    content,
    cost,
    determinism,
    incomplete_labels,
    index,
    latency,
    llm_metrics,
    metadata,
    oracle,
    ragas_metrics,
    ranking,
    scope,
    similarity,
    trust_metrics,
)
from evals.metrics.declaration import QueryMetric

MODULES = (
    addresses, candidates, chunk_sequence, content, cost, determinism, incomplete_labels, index, latency, llm_metrics,
    metadata, oracle, ragas_metrics, ranking, scope, similarity,
    trust_metrics,
)  # fmt: skip
LEGAL = re.compile(r"[\w\-. :/]{1,250}")
"""What MLflow takes as a metric's name."""


def family(group: str, names: str, suffixes: str = "") -> set[str]:
    return {f"{group}/{n}{s}" for n, s in product(names.split(), suffixes.split() or [""])}


DESIGNED = (
    family("ragas", "id_context_precision id_context_recall nonllm_context_precision nonllm_context_recall")
    | family("ranking", "hit_rate precision recall mrr map ndcg evidence_recall", "_at_1 _at_3 _at_5 _at_10")
    | family("ranking", "expected_top3_in_5 bpref")
    | family("ranking", "judged condensed_ndcg", "_at_1 _at_3 _at_5 _at_10")
    | family("candidates", "ndcg_at_10 mrr_at_10 recall_at_10 recall_at_100 hit_rate_at_100")
    | family("candidates", "oracle_ndcg_at_10", "_of_10 _of_20 _of_50 _of_100")
    | family("index", "ann_recall", "_at_5 _at_100")
    | family("metadata", "completeness accuracy url_format chunk_sequence")
    | family(
        "content",
        "verbatim heading_in_source overlap duplicate_rate unique_sections section_match topic_match source_match",
    )
    | family("scope", "abstention false_answer false_abstention auroc max_out_of_scope_score")
    | family("scope", "enough_results relevant_above_half")
    | family("determinism", "rate max_score_delta")
    | family("latency", "embed search rerank total", "_mean_ms _p50_ms _p95_ms _p99_ms")
    | family("latency", "embed search rerank total", "_mean_ms_c4 _p50_ms_c4 _p95_ms_c4 _p99_ms_c4")
    | family("latency", "drift")
    | family("ragas", "llm_context_precision llm_context_recall llm_context_relevance llm_context_entity_recall")
    | family("ragas", "llm_context_precision_corrected")
    | family("judge", "agreement kappa false_useful false_useless self_agreement")
    | family("cost", "context_tokens judge_calls judge_cache_hits judge_tokens judge_usd")
)
"""The names of the metrics."""


def test_metrics_are_those_of_the_design() -> None:
    assert set(METRICS) == DESIGNED


def test_no_name_is_taken_twice() -> None:
    names = [metric.name for module in MODULES for metric in module.METRICS]
    assert len(names) == len(set(names)) == len(METRICS)
    assert VERDICT_METRIC not in METRICS


@pytest.mark.parametrize("name", [*METRICS, VERDICT_METRIC])
def test_every_name_is_legal_in_mlflow_and_in_a_group(name: str) -> None:
    from mlflow.utils.validation import _validate_metric_name

    assert LEGAL.fullmatch(name) and name.count("/") == 1
    for suffix in ("", ".ci_low", ".ci_high", ".n", ".n_failed"):
        _validate_metric_name(name + suffix)


def test_every_metric_is_described_in_a_line_of_its_own() -> None:
    abouts = [metric.about for metric in METRICS.values()]
    assert all(0 < len(about) <= 110 and "\n" not in about and "{" not in about for about in abouts)
    assert len(set(abouts)) == len(abouts)


@pytest.mark.parametrize("name", [n for n in METRICS if n.startswith(("ragas/", "ranking/")) and "corrected" not in n])
def test_relevance_metrics_are_over_every_in_scope_query(name: str) -> None:
    metric = METRICS[name]
    assert isinstance(metric, QueryMetric) and metric.scope == "in_scope"


class TestChoose:
    def test_a_star_is_everything_that_there_is_a_judge_for(self) -> None:
        of_all = choose(["*"], [1, 4], judged=True, approximate=True)
        assert list(of_all) == [name for name in METRICS]
        assert list(choose(["*"], [1, 4], approximate=True)) == [name for name in METRICS if name not in NEED_A_JUDGE]

    def test_the_index_is_measured_where_it_may_miss_something_or_by_its_own_pattern(self) -> None:
        of_an_index = ["index/ann_recall_at_5", "index/ann_recall_at_100"]
        assert set(choose(["*"], [1], approximate=True)) - set(choose(["*"], [1])) == {*of_an_index}
        assert list(choose(["index/*"], [1])) == list(choose(of_an_index, [1])) == of_an_index
        assert list(choose(["index/*"], [1], reach=Reach(returned=5, candidates=50))) == of_an_index[:1]

    @pytest.mark.parametrize("pattern", ["ragas/llm_context_recall", "ragas/llm_*", "cost/judge_usd"])
    def test_what_needs_a_judge_is_refused_by_name_without_one(self, pattern: str) -> None:
        with pytest.raises(ExperimentError, match=r"needs a judge, and there is none; name one, .*--judge\.model"):
            choose(["ranking/*", pattern], [1])
        assert choose([pattern], [1], judged=True).keys() <= NEED_A_JUDGE

    def test_a_name_is_itself(self) -> None:
        assert list(choose(["ranking/mrr_at_10"], [1])) == ["ranking/mrr_at_10"]

    def test_patterns_pass_over_what_reads_further_than_the_lists_go(self) -> None:
        found = choose(["*"], [1], reach=Reach(returned=5, candidates=50))
        assert not {name for name in found if name.startswith("ranking/") and name.endswith("_10")}
        assert {"ranking/ndcg_at_5", "ranking/expected_top3_in_5", "candidates/recall_at_10"} <= {*found}
        assert not {"candidates/recall_at_100", "candidates/hit_rate_at_100"} & {*found}
        assert "ranking/expected_top3_in_5" not in choose(["ranking/*"], [1], reach=Reach(returned=4, candidates=50))

    def test_by_name_there_is_every_depth(self) -> None:
        names = ["ranking/ndcg_at_10", "candidates/recall_at_100"]
        assert list(choose(names, [1], reach=Reach(returned=1, candidates=1))) == names

    def test_a_pattern_of_nothing_but_deeper_metrics_is_refused(self) -> None:
        with pytest.raises(ExperimentError) as caught:
            choose(["ranking/m*_at_10"], [1], reach=Reach(returned=5, candidates=100))
        assert str(caught.value) == (
            "metrics: 'ranking/m*_at_10' fits only metrics that read more places than there are (top_k 5, candidates "
            "100): ranking/mrr_at_10, ranking/map_at_10; raise top_k, or name a metric in full"
        )

    def test_patterns_choose_in_the_order_of_the_registry_and_each_once(self) -> None:
        found = list(choose(["scope/*", "ranking/recall_*", "ranking/recall_at_5"], [1]))
        recalls = [f"ranking/recall_at_{k}" for k in (1, 3, 5, 10)]
        assert found == recalls + [name for name in METRICS if name.startswith("scope/")]

    def test_latency_is_chosen_only_at_the_concurrencies_that_are_measured(self) -> None:
        found = choose(["latency/total_p95_*", "latency/drift"], [1, 8])
        assert set(found) == {"latency/total_p95_ms", "latency/total_p95_ms_c8", "latency/drift"}

    def test_a_concurrency_that_is_not_measured_does_not_exist(self) -> None:
        with pytest.raises(ExperimentError, match=r"no metric 'latency/total_p95_ms_c4'; did you mean"):
            choose(["latency/total_p95_ms_c4"], [1])

    @pytest.mark.parametrize(
        ("pattern", "near"),
        [("ranking/hitrate_at_5", "'ranking/hit_rate_at_5'"), ("ragas/id_context_presicion", "ragas/id_context_prec")],
    )
    def test_an_unknown_name_is_refused_with_the_nearest(self, pattern: str, near: str) -> None:
        with pytest.raises(ExperimentError) as caught:
            choose(["ranking/*", pattern], [1])
        assert f"metrics: no metric {pattern!r}; did you mean" in str(caught.value)
        assert near in str(caught.value) and "--list-metrics" in str(caught.value)

    def test_a_name_near_the_verdicts_metric_is_pointed_to_it(self) -> None:
        with pytest.raises(ExperimentError, match="'queries/pass_rate'"):
            choose(["queries/passrate"], [1])

    @pytest.mark.parametrize("pattern", ["queries/pass_rate", "queries/*"])
    def test_the_verdicts_metric_may_be_named_though_every_run_has_it(self, pattern: str) -> None:
        assert choose([pattern], [1]) == {}
        assert list(choose([pattern, "cost/*"], [1])) == ["cost/context_tokens"]

    def test_patterns_tell_upper_from_lower_case(self) -> None:
        with pytest.raises(ExperimentError, match="no metric 'Ranking/"):
            choose(["Ranking/*"], [1])

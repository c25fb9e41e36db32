from typing import Any

import pytest

from evals.comparison.comparing import pair
from evals.comparison.mismatches import changes, line, mismatches
from evals.comparison.records import Mismatch
from evals.report.model import Report
from tests.support.reports import HIT, judge, report, row

SCORES = {HIT: [1.0, 0.0]}


def found(baseline: Report, other: Report) -> list[Mismatch]:
    return mismatches(baseline, other, pair(baseline, other))


def queries(*names: str, **changes: Any) -> Report:
    return report({HIT: []}, rows=[row(name, {HIT: 1.0}) for name in names], **changes)


# What differs besides


def test_runs_of_the_same_kind_have_no_mismatch() -> None:
    assert found(report(SCORES), report(SCORES, started_at="later", duration_s=9.0)) == []


def test_other_golden_data_forbids_a_comparison_and_says_what_is_other() -> None:
    first = queries("a", *"bcdefgh", dataset_fingerprint="1" * 64)
    second = queries("a", "x", dataset_fingerprint="2" * 64)
    [one] = found(first, second)
    assert (one.what, one.grade) == ("golden data", "forbids")
    assert (one.baseline, one.other) == ("8 queries, 111111111111", "2 queries, 222222222222")
    assert one.meaning == "7 only in the baseline (b, c, d, e, f, …), 1 only in the other (x)"
    assert line(one) == f"golden data: {one.baseline} → {one.other} ({one.meaning})"


def test_the_same_fingerprint_does_not_hide_missing_queries() -> None:
    [one] = found(queries("a", "b"), queries("a"))
    assert one.grade == "forbids"


def test_golden_data_that_differ_in_labels_only_may_be_compared() -> None:
    [one] = found(report(SCORES, dataset_fingerprint="1"), report(SCORES, dataset_fingerprint="2"))
    assert one.grade == "known"
    assert "only labels differ" in one.meaning


def test_other_chunks_of_the_same_evidence() -> None:
    rows = [row("q0", {HIT: 1.0}), row("q1", {HIT: 0.0}, relevant={"a": 1, "b": 2})]
    [one] = found(report(SCORES), report(SCORES, rows=rows))
    assert (one.what, one.grade, one.baseline, one.other) == ("relevant chunks", "known", "2 chunks", "3 chunks")
    assert one.meaning.startswith("of 1 queries (q1)")


@pytest.mark.parametrize(
    ("changes", "what", "baseline", "other"),
    [
        (
            {"collection": {"name": "robots", "points": 1200, "fingerprint": "f00d"}},
            "collection", "robots, 578 points, c0ffee", "robots, 1,200 points, f00d",
        ),
        ({"collection": None}, "collection", "robots, 578 points, c0ffee", "not known"),
        ({"retriever": "Bm25"}, "retriever", "not recorded", "Bm25"),
        ({"embedding": "cohere:x"}, "embedding", "wordllama:l2", "cohere:x"),
        ({"embedding": None}, "embedding", "wordllama:l2", "not recorded"),
        ({"commit": "abc-dirty"}, "commit", "abc", "abc-dirty"),
        ({"seed": 1}, "seed", "0", "1"),
        ({"versions": {"python": "3.11", "ragas": "0.5"}}, "version of ragas", "0.4.3", "0.5"),
        ({"versions": {"ragas": "0.4.3"}}, "version of python", "3.11", "not recorded"),
    ],
)  # fmt: skip
def test_facts_that_must_be_known(changes: dict[str, Any], what: str, baseline: str, other: str) -> None:
    [one] = found(report(SCORES), report(SCORES, **changes))
    assert (one.what, one.grade, one.baseline, one.other) == (what, "known", baseline, other)


def test_how_a_server_runs_the_collection_is_named_setting_by_setting() -> None:
    def on(**server: Any) -> Report:
        known = {"name": "robots", "points": 578, "fingerprint": "c0ffee"}
        return report(SCORES, collection={**known, "server": server})

    hnsw = {"m": 16, "ef_construct": 100}
    first = on(version="1.18.3", shards=1, hnsw=hnsw)
    second = on(version="1.19.0", shards=4, hnsw=hnsw, quantization={"binary": {"always_ram": True}})
    assert [(one.what, one.baseline, one.other) for one in found(first, second)] == [
        ("server: version", "1.18.3", "1.19.0"),
        ("server: shards", "1", "4"),
        ("server: quantization", "none", "binary.always_ram True"),
    ]
    assert "terms are counted within each shard" in found(first, second)[1].meaning
    assert found(first, first) == [] == found(first, report(SCORES))


def test_two_collections_that_are_not_known_may_be_two() -> None:
    unknown = {"collection": None, "relevance": "returned"}
    [one] = found(report(SCORES, **unknown), report(SCORES, **unknown))
    assert (one.what, one.baseline, one.other) == ("collection", "not known", "not known")
    assert one.meaning == "it is unknown if both read the same chunks"


def test_relevance_looked_for_in_other_places_is_named_and_what_came_back_is_not_compared() -> None:
    rows = [row("q0", {HIT: 1.0}, relevant={}, relevant_complete=False), row("q1", {HIT: 0.0})]
    returned = report(SCORES, rows=rows, relevance="returned")
    one, *rest = found(report(SCORES), returned)
    assert (one.what, one.grade, rest) == ("relevance", "known", [])
    assert (one.baseline, one.other) == ("resolved in all chunks", "resolved in the chunks that came back")
    assert found(returned, report(SCORES, relevance="returned")) == []


def test_judges_that_differ_are_named_by_what_differs_between_them() -> None:
    asked = [
        judge(model="a", parameters={"temperature": 0.0, "seed": 0}, fingerprint="1"),
        judge(model="a", parameters={"temperature": 0.5, "seed": 0}, fingerprint="2"),
    ]
    [one] = found(*(report(SCORES, judge=one) for one in asked))
    assert (one.what, one.baseline, one.other) == ("judge", "cohere:a (temperature 0.0)", "cohere:a (temperature 0.5)")
    assert one.meaning == "what they said is not compared: ragas/llm_*, judge/*"


def test_a_judge_in_one_run_only_or_the_same_in_both_is_no_mismatch() -> None:
    assert found(report(SCORES), report(SCORES, judge=judge())) == []
    assert found(report(SCORES, judge=judge()), report(SCORES, judge=judge())) == []


def test_what_forbids_stands_first_and_all_are_named() -> None:
    second = queries("q0", dataset_fingerprint="2", commit="def", seed=3, embedding="x")
    assert [one.what for one in found(report(SCORES), second)] == ["golden data", "embedding", "commit", "seed"]


# Settings


def test_settings_that_differ_are_named_by_their_place() -> None:
    first = {"retriever": {"top_k": 3, "mode": "hybrid", "keyword": {"synonyms": {}}}, "seed": 0}
    second = {"retriever": {"top_k": 5, "mode": "hybrid", "keyword": {"synonyms": {"a": ["b"]}}}, "seed": 0, "new": 1}
    assert {one.setting: (one.baseline, one.other) for one in changes(first, second)} == {
        "retriever.top_k": (3, 5),
        "retriever.keyword.synonyms": ({}, None),
        "retriever.keyword.synonyms.a": (None, ["b"]),
        "new": (None, 1),
    }


def test_settings_on_which_no_score_depends_are_left_out() -> None:
    first: dict[str, Any] = {"name": "a", "tracking": {"uri": None}, "criteria": {}, "metrics": ["*"]}
    second = {"name": "b", "tracking": {"uri": "x"}, "criteria": {"ranking/mrr_at_5": "> 0"}, "metrics": ["a"]}
    assert changes(first, second) == []


def test_settings_of_a_judge_count_where_a_run_has_one() -> None:
    first: dict[str, Any] = {"judge": {"model": None}}
    assert changes(first, {"judge": {"model": None, "sample": "all"}}) == []
    judged = {"judge": {"model": "openai:x", "sample": "all"}}
    assert [one.setting for one in changes(first, judged)] == ["judge.model", "judge.sample"]


def test_how_verdicts_are_bought_and_kept_is_no_difference() -> None:
    first = {"judge": {"model": "openai:x", "cache_path": "/a", "max_concurrency": 4, "prices": {}, "rejudge": 0}}
    second = {
        "judge": {
            "model": "openai:x",
            "cache_path": "/b",
            "max_concurrency": 16,
            "prices": {"openai:x": {"input": 1.0, "output": 2.0}},
            "rejudge": 5,
        }
    }
    assert [one.setting for one in changes(first, second)] == ["judge.rejudge"]

from evals.collect.observations import Summary
from evals.judge.verdicts import ChunkVerdict, Claim
from evals.report.model import JudgeFacts, MetricEntry
from evals.tracking.values import metric_values, parameters, table, tags
from tests.support.judged import judging
from tests.support.results import UNLISTED, facts, report, result, without_scores


def test_a_users_own_keys_are_no_names_of_parameters() -> None:
    """MLflow would refuse `retriever.abbreviations.R&D`."""
    nested = {"abbreviations": {"R&D": "research"}, "keyword": {"synonyms": {"C++": ["cpp"]}, "language": "english"}}
    found = parameters({"retriever": {**nested, "filters": {"any": [{"a(b)": 1}]}, "top_k": 3}})
    assert found == {
        "retriever.abbreviations": {"R&D": "research"},
        "retriever.keyword.synonyms": {"C++": ["cpp"]},
        "retriever.keyword.language": "english",
        "retriever.filters": {"any": [{"a(b)": 1}]},
        "retriever.top_k": 3,
    }


def test_a_metric_has_its_interval_and_counts_beside_it() -> None:
    summaries = [
        Summary(metric="a", value=0.5, ci_low=0.4, ci_high=0.6, n=9),
        Summary(metric="b", value=1.0, n=3, n_failed=2, n_unscored=4, bound_low=0.6, bound_high=1.0),
        Summary(metric="c", value=None, n_unscored=3, note="why"),
        Summary(metric="d", value=0.0, ci_low=0.0, ci_high=0.0, n=1),
    ]
    assert metric_values({summary.metric: MetricEntry.of(summary) for summary in summaries}) == {
        "a": 0.5, "a.n": 9.0, "a.ci_low": 0.4, "a.ci_high": 0.6,
        "b": 1.0, "b.n": 3.0, "b.n_failed": 2.0,
        "d": 0.0, "d.n": 1.0, "d.ci_low": 0.0, "d.ci_high": 0.0,
    }  # fmt: skip


def test_what_the_judge_said_is_in_the_table_and_who_it_was_in_the_tags() -> None:
    said = judging(
        verdicts={
            ("right", "a"): ChunkVerdict(verdict=1, reason="It helps."),
            ("right", "b"): ChunkVerdict(verdict=0, reason="It does not."),
        },
        claims={("right", ("a", "b")): (Claim(statement="It turns.", attributed=1, reason="It says so."),)},
        supports={("wrong", "b"): (Claim(statement="It flies.", attributed=0, reason="No."),)},
    )
    judge = JudgeFacts(provider="cohere", model="command", parameters={"seed": 0}, ragas="0.4.3", fingerprint="cafe")
    made = report(result(judging=said), facts(judge=judge))
    columns = table(made)
    assert columns["judge"] == ["1. useful: It helps.\n2. useless: It does not.", "", ""]
    assert columns["claims"] == ["supported: It turns. (It says so.)", "1. not supported: It flies. (No.)", ""]
    told = tags(made)
    assert (told["judge.provider"], told["judge.model"], told["judge.fingerprint"]) == ("cohere", "command", "cafe")
    assert "judge" not in table(report()) and "judge.model" not in tags(report())


def test_a_run_of_a_retriever_without_scores_has_no_tag_of_what_is_not_known() -> None:
    told = tags(report(without_scores(), UNLISTED))
    assert (told["retriever"], told["relevance"]) == ("Bm25", "returned")
    assert "collection.fingerprint" not in told and "collection.points" not in told
    assert "None" not in told.values()
    columns = table(report(without_scores(), UNLISTED))
    assert columns["top_score"] == [None, None, None]
    assert columns["retrieved"][1] == "1.   –   b.md:1-2"

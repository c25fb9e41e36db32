from evals.report.description import description, most_telling
from tests.support.judged import judging
from tests.support.results import report, result


def test_the_verdict_comes_first_then_the_headline_with_interval_and_n_then_the_criteria() -> None:
    made = report().model_copy(update={"headline": ["latency/total_p95_ms", "ranking/hit_rate_at_5"]})
    lines = description(made).splitlines()
    assert lines[0].startswith("1 of 3 queries pass (33%): hit rate 0.500; main cause of failure: ")
    table = lines.index("| metric | value | 95% interval | n |")
    assert lines[table + 2 : table + 4] == [
        "| ranking/hit_rate_at_5 | 0.500 | 0.095 … 0.905 | 2 |",
        "| latency/total_p95_ms | 1,234.6 | 1,000.0 … 1,500.0 | 6 |",
    ]
    criteria = lines.index("| criterion | figure | |")
    assert criteria > table and lines[-1] == "| content/topic_match >= 0.4 | – | **FAIL** |"


def test_an_older_report_without_head_or_headline_is_described_too() -> None:
    lines = description(report().model_copy(update={"head": None, "headline": []})).splitlines()
    assert lines[0] == "1 of 3 queries pass."
    assert "| metric | value | 95% interval | n |" not in lines


def test_the_judge_is_named() -> None:
    assert "cohere:command" not in description(report())
    assert description(report(result(judging=judging()))).endswith("cohere:command: 0 calls, 0 cached, 0 tokens")


def test_metrics_without_a_value_are_none_of_the_most_telling() -> None:
    names = most_telling(report())
    assert names[:2] == ["ranking/hit_rate_at_5", "queries/pass_rate"]
    assert "content/topic_match" not in names
    assert len(names) == len(set(names)) == sum(metric.value is not None for metric in report().metrics.values())

"""The judge in the report, and its lines on terminal and page."""

from dataclasses import replace

from evals.collect.observations import Failure, SampledMean, Summary, Unscored
from evals.judge.budget import Usage
from evals.judge.trust import Correction, Pair, Trust, agree, measure
from evals.judge.verdicts import ChunkVerdict, Claim
from evals.report.build import judge_section
from evals.report.rows import query_rows
from evals.report.text import claim_lines, judge_lines, spent, verdict_lines
from tests.support.judged import judging
from tests.support.results import report, result

ROWS = [
    Pair(
        query_id=f"q{query:02}",
        chunk_id=f"c{chunk}",
        verdict=int(verdict),
        label=int(label),
        reason=f"{query} {chunk}",
    )
    for query in range(20)
    for chunk, (verdict, label) in enumerate([(1, 1), (0, 0), (query % 5 == 0, query % 7 == 0)])
]
SAID = judging(
    verdicts={
        ("right", "a"): ChunkVerdict(verdict=1, reason="It helps."),
        ("right", "b"): ChunkVerdict(verdict=0, reason="It does not."),
        ("wrong", "b"): Failure(type="Timeout", message="no answer in time"),
        ("empty", "d1"): Unscored(reason="the budget of 3 calls is spent"),
    },
    claims={
        ("right", ("a", "b")): (
            Claim(statement="It turns.", attributed=1, reason="It says so."),
            Claim(statement="It flies.", attributed=0, reason="Nobody says so."),
        )
    },
    usage=Usage(calls=4, hits=1200, failed=1, tokens_in=9_000, tokens_out=34, usd=0.0229, stopped="over"),
)


def test_the_judge_of_a_run_is_in_its_report() -> None:
    made = report(result(judging=SAID)).plain()
    assert made["judge"] == judge_section(SAID, None, queries=2).model_dump(mode="json")
    assert made["judge"]["model"] == "cohere:command" and made["judge"]["incomplete"] == "over"
    assert made["judge"]["usage"] == {
        "calls": 4, "hits": 1200, "failed": 1, "tokens_in": 9000, "tokens_out": 34, "usd": 0.0229, "stopped": "over",
        "unanswered": 0,
    }  # fmt: skip
    right, wrong, _ = made["queries"]
    assert [hit["judge"] for hit in right["retrieved"]] == [
        {"verdict": 1, "reason": "It helps."},
        {"verdict": 0, "reason": "It does not."},
    ]
    assert right["claims"][1] == {"statement": "It flies.", "attributed": 0, "reason": "Nobody says so."}
    assert wrong["retrieved"][0]["judge"] == {"failed": "Timeout: no answer in time"} and wrong["claims"] == []


def test_without_a_judge_there_is_nothing_of_it() -> None:
    made = report().plain()
    assert made["judge"] is None
    assert {hit["judge"] for row in made["queries"] for hit in row["retrieved"]} == {None}
    assert [row["claims"] for row in made["queries"]] == [[]] * 3


def test_lines_for_a_table() -> None:
    right, wrong, empty = query_rows(result(judging=SAID))
    assert verdict_lines(right) == ["1. useful: It helps.", "2. useless: It does not."]
    assert verdict_lines(wrong) == ["1. not judged: Timeout: no answer in time"]
    assert claim_lines(right) == ["supported: It turns. (It says so.)", "not supported: It flies. (Nobody says so.)"]
    assert verdict_lines(empty) == claim_lines(empty) == []


def test_the_judge_in_a_few_lines() -> None:
    cost, incomplete = judge_lines(judge_section(SAID, None, queries=4))
    assert cost == "cohere:command: 4 calls, 1,200 cached, 1 failed, 9,034 tokens, 0.0229 USD"
    assert incomplete == "Not everything was judged: over"


def test_a_cascade_has_a_line_for_each_judge() -> None:
    useful, useless = (ChunkVerdict(verdict=verdict, reason="") for verdict in (1, 0))
    small = judging(model="cohere:small", verdicts={("a", "1"): useful, ("a", "2"): useful, ("b", "1"): useless})
    large = judging(model="cohere:large", verdicts={("a", "1"): useful, ("a", "2"): useless}, below=small)
    mean = SampledMean(
        queries=4,
        proxy="m by small",
        weight=0.5,
        alone=0.5,
        alone_low=None,
        alone_high=None,
    )
    section = judge_section(
        replace(large, drawn=frozenset({"a"})),
        measure(large, [], 0),
        queries=4,
        summaries=[Summary(metric="m", value=0.5, sampled=mean)],
    )
    assert judge_lines(section)[:3] == [
        "2 judges: 0 calls, 0 cached, 0 tokens",
        "cohere:small: 4 of 4 queries, 0 calls, 0 cached, 0 tokens; says the same as the next on 50% of 2 chunks "
        "(kappa 0.00); weight 0.50 in m",
        "cohere:large: 1 of 4 queries, 0 calls, 0 cached, 0 tokens",
    ]


def test_people_have_a_line_too() -> None:
    known = Summary(metric="m_corrected", value=0.5, n=20)
    trust = Trust(
        corrections=[Correction(metric="m", corrected=known, weight=0.6, judge=0)],
        tiers=[agree([Pair(query_id="a", chunk_id="1", verdict=1, label=1)])],
    )
    section = judge_section(judging(model="cohere:large"), trust, queries=60)
    assert [tier.usage is None for tier in section.tiers] == [False, True]
    assert judge_lines(section)[:2] == [
        "cohere:large: 60 of 60 queries, 0 calls, 0 cached, 0 tokens; says the same as the next on 100% of 1 chunks; "
        "weight 0.60 in m_corrected",
        "people: 20 of 60 queries, without cost here",
    ]
    assert judge_lines(section)[2] == "m by people, from 20 queries: 0.500"


def test_what_was_spent_in_a_few_words() -> None:
    assert spent(SAID.usage) == "4 calls, 1,200 cached, 1 failed, 9,034 tokens, 0.0229 USD"
    assert spent(Usage(calls=1)) == "1 calls, 0 cached, 0 tokens"


def test_disagreements_have_the_label_and_the_judges_reason() -> None:
    section = judge_section(SAID, Trust(agreement=agree(ROWS)), queries=20)
    assert section.compared == 60
    assert [(row.query_id, row.label) for row in section.disagreements] == [
        ("q05", 0),
        ("q07", 1),
        ("q10", 0),
        ("q14", 1),
        ("q15", 0),
    ]
    assert [(row.chunk_id, row.reason) for row in section.disagreements[:2]] == [("c2", "5 2"), ("c2", "7 2")]

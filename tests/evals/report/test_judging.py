import json

from evals.judge.budget import Usage
from evals.judge.records import ChunkVerdict, Claim
from evals.records import Failure, Unscored
from evals.report.document import document, rows
from evals.report.judging import chunk_verdict, claim_lines, claims, judge_section, spent, verdict_lines
from tests.support.judged import judging
from tests.support.results import RIGHT, result

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


def test_the_verdict_on_a_chunk_or_why_there_is_none() -> None:
    assert chunk_verdict(SAID, "right", "a") == {"verdict": 1, "reason": "It helps."}
    assert chunk_verdict(SAID, "wrong", "b") == {"failed": "Timeout: no answer in time"}
    assert chunk_verdict(SAID, "empty", "d1") == {"unscored": "the budget of 3 calls is spent"}
    assert chunk_verdict(SAID, "wrong", "a") is None


def test_the_statements_are_those_of_the_selection() -> None:
    assert [claim["statement"] for claim in claims(SAID, RIGHT)] == ["It turns.", "It flies."]
    assert claims(judging(), RIGHT) == []


def test_the_judge_of_a_run_is_in_its_report() -> None:
    made = document(result(judging=SAID))
    assert made["judge"] == json.loads(json.dumps(judge_section(SAID, None)))
    assert made["judge"]["model"] == "cohere:command" and made["judge"]["incomplete"] == "over"
    assert made["judge"]["usage"] == {
        "calls": 4, "hits": 1200, "failed": 1, "tokens_in": 9000, "tokens_out": 34, "usd": 0.0229, "stopped": "over",
    }  # fmt: skip
    right, wrong, _ = made["queries"]
    assert [hit["judge"] for hit in right["retrieved"]] == [
        {"verdict": 1, "reason": "It helps."},
        {"verdict": 0, "reason": "It does not."},
    ]
    assert right["claims"][1] == {"statement": "It flies.", "attributed": 0, "reason": "Nobody says so."}
    assert wrong["retrieved"][0]["judge"] == {"failed": "Timeout: no answer in time"} and wrong["claims"] == []


def test_without_a_judge_there_is_nothing_of_it() -> None:
    made = document(result())
    assert made["judge"] is None
    assert {hit["judge"] for row in made["queries"] for hit in row["retrieved"]} == {None}
    assert [row["claims"] for row in made["queries"]] == [[]] * 3


def test_lines_for_a_table() -> None:
    right, wrong, empty = rows(result(judging=SAID))
    assert verdict_lines(right) == ["1. useful: It helps.", "2. useless: It does not."]
    assert verdict_lines(wrong) == ["1. not judged: Timeout: no answer in time"]
    assert claim_lines(right) == ["supported: It turns. (It says so.)", "not supported: It flies. (Nobody says so.)"]
    assert verdict_lines(empty) == claim_lines(empty) == []


def test_what_was_spent_in_a_few_words() -> None:
    assert spent(SAID.usage) == "4 calls, 1,200 cached, 1 failed, 9,034 tokens, 0.0229 USD"
    assert spent(Usage(calls=1)) == "1 calls, 0 cached, 0 tokens"

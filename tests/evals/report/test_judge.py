import json

from evals.collect.observations import Failure, Unscored
from evals.judge.ask.budget import Usage
from evals.judge.verdicts import Bisected, ChunkVerdict, Claim
from evals.report.document import document, rows
from evals.report.judge import (
    chunk_claim_lines,
    chunk_claims,
    chunk_verdict,
    claim_lines,
    claims,
    judge_section,
    judging_lines,
    spent,
    verdict_lines,
)
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
BISECTED = Bisected(
    implied={("right", ("a", "b")): 0.5, ("right", ("a", "b", "c")): 0.5, ("wrong", ("b",)): 1.0},
    audited={("right", ("a", "b")): 0.5, ("wrong", ("b",)): 0.0},
    selections=12,
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


ALONE = judging(
    supports={
        ("right", "a"): (
            Claim(statement="It turns.", attributed=1, reason="It says so."),
            Claim(statement="It flies.", attributed=0, reason="Nobody says so."),
        ),
        ("right", "b"): Failure(type="StatementMissing", message="none holds 'It turns.'"),
        ("wrong", "b"): Unscored(reason="over"),
    },
)


def test_what_each_chunk_alone_supports() -> None:
    assert chunk_claims(ALONE, "right", "b") == {"failed": "StatementMissing: none holds 'It turns.'"}
    assert chunk_claims(ALONE, "wrong", "b") == {"unscored": "over"}
    assert chunk_claims(ALONE, "empty", "d1") is None
    right, wrong, empty = rows(result(judging=ALONE))
    assert [one["attributed"] for one in right["retrieved"][0]["claims"]] == [1, 0]
    assert chunk_claim_lines(right) == [
        "1. supported: It turns. (It says so.)",
        "1. not supported: It flies. (Nobody says so.)",
        "2. not judged: StatementMissing: none holds 'It turns.'",
    ]
    assert chunk_claim_lines(wrong) == ["1. not judged: over"]
    assert chunk_claim_lines(empty) == [] == chunk_claim_lines(rows(result(judging=SAID))[0])
    assert right["claims"] == [] == claim_lines(right)


def test_recall_by_bisection_is_told_with_its_audit() -> None:
    section = judge_section(judging(bisected=BISECTED), None)["bisection"]
    low, high = section.pop("ci_low"), section.pop("ci_high")
    assert section == {
        "metric": "ragas/llm_context_recall", "selections": 12, "skipped": 3, "calls_saved": 1, "audited": 2,
        "compared": 2, "differing": 1, "error_rate": 0.5, "note": "",
    }  # fmt: skip
    assert (round(low, 3), round(high, 3)) == (0.095, 0.905)
    assert judge_section(SAID, None)["bisection"] is None


def test_the_judge_in_a_few_lines() -> None:
    cost, incomplete = judging_lines(SAID)
    assert cost == "cohere:command: 4 calls, 1,200 cached, 1 failed, 9,034 tokens, 0.0229 USD"
    assert incomplete == "Not everything was judged: over"
    assert judging_lines(judging(bisected=BISECTED))[1].startswith("ragas/llm_context_recall is an approximation")


def test_what_was_spent_in_a_few_words() -> None:
    assert spent(SAID.usage) == "4 calls, 1,200 cached, 1 failed, 9,034 tokens, 0.0229 USD"
    assert spent(Usage(calls=1)) == "1 calls, 0 cached, 0 tokens"

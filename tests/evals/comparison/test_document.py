import json
import re
from pathlib import Path
from typing import Any

import pytest

from evals.comparison.comparing import ComparisonOptions, compare
from evals.comparison.regressions import Tolerance
from evals.comparison.sections import document
from tests.support.reports import NDCG, P95, Score, report, run

DOCUMENTED = Path(__file__).parents[3] / "docs" / "compare.md"
BEFORE: list[Score] = [0.5, 0.25, 1.0, "failed", "unscored"]
AFTER: list[Score] = [0.5, 0.75, 0.5, 0.25, 0.5]


@pytest.fixture
def made() -> dict[str, Any]:
    first = run(report({NDCG: BEFORE}, {P95: 3.0}, config={"retriever": {"top_k": 3}}), "a.json")
    second = run(report({NDCG: AFTER}, {P95: 2.0}, config={"retriever": {"top_k": 5}}, seed=1), "b.json")
    found = compare(first, [second], ComparisonOptions(tolerances=(Tolerance(metric=NDCG, tolerance=0.25),)))
    loaded: dict[str, Any] = json.loads(json.dumps(document(found), allow_nan=False))
    return loaded


def test_its_fields_are_those_that_its_description_names(made: dict[str, Any]) -> None:
    whole, comparison, metric, moved = re.split(
        r"\nA comparison:|\nA metric:|\nA query that moved:", DOCUMENTED.read_text(encoding="utf-8").split("## JSON")[1]
    )
    [one] = made["comparisons"]
    found = ((whole, made), (comparison, one), (metric, one["metrics"][NDCG]), (moved, one["moved"][0]))
    for text, values in found:
        first_cells = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
        assert [name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)] == list(values)


def test_who_is_compared_with_whom(made: dict[str, Any]) -> None:
    [one] = made["comparisons"]
    known = {"name": "by hand", "started_at": "2026-01-02T03:04:05+00:00", "cases": 5}
    assert made["baseline"] == {**known, "origin": "a.json"}
    assert one["run"] == {**known, "origin": "b.json"}
    assert one["queries"] == {"compared": 5, "only_baseline": [], "only_other": [], "changed": []}
    assert (one["restricted"], made["tested"]) == (False, 2)


def test_what_differs_besides(made: dict[str, Any]) -> None:
    [one] = made["comparisons"]
    assert one["settings"] == [{"setting": "retriever.top_k", "baseline": 3, "other": 5}]
    assert one["mismatches"] == [{"what": "seed", "grade": "known", "baseline": "0", "other": "1", "meaning": ""}]


def test_a_metric_keeps_all_digits_and_all_counts(made: dict[str, Any]) -> None:
    [one] = made["comparisons"]
    assert one["metrics"][NDCG] == {
        "better": "higher", "baseline": (0.5 + 0.25 + 1) / 3, "other": (0.5 + 0.75 + 0.5) / 3, "difference": 0.0,
        "ci_low": None, "ci_high": None, "p": 1.0, "p_adjusted": 1.0, "p_test": 1.0,
        "test": "randomisation, exact", "n": 3, "wins": 1, "ties": 1, "losses": 1,
        "only_baseline": [], "only_other": ["q3", "q4"], "failed": ["q3"], "worst": -0.1875,
        "note": "not computable: 3 values are too few, 10 are needed",
    }  # fmt: skip
    whole = one["metrics"][P95]
    assert (whole["difference"], whole["p"], whole["n"]) == (-1.0, None, 0)


def test_the_queries_that_moved_have_both_results(made: dict[str, Any]) -> None:
    [one] = made["comparisons"]
    assert [(move["id"], move["before"], move["after"], move["gain"]) for move in one["moved"]] == [
        ("q2", 1.0, 0.5, -0.5),
        ("q1", 0.25, 0.75, 0.5),
    ]
    assert one["moved"][0]["baseline"]["retrieved"][0]["source"] == "a.md:1-2"
    assert one["moved"][0]["other"]["outcome"] == "FAILURE"


def test_a_regression_fails_the_whole(made: dict[str, Any]) -> None:
    [one] = made["comparisons"]
    assert one["regressions"] == [
        {
            "metric": NDCG, "tolerance": 0.25, "drop": 0.1875, "passed": False, "certain": None,
            "reason": "2 of 5 queries are scored in one of the runs only, more than 5%",
        }
    ]  # fmt: skip
    assert made["passed"] is False

"""The recipes of CONTRIBUTING.md for what is declared once: each is followed in a copy, and the copy is run."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.recipes import follow, run

pytestmark = pytest.mark.slow


def experiment(copy: Path, *flags: str, **env: str) -> dict[str, Any]:
    """The report of the default experiment on a few queries, with further flags."""
    flags = ("--limit", "5", "--tracking.enabled", "false", "--no-gate", "--output", "report.json", *flags)
    done = run(copy, "-m", "evals.run", *flags, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    report: dict[str, Any] = json.loads((copy / "report.json").read_text(encoding="utf-8"))
    return report


def test_a_metric_touches_its_family_and_the_table_and_is_scored_gated_listed_and_swept(tmp_path: Path) -> None:
    touched = follow("Add a metric", tmp_path, ("evals", "retrievers", "datasets"))
    flags = ("--metrics", "ranking/*", "--criteria", "{ranking/r_precision: '>= 0'}", "--sweep.top-k", "3,5")
    report = experiment(tmp_path, *flags, "--objective.metrics", "ranking/r_precision")
    assert touched == {"evals/metrics/ranking.py", "evals/metrics/table.yaml"}
    scores = report["scores"]["ranking/r_precision"]
    rows = zip(report["queries"], scores, strict=True)
    for query, score in (row for row in rows if row[0]["in_scope"]):
        first = [hit["grade"] > 0 for hit in query["retrieved"]][: len(query["relevant"])]
        assert score == sum(first) / len(query["relevant"])
    assert ("ranking/r_precision", True) in [(one["metric"], one["passed"]) for one in report["criteria"]]
    assert "ranking/r_precision" in report["headline"]
    listed = run(tmp_path, "-m", "evals.run", "--list-metrics").stdout
    assert re.search(r"^ranking/r_precision +share, 0 to 1 +higher +relevant among the first R", listed, re.MULTILINE)


def test_a_reranker_touches_two_files_and_orders_what_is_returned(tmp_path: Path) -> None:
    touched = follow("Add a reranker", tmp_path, ("evals", "retrievers", "datasets"))
    flags = ("--metrics", "ranking/*", "--retriever.rerank", "brevity", "--retriever.threshold", "0")
    report = experiment(tmp_path, *flags)
    assert touched == {"retrievers/search/brevity.py", "retrievers/config/retriever.py"}
    assert report["config"]["retriever"]["rerank"] == "brevity"
    assert all(query["retrieved"] for query in report["queries"])
    session = run(tmp_path, "-m", "retrievers", "search", "robot arm", "--rerank", "brevty")
    assert "did you mean 'brevity'?" in session.stderr


def test_an_axis_touches_two_files_and_tells_variants_apart(tmp_path: Path) -> None:
    touched = follow("Add a sweep axis", tmp_path, ("evals", "retrievers", "datasets"))
    mmr = ("--retriever.rerank", "mmr", "--metrics", "ranking/*")
    report = experiment(tmp_path, *mmr, "--sweep.mmr-lambda", "0.1,0.9")
    assert touched == {"evals/config/sweep.py", "evals/grid/axes.py"}
    variants = report["grid"]["configurations"]
    assert [one["name"] for one in variants] == [
        "hybrid weighted mmr mmr_lambda 0.1",
        "hybrid weighted mmr mmr_lambda 0.9",
    ]
    assert [one["parameters"]["mmr_lambda"] for one in variants] == [0.1, 0.9]

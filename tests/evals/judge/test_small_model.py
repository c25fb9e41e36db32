"""The judge, and golden queries, by a real model behind llama.cpp's own server, which is none of ours.

It is far too small for either: what it says is checked, whatever that is. `make smallmodel` installs it.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evals.cases.relevance import normalise
from evals.golden.command import main as golden
from evals.judge.tasks import PRECISION
from evals.run import main
from retrievers.indexing.pages import read_corpus
from tests.support.command import call
from tests.support.experiment import load_report
from tests.support.small_model import MODEL, absent, serving

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(absent()), reason=absent())]
LIMITS: dict[str, Any] = {"max_output_tokens": 64, "max_concurrency": 2, "timeout_s": 200}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving() as url:
        yield url


def flags(url: str, folder: Path, **limits: Any) -> list[str]:
    named = {"model": f"openai:{MODEL}", "base_url": url, "cache_path": folder / "verdicts.sqlite", **LIMITS, **limits}
    return [part for name, value in named.items() for part in (f"--judge.{name.replace('_', '-')}", str(value))]


def test_it_judges_thirty_queries_from_the_command_to_the_report(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [*flags(url, tmp_path), "--limit", "30", "--retriever.top-k", "1", "--retriever.threshold", "0"]
    given += ["--metrics", f"{PRECISION},judge/*", "--criteria", "{}", "--no-gate", "--tracking.enabled", "false"]
    done = call(main, [*given, "--output", "report.json"], capsys)
    assert done.code in (0, 3), done.err  # 3: over 5% of its answers are no verdicts
    report = load_report(tmp_path / "report.json")
    inside = [row for row in report["queries"] if row["in_scope"]]
    assert len(report["queries"]) == 30 and len(inside) > 20
    usage, verdicts = report["judge"]["usage"], [row["retrieved"][0]["judge"] for row in inside]
    calls = usage["calls"]
    assert usage["stopped"] == "" and calls >= len(inside)
    assert usage["tokens_in"] > 400 * calls and usage["tokens_out"] <= LIMITS["max_output_tokens"] * calls
    held = [one for one in verdicts if "verdict" in one]
    assert len(held) > len(inside) / 2 and all(one["verdict"] in (0, 1) and one["reason"] for one in held)
    assert all(one["failed"].startswith("Malformed: ") for one in verdicts if one not in held)
    precision = report["metrics"][PRECISION]
    assert (precision["n"], precision["n_failed"]) == (len(held), len(inside) - len(held))
    again = call(main, [*given, "--output", "again.json"], capsys)
    later = load_report(tmp_path / "again.json")["judge"]["usage"]
    assert again.code in (0, 3) and later["hits"] == len(held)
    assert later["calls"] <= 3 * (len(inside) - len(held))


def test_no_query_that_it_invents_gets_into_a_golden_file(
    url: str, handbook: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, limits = tmp_path / "golden.jsonl", flags(url, tmp_path, max_output_tokens=160, max_concurrency=1)
    counts = ["--per-type", "factual=2,keyword=1"]
    done = call(golden, ["synthesize", *limits, "--docs", handbook / "docs", "--out", out, *counts], capsys)
    assert done.code in (0, 2) and "kept" in done.out, done.err
    cases = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    pages = {page.source_url: normalise(page.text) for page in read_corpus(handbook / "docs").pages}
    for case in cases:
        assert all(normalise(one["quote"]) in pages[one["source_url"]] for one in case["evidence"])
    if cases:
        assert call(golden, ["check", out, "--docs", handbook / "docs"], capsys).code == 0

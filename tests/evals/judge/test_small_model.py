"""The judge by a real model behind llama.cpp's own server, which is none of ours; `make smallmodel` installs it.

It is far too small for a judge: what it says is checked, whatever that is.
"""

from pathlib import Path

import pytest

from evals.judge.tasks import PRECISION
from evals.run import main
from tests.support.command import call
from tests.support.experiment import load_report
from tests.support.small_model import MODEL, absent, serving

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(absent()), reason=absent())]


def test_it_judges_thirty_queries_from_the_command_to_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    limits = ["--judge.max-output-tokens", "64", "--judge.max-concurrency", "2", "--judge.timeout-s", "200"]
    given = [*limits, "--judge.model", f"openai:{MODEL}", "--judge.cache-path", "verdicts.sqlite", "--no-gate"]
    given += ["--limit", "30", "--retriever.top-k", "1", "--retriever.threshold", "0", "--criteria", "{}"]
    given += ["--metrics", f"{PRECISION},judge/*", "--tracking.enabled", "false"]
    with serving() as url:
        done = call(main, [*given, "--judge.base-url", url, "--output", "report.json"], capsys)
        again = call(main, [*given, "--judge.base-url", url, "--output", "again.json"], capsys)
    assert done.code in (0, 3), done.err  # 3: over 5% of its answers are no verdicts
    report = load_report(tmp_path / "report.json")
    inside = [row for row in report["queries"] if row["in_scope"]]
    assert len(report["queries"]) == 30 and len(inside) > 20
    usage, verdicts = report["judge"]["usage"], [row["retrieved"][0]["judge"] for row in inside]
    calls = usage["calls"]
    assert usage["stopped"] == "" and calls >= len(inside)
    assert usage["tokens_in"] > 400 * calls and usage["tokens_out"] <= 64 * calls
    held = [one for one in verdicts if "verdict" in one]
    assert len(held) > len(inside) / 2 and all(one["verdict"] in (0, 1) and one["reason"] for one in held)
    assert all(one["failed"].startswith("Malformed: ") for one in verdicts if one not in held)
    precision = report["metrics"][PRECISION]
    assert (precision["n"], precision["n_failed"]) == (len(held), len(inside) - len(held))
    later = load_report(tmp_path / "again.json")["judge"]["usage"]
    assert again.code in (0, 3) and later["hits"] == len(held)
    assert later["calls"] <= 3 * (len(inside) - len(held))

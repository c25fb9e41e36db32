"""The judge on a real model behind llama.cpp's own server, which is none of ours: `make smallmodel`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evals.collect.observations import Failure
from evals.config.judge import JudgeConfig
from evals.judge.judge import Judge
from evals.judge.tasks import PRECISION
from evals.judge.verdicts import Judging
from evals.run import main
from tests.support.command import call
from tests.support.experiment import load_report
from tests.support.judged import observe
from tests.support.results import hit, observation
from tests.support.small_model import MODEL, absent, serving

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(absent()), reason=absent())]
LIMITS: dict[str, Any] = {"max_output_tokens": 64, "max_concurrency": 2, "timeout_s": 200}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving() as url:
        yield url


def judged(url: str, file: Path, *observations: Any, **changes: Any) -> Judging:
    named = {"model": f"openai:{MODEL}", "base_url": url, "cache_path": file}
    judge = Judge.open(JudgeConfig.model_validate(named | LIMITS | changes), {})
    try:
        return judge.judge([PRECISION], observations)
    finally:
        judge.close()


def test_it_judges_thirty_queries_from_the_command_to_the_report(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = {"model": f"openai:{MODEL}", "base-url": url, "cache-path": tmp_path / "verdicts.sqlite"}
    settings |= {name.replace("_", "-"): value for name, value in LIMITS.items()}
    flags = [part for name, value in settings.items() for part in (f"--judge.{name}", str(value))]
    flags += ["--limit", "30", "--retriever.top-k", "1", "--retriever.threshold", "0", "--metrics"]
    flags += [f"{PRECISION},judge/*", "--criteria", "{}", "--no-gate", "--tracking.enabled", "false"]
    done = call(main, [*flags, "--output", "report.json"], capsys)
    assert done.code in (0, 3), done.err  # 3: over 5% of its answers are no verdicts
    report = load_report(tmp_path / "report.json")
    inside = [row for row in report["queries"] if row["in_scope"]]
    assert len(report["queries"]) == 30 and len(inside) > 20
    usage, verdicts = report["judge"]["usage"], [row["retrieved"][0]["judge"] for row in inside]
    assert usage["stopped"] == "" and usage["calls"] >= len(inside)
    assert (
        usage["tokens_in"] > 400 * usage["calls"]
        and usage["tokens_out"] <= LIMITS["max_output_tokens"] * usage["calls"]
    )
    held = [one for one in verdicts if "verdict" in one]
    assert len(held) > len(inside) / 2 and all(one["verdict"] in (0, 1) and one["reason"] for one in held)
    assert all(one["failed"].startswith("Malformed: ") for one in verdicts if one not in held)
    precision = report["metrics"][PRECISION]
    assert (precision["n"], precision["n_failed"]) == (len(held), len(inside) - len(held))
    again = call(main, [*flags, "--output", "again.json"], capsys)
    later = load_report(tmp_path / "again.json")
    assert again.code in (0, 3) and later["judge"]["usage"]["hits"] == len(held)
    assert later["judge"]["usage"]["calls"] <= 3 * (len(inside) - len(held))


def test_a_prompt_beyond_its_context_fails_alone(url: str, tmp_path: Path) -> None:
    long = hit(1, 0.9, "long", text="A joint turns about an axis. " * 1500)
    asked = observation("long", [long], 1, {"long": 1}, reference_answer="It turns.")
    said = judged(url, tmp_path / "verdicts.sqlite", asked, observe("pose", ["topic"]))
    failure = said.verdicts["long", "long"]
    assert isinstance(failure, Failure) and "status 400" in failure.message and "context" in failure.message
    assert said.incomplete == "" and len(said.verdicts) == 2


def test_an_answer_that_it_cut_off_is_malformed(url: str, tmp_path: Path) -> None:
    said = judged(url, tmp_path / "verdicts.sqlite", observe("pose", ["topic", "forward"]), max_output_tokens=16)
    assert all(
        isinstance(one, Failure) and "cut off at judge.max_output_tokens" in one.message
        for one in said.verdicts.values()
    )

"""Runs with a judge, from command to report: both protocols, money, keys, faults, the store."""

import json
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from evals.run import main
from tests.support.chat_faults import When
from tests.support.chat_server import ChatServer, CohereChatServer
from tests.support.command import Done, call
from tests.support.experiment import Experiment, load_report, settings
from tests.support.judged_experiment import (
    calls_of,
    judge_flags,
    known_of,
    labelled_precision,
    labelled_recall,
    make_judged,
)
from tests.support.judges import keys
from tests.support.judging import Oracle
from tests.support.openai_server import OpenAIChatServer

Run = Callable[..., Done]
Report = Callable[[], dict[str, Any]]
BOTH = pytest.mark.parametrize(
    "server",
    [pytest.param(CohereChatServer, id="cohere"), pytest.param(OpenAIChatServer, id="openai", marks=pytest.mark.slow)],
    indirect=True,
)
PRECISION, RECALL = "ragas/llm_context_precision", "ragas/llm_context_recall"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return make_judged(tmp_path_factory.mktemp("judged"))


@pytest.fixture(scope="module")
def known(made: Experiment) -> tuple[Oracle, dict[str, str]]:
    """Return the oracle of the golden labels, and chunk id to text."""
    _, chunks, oracle = known_of(settings(made))
    return oracle, {chunk.chunk_id: chunk.text for chunk in chunks}


@pytest.fixture
def server(request: pytest.FixtureRequest, known: tuple[Oracle, dict[str, str]]) -> Iterator[ChatServer]:
    """Cohere's, unless the test is for both."""
    kind: type[ChatServer] = getattr(request, "param", CohereChatServer)
    with kind(known[0]) as running:
        yield running


@pytest.fixture
def run(
    made: Experiment,
    server: ChatServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Run:
    """Run with the judge behind the server, in an empty folder, with further arguments."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("evals.judge.asking.BASE_S", 0.0)
    for name, value in keys(server).items():
        monkeypatch.setenv(name, value)
    flags = [*judge_flags(server, tmp_path), "--output", tmp_path / "report.json"]
    return lambda *arguments: call(main, ["--config", made.config, *flags, *arguments], capsys)


@pytest.fixture
def report(tmp_path: Path) -> Report:
    return lambda: load_report(tmp_path / "report.json")


@BOTH
def test_a_judged_run_is_worth_what_the_labels_say_and_tells_why(
    run: Run, report: Report, server: ChatServer, known: tuple[Oracle, dict[str, str]]
) -> None:
    done = run()
    assert (done.code, done.err) == (0, "")
    whole = report()
    inside = [row for row in whole["queries"] if row["in_scope"]]
    expected = {
        PRECISION: [labelled_precision(row) for row in inside],
        RECALL: [labelled_recall(row, *known) if row["retrieved"] else 0.0 for row in inside],
    }
    for metric, values in expected.items():
        assert [row["scores"][metric] for row in inside] == pytest.approx(values, abs=1e-9)
        assert whole["metrics"][metric]["value"] == pytest.approx(fmean(values), abs=1e-9)
        assert whole["metrics"][metric]["n"] == 4 and whole["metrics"][metric]["n_failed"] == 0
    assert 0 < fmean(expected[PRECISION]) < 1 and 0 < fmean(expected[RECALL]) < 1
    calls = calls_of(whole["queries"])
    assert (
        len(server.chats) == calls == whole["judge"]["usage"]["calls"] == whole["metrics"]["cost/judge_calls"]["value"]
    )
    assert whole["metrics"]["judge/agreement"]["value"] == 1.0
    for row in inside:
        for hit in row["retrieved"]:
            assert hit["judge"]["verdict"] == int(hit["grade"] > 0)
            assert hit["judge"]["reason"].endswith(f"for {row['query']!r}.")
    channel = next(row for row in inside if row["id"] == "channel")
    assert [claim["statement"] for claim in channel["claims"]][1] == "Reliable publishers resend."


def test_the_second_run_asks_nothing(run: Run, report: Report, server: ChatServer) -> None:
    run()
    first, asked = report(), len(server.chats)
    assert run().code == 0
    assert len(server.chats) == asked
    usage = report()["judge"]["usage"]
    assert (usage["calls"], usage["hits"], usage["tokens_in"]) == (0, asked, 0)
    for metric in (PRECISION, RECALL):
        assert report()["metrics"][metric] == first["metrics"][metric]


def test_a_spent_budget_is_exit_code_3_with_what_was_judged(run: Run, report: Report, server: ChatServer) -> None:
    done = run("--judge.budget.calls", "6", "--judge.max-concurrency", "1")
    assert done.code == 3
    assert done.err.strip().startswith("incomplete: the budget of 6 calls is spent (the report is at ")
    assert len(server.chats) == 6
    whole = report()
    assert whole["judge"]["incomplete"] == "the budget of 6 calls is spent"
    assert "not everything was judged: the budget of 6 calls is spent" in whole["notes"]
    precision = whole["metrics"][PRECISION]
    assert precision["n"] + precision["n_unscored"] == 4 and precision["n_unscored"] > 0
    last = [row["scores"][PRECISION] for row in whole["queries"] if row["in_scope"]][-1]
    assert last == {"unscored": "the budget of 6 calls is spent"}  # an empty result behind the end is no zero
    assert run().code == 0
    assert len(server.chats) == calls_of(report()["queries"])  # what was bought is not bought again


@BOTH
def test_a_wrong_key_is_one_request_exit_code_2_and_no_report(
    run: Run, server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in keys(server):
        monkeypatch.setenv(name, "wrong")
    done = run()
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: the judge ") and "judge.api_key_env" in done.err
    assert "Traceback" not in done.err and done.err.count("\n") == 1
    assert len(server.chats) == 1 and not (tmp_path / "report.json").exists()


def test_no_key_is_exit_code_2_before_anything(run: Run, server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in keys(server):
        monkeypatch.delenv(name)
    done = run("--judge.api-key-env", "MY_KEY", "--judge.base-url", "")
    assert done.code == 2 and server.requests == []


def test_over_a_twentieth_failed_is_exit_code_3(run: Run, report: Report, server: ChatServer, tmp_path: Path) -> None:
    run("--judge.cache-path", tmp_path / "other.sqlite", "--ids", "forward")
    with server.faulty("prose", When(share=0.5, by_prompt=True)):
        page, suites = tmp_path / "page.html", tmp_path / "junit.xml"
        done = run("--log-file", tmp_path / "log.jsonl", "--html", page, "--junit", suites)
    assert done.code == 3 and "failed" in done.err
    whole = report()
    assert not whole["passed"] and whole["incomplete"].startswith("ragas/llm")
    first_line = f"{whole['verdict']} Incomplete: {whole['incomplete']}."
    assert "Incomplete: ragas/llm" in done.out and "criteria are met" not in done.out
    assert 'class="badge bad">incomplete<' in page.read_text() and first_line in unescape(page.read_text())
    assert 'type="incomplete"' in suites.read_text()
    assert 'failures="1"' in suites.read_text().partition('name="queries"')[0]
    failing = [m for name, m in report()["metrics"].items() if name.startswith("ragas/llm") and m["n_failed"]]
    assert failing and all(m["note"].startswith("unusable, as more than 5% failed") for m in failing)
    assert all(m["bound_low"] < m["bound_high"] for m in failing)
    logged = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    failures = [one for one in logged if one.get("stage") == "judge" and one["level"] == "ERROR"]
    assert failures and all(one["query_id"] in ("forward", "inverse", "channel") for one in failures)


def test_the_worst_queries_show_why_chunks_were_found_useless(run: Run, server: ChatServer) -> None:
    server.oracle = Oracle({})
    done = run("--metrics", PRECISION, "--retriever.threshold", "0.05", "--retriever.top-k", "1")
    assert "judged useless: The context is of no use for " in done.out


def test_without_a_judge_no_llm_metric_and_a_note(
    made: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COHERE_API_KEY", "lies about")
    config = ["--config", made.config, "--metrics", "ranking/*,ragas/*"]
    done = call(main, [*config, "--output", tmp_path / "report.json"], capsys)
    assert done.code == 0 and "there is no judge (judge.model): no LLM-graded metric was computed" in done.out
    whole = load_report(tmp_path / "report.json")
    assert whole["judge"] is None and whole["facts"]["judge"] is None and PRECISION not in whole["metrics"]

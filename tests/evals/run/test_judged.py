"""Runs with a judge, from plan to report: what is asked and paid, kept and told; and ragas' classes on the figures."""

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from html import unescape
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from evals import Outputs, evaluate
from evals.metrics import METRICS
from evals.metrics.results import Values
from evals.run import main
from retrievers.embedding.tokens import count_tokens
from tests.support.chat_server import KEYS, MODEL, ChatServer, CohereChatServer, OpenAIChatServer
from tests.support.command import Done, python
from tests.support.experiment import Experiment, load_report, settings
from tests.support.judged import PROTOCOLS
from tests.support.judged_experiment import calls_of, judge_flags, known_of, make_judged, precision_of, recall_of
from tests.support.judging import Oracle
from tests.support.observed import metric_of
from tests.support.small_model import MODEL as SMALL_MODEL
from tests.support.small_model import absent, serving

Run = Callable[..., Done]
Report = Callable[[], dict[str, Any]]
Known = tuple[Oracle, Mapping[str, str]]
PRECISION, RECALL = "ragas/llm_context_precision", "ragas/llm_context_recall"
OF_IDS = "ragas/id_context_precision"
WITHOUT_MODEL = "ragas/id_*,ragas/nonllm_*"
SWEEP = ("--sweep.top-k", "1:3", "--sweep.threshold", "0,0.3", "--sweep.mode", "semantic,keyword")
BOTH = pytest.mark.parametrize("server", PROTOCOLS, indirect=True)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return make_judged(tmp_path_factory.mktemp("judged"))


@pytest.fixture(scope="module")
def known(made: Experiment) -> Known:
    _, chunks, oracle = known_of(settings(made))
    return oracle, {chunk.chunk_id: chunk.text for chunk in chunks}


@pytest.fixture
def plain(made: Experiment, here: Path, command: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("COLUMNS", "200")
    return partial(command, main, "--config", made.config, "--output", "report.json")


@pytest.fixture
def server(request: pytest.FixtureRequest, known: Known) -> Iterator[ChatServer]:
    kind: type[ChatServer] = getattr(request, "param", CohereChatServer)
    with kind(known[0]) as running:
        yield running


@pytest.fixture
def run(plain: Run, server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr("evals.judge.asking.BASE_S", 0.0)
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    return lambda *arguments: plain(*judge_flags(server, tmp_path), *arguments)


@pytest.fixture
def report(tmp_path: Path) -> Report:
    return lambda: load_report(tmp_path / "report.json")


@BOTH
def test_a_judged_run_says_what_the_labels_say(
    run: Run, plain: Run, report: Report, server: ChatServer, known: Known
) -> None:
    done = run()
    assert (done.code, done.err) == (0, "")
    whole = report()
    inside = [row for row in whole["queries"] if row["in_scope"]]
    expected = {
        PRECISION: [precision_of(row) for row in inside],
        RECALL: [recall_of(row, *known) if row["retrieved"] else 0.0 for row in inside],
    }
    for metric, values in expected.items():
        assert [row["scores"][metric] for row in inside] == pytest.approx(values, abs=1e-9)
        assert whole["metrics"][metric]["value"] == pytest.approx(fmean(values), abs=1e-9)
        assert whole["metrics"][metric]["n"] == 4 and whole["metrics"][metric]["n_failed"] == 0
        assert 0 < fmean(values) < 1
    calls, usage = calls_of(whole["queries"]), whole["judge"]["usage"]["calls"]
    assert len(server.chats) == calls == usage == whole["metrics"]["cost/judge_calls"]["value"]
    assert whole["metrics"]["judge/agreement"]["value"] == 1.0
    for row in inside:
        for hit in row["retrieved"]:
            assert hit["judge"]["verdict"] == int(hit["grade"] > 0)
            assert hit["judge"]["reason"].endswith(f"for {row['query']!r}.")
    channel = next(row for row in inside if row["id"] == "channel")
    assert [claim["statement"] for claim in channel["claims"]][1] == "Reliable publishers resend."
    following = shlex.split(done.out.partition("Next: ")[2].splitlines()[0])[3:]
    assert following[-4:-1] == ["--judge.model", "null", "--metrics"] and (after := plain(*following)).code == 0
    assert " --judge.model null " in after.out and " --metrics " in after.out.partition("Next: ")[2].splitlines()[0]
    assert len(server.chats) == calls and report()["grid"]["choice"], "the choice by labels buys no verdict"


def test_the_held_out_figure_is_the_judges_and_what_it_cost_is_told(
    run: Run, report: Report, server: ChatServer, made: Experiment, here: Path
) -> None:
    cases = map(json.loads, made.golden.read_text(encoding="utf-8").splitlines())
    halves = [json.dumps({**case, "split": ("test", "dev")[number % 2]}) for number, case in enumerate(cases)]
    (here / "halves.jsonl").write_text("\n".join(halves), encoding="utf-8")
    of_data = "--dataset.path", "halves.jsonl", "--objective.metrics", PRECISION, "--objective.out-of-scope", "0"
    swept = *of_data, "--dataset.split", "dev", "--sweep.top-k", "1:3"
    planned = run("--plan", *swept).out
    assert "Not counted" not in run("--plan", *swept, "--objective.metrics", "ranking/mrr_at_10").out
    done, whole = run(*swept), report()
    assert (done.code, done.err) == (0, "")
    assert "Not counted: up to 3 calls to judge the recommended cell on 2 held-out queries" in planned
    assert len(server.chats) == figures(planned)[2] + 3
    assert len(server.chats) == whole["metrics"]["cost/judge_calls"]["value"] == whole["judge"]["usage"]["calls"]
    following = shlex.split(done.out.partition("Next: ")[2].splitlines()[0])[3:]
    assert run(*following).code == 0
    held_out, again = whole["grid"]["held_out"], report()["metrics"][PRECISION]
    assert (held_out["value"], held_out["n"]) == (pytest.approx(again["value"]), again["n"]) and 0 < again["value"] < 1
    assert whole["grid"]["decision"]["recommended"]["held_out"]["value"] == pytest.approx(again["value"])


def test_a_spent_budget_is_exit_code_3_with_what_was_judged(run: Run, report: Report, server: ChatServer) -> None:
    done = run("--judge.budget.calls", "6", "--judge.max-concurrency", "1")
    assert (done.code, len(server.chats)) == (3, 6)
    assert done.err.strip().startswith("incomplete: the budget of 6 calls is spent (the report is at ")
    whole = report()
    assert whole["judge"]["incomplete"] == "the budget of 6 calls is spent"
    assert (
        "not everything was judged: the budget of 6 calls is spent; the same command continues from there" in done.out
    )
    assert "Next: " not in done.out
    precision = whole["metrics"][PRECISION]
    assert precision["n"] + precision["n_unscored"] == 4 and precision["n_unscored"] > 0
    last = [row["scores"][PRECISION] for row in whole["queries"] if row["in_scope"]][-1]
    assert last == {"unscored": "the budget of 6 calls is spent"}  # an empty result behind the end is no zero
    assert run().code == 0
    assert len(server.chats) == calls_of(report()["queries"])  # what was bought is not bought again


@pytest.mark.parametrize("server", [OpenAIChatServer], indirect=True)
def test_every_run_of_a_process_asks_each_question_once(run: Run, report: Report, server: ChatServer) -> None:
    """langchain-openai keeps one HTTP client for a process: in another event loop its connections are dead."""
    server.keeps_alive = True
    for number in range(3):
        before = len(server.chats)
        assert run("--judge.cache-path", f"{number}.sqlite", "--judge.max-concurrency", "8").code == 0
        usage, calls = report()["judge"]["usage"], calls_of(report()["queries"])
        assert (len(server.chats) - before, usage["calls"], usage.get("unanswered", 0)) == (calls, calls, 0)


def figures(out: str) -> list[int]:
    [line] = (one.strip() for one in out.splitlines() if one.strip().startswith("all"))
    return [int(word.replace(",", "")) for word in line.split()[1:]]


def test_a_plan_counts_the_searches_that_metrics_need(plain: Run) -> None:
    alone = plain("--plan", "--metrics", "ranking/*", "--ids", "forward")
    assert alone.code == 0 and alone.out.strip().startswith("Retrieval\n  1 query embeddings by wordllama:l2")
    assert "0 to measure latency, 0 to repeat queries" in alone.out
    assert "none (judge.model): no LLM-graded metric, no call" in alone.out
    more = plain("--plan", "--metrics", "latency/*,determinism/*").out
    assert "6 for candidates (this plan has made them), 11 to measure latency, 12 to repeat queries" in more


@pytest.mark.parametrize("flags", [("--judge.rejudge", "2"), ("--judge.sample", "2"), SWEEP])
def test_a_plan_counts_what_the_run_will_ask(run: Run, server: ChatServer, flags: tuple[str, ...]) -> None:
    judged = ["--metrics", "ragas/llm_*,ranking/hit_rate_at_5", *flags]
    planned = run("--plan", *judged)
    assert (planned.code, planned.err, server.chats) == (0, "", [])
    assert ("judged again" in planned.out) == ("--judge.rejudge" in flags)
    questions, cached, calls, tokens_in, tokens_out = figures(planned.out)
    prices = f"{{{server.provider}:{MODEL}: {{input: 2, output: 8}}}}"
    priced = f": about {(tokens_in * 2 + tokens_out * 8) / 1e6:.4f} USD."
    assert priced in run("--plan", *judged, "--judge.prices", prices).out
    assert (cached, questions, tokens_out) == (0, calls, 150 * calls)
    assert run(*judged).code in (0, 3)
    assert len(server.chats) == calls > 10
    assert tokens_in == sum(count_tokens(chat.prompt) for chat in server.chats)
    questions, cached, calls, *_ = figures(run("--plan", *judged, "--judge.rejudge", "0").out)
    assert (cached, calls) == (questions, 0)


def test_a_plan_says_what_its_table_does_not_count(run: Run, server: ChatServer) -> None:
    judged = ["--metrics", PRECISION, "--objective.metrics", PRECISION, "--judge.stop.margin", "0.05"]
    planned = run("--plan", *judged, *SWEEP)
    assert (planned.code, server.chats) == (0, []), planned.err
    for said in ("within 0.05 of the best", "no price for", "if an answer has 150 tokens"):
        assert said in planned.out
    assert "\nall " in planned.out and "each way to retrieve: 6 for candidates" in planned.out
    of_second = run("--plan", "--judge.second.model", "cohere:strong", "--judge.second.sample", "2").out
    assert "Counted are 2 of 4 in-scope queries: sample 2." in of_second, "it is not that of the first judge"


# A judge that cannot be asked, fails, or finds nothing of use


def test_over_a_twentieth_failed_is_exit_code_3(run: Run, report: Report, server: ChatServer, tmp_path: Path) -> None:
    run("--judge.cache-path", tmp_path / "other.sqlite", "--ids", "forward")
    with server.faulty("prose", share=0.5):
        done = run("--html", "page.html", "--junit", "junit.xml")
    assert done.code == 3 and "failed" in done.err
    whole, page, suites = report(), Path("page.html").read_text(), Path("junit.xml").read_text()
    assert not whole["passed"] and whole["incomplete"].startswith("ragas/llm")
    assert "Incomplete: ragas/llm" in done.out and "criteria are met" not in done.out
    first_line = f"{whole['verdict']} Incomplete: {whole['incomplete']}."
    assert 'class="badge bad">incomplete<' in page and first_line in unescape(page)
    assert 'type="incomplete"' in suites and 'failures="1"' in suites
    failing = [m for name, m in whole["metrics"].items() if name.startswith("ragas/llm") and m["n_failed"]]
    assert failing and all(m["note"].startswith("unusable, as more than 5% failed") for m in failing)
    assert all(m["bound_low"] < m["bound_high"] for m in failing)
    failures = re.findall(r"^ERROR evals.judge.*? of (\w+) failed", done.err, re.MULTILINE)
    assert failures and {*failures} <= {"forward", "inverse", "channel"}


def test_without_a_judge_no_llm_metric_and_a_note(plain: Run, report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COHERE_API_KEY", "lies about")
    done = plain("--metrics", "ranking/*,ragas/*")
    assert done.code == 0 and "there is no judge (judge.model): no LLM-graded metric was computed" in done.out
    whole = report()
    assert whole["judge"] is None and whole["facts"]["judge"] is None and PRECISION not in whole["metrics"]


def test_metrics_without_a_model_are_scored_by_ragas_after_the_first_screen(plain: Run, report: Report) -> None:
    done = plain("--metrics", WITHOUT_MODEL, "--html", "page.html")
    assert (done.code, report()["ragas_check"]["status"]) == (0, "equal")
    assert done.out.splitlines()[-2:] == ["ragas 0.4.3: equal in all 12 scores of 4 metrics", "Page: page.html"]
    assert "ragas 0.4.3: equal" in Path("page.html").read_text(encoding="utf-8")
    assert plain("--metrics", f"ranking/*,{WITHOUT_MODEL}", "--sweep.top-k", "1,3").code == 0
    assert report()["ragas_check"]["status"] == "equal"
    assert "ragas" not in plain("--metrics", "ranking/*").out and report()["ragas_check"] is None


def test_ragas_gets_verdicts_from_the_store_and_asks_nothing(run: Run, report: Report, server: ChatServer) -> None:
    done, whole = run("--metrics", "ragas/*"), report()
    check, calls = whole["ragas_check"], whole["judge"]["usage"]["calls"]
    assert (done.code, check["status"], len(server.chats)) == (0, "equal", calls)
    assert check["line"] == "ragas 0.4.3: equal in all 24 scores of 8 metrics"


def test_the_report_is_saved_and_shown_before_ragas_is_asked_and_the_page(made: Experiment, tmp_path: Path) -> None:
    file, page, seen = tmp_path / "report.json", tmp_path / "page.html", list[Any]()

    def look(shown: Any) -> None:
        seen.append((shown.report.ragas_check.status, load_report(file), page.exists()))

    config = settings(made, metrics=WITHOUT_MODEL.split(","))
    result = evaluate(experiment=config, outputs=Outputs(report=file, html=page), measured=look)
    [(status, written, page_was_there)], check = seen, load_report(file)["ragas_check"]
    assert (status, written["ragas_check"]["status"], page_was_there) == ("pending", "pending", False)
    assert result.report.ragas_check is not None and result.report.ragas_check.status == "equal"
    assert load_report(file) == written | {"ragas_check": check} and page.exists()


@pytest.mark.slow
def test_nothing_is_written_into_the_home_folder(made: Experiment, tmp_path: Path, report: Report) -> None:
    """Public methods of ragas' classes keep an id of the user there, even where they may send nothing."""
    home = tmp_path / "home"
    home.mkdir()
    flags = ["--config", made.config, "--metrics", WITHOUT_MODEL, "--output", tmp_path / "report.json"]
    done = python(["-m", "evals.run", *flags], tmp_path, {"HOME": str(home), "XDG_DATA_HOME": str(home / "data")})
    assert done.returncode == 0 and report()["ragas_check"]["status"] == "equal"
    assert list(home.iterdir()) == []


def test_a_score_other_than_of_ragas_ends_with_3(plain: Run, report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    right = metric_of(OF_IDS)
    wrong = replace(right, score=lambda r, c: Values.of(right.values(r, c).values * (1 - 1e-8)))
    monkeypatch.setitem(METRICS, OF_IDS, wrong)
    done, check = plain("--metrics", OF_IDS), report()["ragas_check"]
    assert (done.code, check["status"]) == (3, "differs")
    assert "ragas 0.4.3 scores 3 of 3 otherwise: ragas/id_context_precision of forward is" in done.err
    assert all(f"{OF_IDS} of {name} is" in check["line"] for name in ("forward", "inverse", "channel"))


def test_a_class_without_scores_is_not_counted(plain: Run, report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METRICS, OF_IDS, replace(metric_of(OF_IDS), score=lambda r, c: np.full(len(r), np.nan)))
    compared = {
        WITHOUT_MODEL: ": equal in all 9 scores of 3 metrics",
        OF_IDS: " compared nothing: no in-scope query with",
    }
    for metrics, said in compared.items():
        plain("--metrics", metrics)
        assert report()["ragas_check"]["line"].startswith(f"ragas 0.4.3{said}")


def test_an_error_of_ragas_loses_no_figure(plain: Run, report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragas.dataset_schema.SingleTurnSample", None)
    done, whole = plain("--metrics", OF_IDS), report()
    assert (done.code, whole["ragas_check"]["status"], whole["metrics"][OF_IDS]["n"]) == (0, "unchecked", 4)
    assert "ragas 0.4.3 compared nothing: TypeError: " in done.out


# By a real model behind llama.cpp's own server (`make smallmodel`): far too small for a judge, so that what it says is
# checked, whatever that is


@pytest.mark.slow
@pytest.mark.skipif(bool(absent()), reason=absent())
def test_it_judges_thirty_queries_from_the_command_to_the_report(here: Path, command: Run) -> None:
    limits = ["--judge.max-output-tokens", "64", "--judge.max-concurrency", "2", "--judge.timeout-s", "200"]
    given = [*limits, "--judge.model", f"openai:{SMALL_MODEL}", "--judge.cache-path", "verdicts.sqlite", "--no-gate"]
    given += ["--limit", "30", "--retriever.top-k", "1", "--retriever.threshold", "0", "--criteria", "{}"]
    given += ["--metrics", f"{PRECISION},judge/*", "--tracking.enabled", "false"]
    with serving() as url:
        done = command(main, *given, "--judge.base-url", url, "--output", "report.json")
        again = command(main, *given, "--judge.base-url", url, "--output", "again.json")
    assert done.code in (0, 3), done.err  # 3: over 5% of its answers are no verdicts
    report = load_report(here / "report.json")
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
    later = load_report(here / "again.json")["judge"]["usage"]
    assert again.code in (0, 3) and later["hits"] == len(held)
    assert later["calls"] <= 3 * (len(inside) - len(held))

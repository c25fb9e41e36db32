from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evals.run import main
from tests.support.chat_server import CohereChatServer
from tests.support.command import Done, call
from tests.support.experiment import Experiment, settings
from tests.support.judged_experiment import judge_flags, known_of, make_judged
from tests.support.judges import keys

Run = Callable[..., Done]
PRECISION = "ragas/llm_context_precision"
SWEEP = ("--sweep.top-k", "1:3", "--sweep.threshold", "0,0.3", "--sweep.mode", "semantic,keyword")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return make_judged(tmp_path_factory.mktemp("planned"))


@pytest.fixture
def run(made: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments: call(main, ["--config", made.config, *arguments], capsys)


def figures(out: str, start: str) -> list[int]:
    """Questions, cached, calls, and tokens of a line of the plan."""
    line = next(one.strip() for one in out.splitlines() if one.strip().startswith(start))
    return [int(word.replace(",", "")) for word in line.removeprefix(start).split()]


def test_a_plan_counts_the_searches_that_metrics_need(run: Run) -> None:
    alone = run("--plan", "--metrics", "ranking/*")
    assert alone.code == 0
    assert "6 query embeddings by wordllama:l2_supercat_256 (local, free): 6 for candidates" in alone.out
    assert "0 to measure latency, 0 to repeat queries" in alone.out
    assert "none (judge.model): no LLM-graded metric, no call" in alone.out
    more = run("--plan", "--metrics", "latency/*,determinism/*")
    assert "6 for candidates (this plan has made them), 11 to measure latency, 12 to repeat queries" in more.out
    assert (
        run("--plan", "--metrics", "ranking/*", "--ids", "forward")
        .out.strip()
        .startswith("Retrieval\n  1 query embeddings")
    )


@pytest.mark.parametrize("flags", [(), ("--judge.rejudge", "2"), SWEEP], ids=["one run", "judged again", "sweep"])
def test_a_plan_counts_what_the_run_will_ask(
    run: Run, made: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: Any
) -> None:
    _, _, oracle = known_of(settings(made))
    with CohereChatServer(oracle) as server:
        for name, value in keys(server).items():
            monkeypatch.setenv(name, value)
        judge = [*judge_flags(server, tmp_path), "--metrics", "ragas/llm_*,ranking/hit_rate_at_5", *flags]
        planned = run("--plan", *judge)
        assert (planned.code, planned.err) == (0, "") and server.chats == []
        assert ("judged again" in planned.out) == ("--judge.rejudge" in flags)
        questions, cached, calls, *_ = figures(planned.out, "all")
        assert (cached, questions) == (0, calls)
        assert run(*judge).code in (0, 3)
        assert len(server.chats) == calls > 20
        questions, cached, calls, *_ = figures(run("--plan", *judge, "--judge.rejudge", "0").out, "all")
        assert (cached, calls) == (questions, 0)


@pytest.mark.parametrize("flags", [(), SWEEP, (*SWEEP, "--judge.model", "cohere:command")])
def test_judging_in_rounds_needs_cells_a_judge_and_a_judged_objective(run: Run, flags: Any) -> None:
    by_labels = ("--metrics", "ranking/*", "--objective.metrics", "ranking/ndcg_at_3")
    done = run(*by_labels, "--judge.stop.margin", "0.03", *flags)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "judge.stop.margin: expected a sweep whose objective a judge scores" in done.err


def test_a_plan_says_what_its_table_does_not_count(
    run: Run, made: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with CohereChatServer(known_of(settings(made))[2]) as server:
        for name, value in keys(server).items():
            monkeypatch.setenv(name, value)
        judged = ["--metrics", PRECISION, "--objective.metrics", PRECISION, "--judge.stop.margin", "0.05"]
        flags = [*judge_flags(server, tmp_path), *judged, *SWEEP, "--judge.budget.calls", "1"]
        planned = run("--plan", *flags)
        assert (planned.code, server.chats) == (0, []), planned.err
    for said in ("within 0.05 of the best", "no price for", "Time at the given limits: about ", "would stop early: "):
        assert said in planned.out
    assert "  all " in planned.out and "semantic: 6 query embeddings" in planned.out

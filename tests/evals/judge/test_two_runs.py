"""Two judged runs in one process, as in a notebook: connections of the first do not fail the second."""

from pathlib import Path

import pytest

from evals.run import main
from tests.support.chat_server import OpenAIChatServer
from tests.support.command import call
from tests.support.experiment import load_report, settings
from tests.support.judged import keys
from tests.support.judged_experiment import calls_of, judge_flags, known_of, make_judged
from tests.support.loopback import _Handler


def test_every_run_of_a_process_asks_each_question_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """langchain-openai keeps one HTTP client for a process: in another event loop its connections are dead."""
    sent = _Handler.send_header

    def keep_alive(self: _Handler, name: str, value: str) -> None:
        if name == "Connection":
            self.close_connection = False
        else:
            sent(self, name, value)

    monkeypatch.setattr(_Handler, "send_header", keep_alive)
    made, report = make_judged(tmp_path / "made"), tmp_path / "report.json"
    monkeypatch.chdir(tmp_path)
    with OpenAIChatServer(known_of(settings(made))[2]) as server:
        for name, value in keys(server).items():
            monkeypatch.setenv(name, value)
        for number in range(3):
            before = len(server.chats)
            flags = [*judge_flags(server, tmp_path / str(number)), "--output", report, "--judge.max-concurrency", "8"]
            assert call(main, ["--config", made.config, *flags], capsys).code == 0
            asked, whole = len(server.chats) - before, load_report(report)
            usage = whole["judge"]["usage"]
            assert (asked, usage["calls"], usage.get("unanswered", 0)) == (calls_of(whole["queries"]),) * 2 + (0,)

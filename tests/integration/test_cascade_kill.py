"""A cascade of judges that is killed goes on where it was: at most the requests in flight are repeated."""

import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from evals.run import main
from tests.support.chat_server import MODEL, CohereChatServer
from tests.support.command import call
from tests.support.experiment import load_report
from tests.support.judged_grid import make_judged_world, oracle_of
from tests.support.judging import Flaws
from tests.support.killable import start_run
from tests.support.openai_server import OpenAIChatServer

pytestmark = [pytest.mark.slow, pytest.mark.integration]
AT_ONCE = 2


@pytest.mark.parametrize("kill_after", [3, 25])
def test_a_killed_cascade_buys_nothing_twice(
    tmp_path: Path, kill_after: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = make_judged_world(tmp_path)
    with (
        CohereChatServer(oracle_of(made, Flaws(false_useful=0.2)), latency=0.02) as small,
        OpenAIChatServer(oracle_of(made), latency=0.02) as large,
    ):
        flags = ["--config", str(made.config), "--judge.model", f"cohere:{MODEL}", "--judge.base-url", small.url]
        flags += ["--judge.second.model", f"openai:{MODEL}", "--judge.second.sample", "4"]
        flags += ["--judge.max-concurrency", str(AT_ONCE), "--judge.cache-path", str(tmp_path / "verdicts.sqlite")]
        flags += ["--output", str(tmp_path / "report.json"), "--tracking.enabled", "false"]
        env = {"COHERE_API_KEY": small.key, "OPENAI_API_KEY": large.key, "OPENAI_BASE_URL": large.base_url}
        process = start_run(flags, tmp_path, env)
        while len(small.chats) + len(large.chats) < kill_after and process.is_alive():
            time.sleep(0.005)
        assert process.pid is not None and process.is_alive()
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        done = call(main, flags, capsys)
        assert (done.code, done.err) == (0, "")
        for server in (small, large):
            prompts = Counter(chat.prompt for chat in server.chats)
            assert sum(prompts.values()) - len(prompts) <= AT_ONCE
        judge = load_report(tmp_path / "report.json")["judge"]
        assert "4 of 8 in-scope queries" in " ".join(judge["lines"])
        assert judge["usage"]["failed"] == 0

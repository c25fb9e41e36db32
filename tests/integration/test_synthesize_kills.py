"""A synthesis that is killed loses nothing that it has paid for, and ends as if it had never been killed."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.child import environment
from tests.support.writing_model import WritingModel

pytestmark = [pytest.mark.slow, pytest.mark.integration]
AT_ONCE = 2


def begin(model: WritingModel, handbook: Path, folder: Path, name: str) -> "subprocess.Popen[str]":
    command = [
        sys.executable, "-m", "evals.golden", "synthesize", *model.flags, "--docs", str(handbook / "docs"),
        "--per-type", "factual=12,comparison=4,near_domain=4", "--judge.max-concurrency", str(AT_ONCE),
        "--judge.cache-path", str(folder / f"{name}.sqlite"), "--out", str(folder / f"{name}.jsonl"),
    ]  # fmt: skip
    pipe = subprocess.PIPE
    env = environment({"OPENAI_API_KEY": model.key})
    return subprocess.Popen(command, cwd=folder, env=env, stdout=pipe, stderr=pipe, text=True)


def test_killed_three_times_it_buys_again_only_what_was_in_flight(handbook: Path, tmp_path: Path) -> None:
    with WritingModel() as model:
        undisturbed = begin(model, handbook, tmp_path, "undisturbed")
        assert undisturbed.communicate(timeout=200)[1] == ""
        calls = len(model.chats)
    with WritingModel(latency=0.02) as model:
        for killed_after in (6, 15, 30):
            child = begin(model, handbook, tmp_path, "killed")
            while len(model.chats) < killed_after and child.poll() is None:
                time.sleep(0.005)
            child.kill()
            child.communicate()
            assert child.returncode == -signal.SIGKILL
            assert not (tmp_path / "killed.jsonl").exists()
        last = begin(model, handbook, tmp_path, "killed")
        out, err = last.communicate(timeout=200)
        assert (last.returncode, err) == (0, ""), out
        assert calls <= len(model.chats) <= calls + 3 * AT_ONCE
    assert (tmp_path / "killed.jsonl").read_bytes() == (tmp_path / "undisturbed.jsonl").read_bytes()

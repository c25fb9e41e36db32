"""The interpreter that has the libraries imported behaves as the one that has not."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.child import python
from tests.support.warm import LIBRARIES

pytestmark = pytest.mark.integration
SHOW = """
import json, os, sys
own = [name for name in sys.modules if name.partition(".")[0] in ("evals", "retrievers", "tests")]
print(json.dumps([os.getcwd(), os.environ.get("WHERE"), os.environ.get("HOME"), sys.argv, sys.path[0], own, __name__]))
"""


@pytest.mark.parametrize("how", ["-c", "-m", "-"])
def test_a_command_finds_what_it_finds_in_the_real_one(warm: Path, tmp_path: Path, how: str) -> None:
    (tmp_path / "shown.py").write_text(SHOW)
    arguments = {"-c": ["-c", SHOW, "a", "b c"], "-m": ["-m", "shown", "--flag"], "-": ["-", "d"]}[how]
    found = [
        subprocess.run(
            [program, *arguments], cwd=tmp_path, env={"WHERE": "here"}, input=SHOW, capture_output=True, text=True,
            check=True,
        )
        for program in (warm, sys.executable)
    ]  # fmt: skip
    assert (found[0].stdout, found[0].stderr) == (found[1].stdout, found[1].stderr)
    assert json.loads(found[0].stdout)[-2:] == [[], "__main__"]


def test_the_libraries_are_there_and_nothing_is_said(warm: Path, tmp_path: Path) -> None:
    done = python(
        ["-c", f"import sys; print([name for name in {LIBRARIES} if name not in sys.modules])"], tmp_path, {}, warm
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


@pytest.mark.parametrize(
    ("code", "said"),
    [("raise SystemExit(3)", 3), ("1 / 0", 1), ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL)],
)
def test_a_command_ends_as_in_the_real_one(warm: Path, tmp_path: Path, code: str, said: int) -> None:
    done = python(["-c", code], tmp_path, {}, warm)
    assert done.returncode == said
    assert ("ZeroDivisionError" in done.stderr) == (said == 1)


@pytest.mark.parametrize("what", [signal.SIGINT, signal.SIGTERM], ids=lambda what: str(what.name))
def test_a_signal_reaches_the_command(warm: Path, tmp_path: Path, what: signal.Signals) -> None:
    code = f"import signal, sys, time; signal.signal({int(what)}, lambda *_: sys.exit(5)); print(1, flush=True)"
    with subprocess.Popen([warm, "-c", f"{code}; time.sleep(60)"], cwd=tmp_path, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"1\n"
        process.send_signal(what)
        assert process.wait(20) == 5

"""How a command that a signal ended leaves."""

import subprocess
import sys
from pathlib import Path

from tests.support.child import environment

COMMAND = """
def main():
    print("what was found by then")
    return 130
"""


def test_what_was_printed_before_an_interruption_reaches_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(COMMAND)
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from retrievers.terminal import start; start('slow:main')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**environment(), "PYTHONUNBUFFERED": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (130, "what was found by then\n")

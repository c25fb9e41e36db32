"""Two runs of one name at the same time."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.child import environment
from tests.support.experiment import load_report, make_experiment

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def test_two_runs_of_one_name_at_once_keep_each_its_report(tmp_path: Path) -> None:
    made = make_experiment(tmp_path)
    arguments = [
        "--config",
        str(made.config),
        "--tracking.enabled",
        "true",
        "--tracking.run-name",
        "nightly",
        "--no-gate",
    ]
    index = [sys.executable, "-m", "evals.run", "--config", str(made.config), "--quiet"]
    subprocess.run(index, cwd=tmp_path, env=environment(), check=True, timeout=120)
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "evals.run", *arguments, "--seed", seed],
            cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for seed in ("1", "2")
    ]  # fmt: skip
    said = [child.communicate(timeout=120) for child in children]
    assert [child.returncode for child in children] == [0, 0]
    told = [re.search(r"^Report: (.*)$", out, re.MULTILINE) for out, _ in said]
    files = [tmp_path / place[1] for place in told if place]
    assert sorted(file.name for file in files) == ["nightly-2.json", "nightly.json"]
    assert [load_report(file)["config"]["seed"] for file in files] == [1, 2], "each is told where its own report is"
    assert {*(tmp_path / "mlruns" / "reports").iterdir()} == {*files}

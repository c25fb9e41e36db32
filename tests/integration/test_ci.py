"""The workflow of docs/compare.md, run step by step as the CI system would: main first, then a pull request."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = [pytest.mark.integration, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
WORKFLOW: dict[str, Any] = yaml.safe_load(next(text for kind, text in BLOCKS if kind == "yaml"))
STEPS = WORKFLOW["jobs"]["evaluate"]["steps"]
COMMANDS = {step["name"]: step["run"] for step in STEPS if "run" in step}
BASH = [line for kind, text in BLOCKS if kind == "bash" for line in text.splitlines()]


class Machine:
    """A checkout on a CI machine; what one step adds to the path, the next ones find."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.added = folder.parent / f"{folder.name}.path"

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        added = self.added.read_text().split() if self.added.exists() else []
        env = {
            "PATH": ":".join([*added, os.environ["PATH"]]),
            "HOME": str(self.folder),
            "OPENBLAS_NUM_THREADS": "1",
            "GITHUB_PATH": str(self.added),
        }
        return subprocess.run(
            ["bash", "-e", "-c", command],
            cwd=self.folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

    def read(self, name: str) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.folder / name).read_text(encoding="utf-8"))
        return loaded


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """A checkout in which the virtual environment is made already: this one's programs."""
    folder = tmp_path_factory.mktemp("ci") / "checkout"
    ignored = shutil.ignore_patterns(".git", ".venv*", ".qdrant", "mlruns", "__pycache__", ".*_cache", ".hypothesis")
    shutil.copytree(ROOT, folder, ignore=ignored)
    venv = folder / ".venv"
    venv.mkdir()
    for name in ("bin", "lib", "pyvenv.cfg"):
        (venv / name).symlink_to(Path(sys.prefix, name))
    (venv / ".installed").touch()
    return Machine(folder)


@pytest.fixture(scope="module")
def after_main(machine: Machine) -> Machine:
    """A push to main has left its report as the baseline."""
    for name in ("Install", "Evaluate", "Make this report the baseline"):
        done = machine.run(COMMANDS[name])
        assert (done.returncode, done.stderr) == (0, ""), name
    return machine


def test_every_command_is_run_by_a_test_and_every_other_step_is_an_action() -> None:
    assert list(COMMANDS) == ["Install", "Evaluate", "Compare with the baseline", "Make this report the baseline"]
    assert all("uses" in step for step in STEPS if "run" not in step)
    assert len(BASH) == 3


def test_main_leaves_a_baseline_and_a_junit_file(after_main: Machine) -> None:
    assert after_main.read("baseline.json") == after_main.read("report.json")
    assert (after_main.folder / "junit.xml").read_text().startswith("<?xml")
    assert str(after_main.folder / ".venv" / "bin") in after_main.added.read_text()


@pytest.fixture
def pull_request(after_main: Machine) -> Machine:
    """A pull request that changes nothing has been evaluated: its report is another one, of the same scores."""
    report = after_main.folder / "report.json"
    evaluated = after_main.folder.parent / "evaluated.json"
    if not evaluated.exists():
        assert after_main.run(COMMANDS["Evaluate"]).returncode == 0
        shutil.copy(report, evaluated)
    shutil.copy(evaluated, report)
    return after_main


def test_a_pull_request_that_changes_nothing_passes(pull_request: Machine) -> None:
    done = pull_request.run(COMMANDS["Compare with the baseline"])
    assert (done.returncode, done.stderr) == (0, "")
    assert pull_request.read("comparison.json")["passed"] is True


def test_a_pull_request_that_makes_retrieval_worse_fails(after_main: Machine) -> None:
    experiment = after_main.folder / "evals" / "config" / "presets" / "default.yaml"
    before = experiment.read_text()
    experiment.write_text(before.replace("top_k: 5", "top_k: 1"))
    try:
        assert after_main.run(COMMANDS["Evaluate"]).returncode in (0, 1)
    finally:
        experiment.write_text(before)
    done = after_main.run(COMMANDS["Compare with the baseline"])
    assert (done.returncode, done.stderr) == (1, "")
    assert "FAIL  ranking/ndcg_at_5" in done.stdout
    [found] = after_main.read("comparison.json")["comparisons"]
    assert {one["setting"]: one["other"] for one in found["settings"]}["retriever.top_k"] == 1


def test_a_committed_baseline(pull_request: Machine) -> None:
    run, add, compare = BASH
    assert pull_request.run(run).returncode == 0
    assert pull_request.run(f"git init --quiet && {add} && git diff --cached --name-only").stdout.split() == [
        "tests/retrieval-baseline.json"
    ]
    done = pull_request.run(compare)
    assert (done.returncode, done.stderr) == (0, "")
    assert "pass  ranking/ndcg_at_5" in done.stdout

"""What is shipped: wheel and sdist, run in an empty folder; benchmarks and examples, which start and run."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from evals.run import main
from tests.support.command import ROOT, call, environment, python

pytestmark = pytest.mark.integration
BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"
UV = shutil.which("uv", path=os.pathsep.join([os.environ["PATH"], str(Path(sys.executable).parent)]))


def built(kind: str, source: Path, into: Path) -> Path:
    """Build a wheel or an sdist as an installer does, in a process of its own."""
    command = [sys.executable, "-c", BUILD, f"build_{kind}", str(into)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return into / done.stdout.split()[-1]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist of a checkout without what is not committed."""
    folder = tmp_path_factory.mktemp("built")
    for name in ("evals", "retrievers", "datasets"):
        shutil.copytree(ROOT / name, folder / "checkout" / name, ignore=shutil.ignore_patterns("__pycache__"))
    for pattern in ("*.toml", "*.md", "*.in", "*.lock", "setup.py", "LICENSE"):
        for file in ROOT.glob(pattern):
            shutil.copy(file, folder / "checkout")
    return built("sdist", folder / "checkout", folder)


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that the sdist gives: it holds all that a wheel is made of."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    [source] = folder.iterdir()
    return built("wheel", source, folder)


def committed(folder: str) -> set[str]:
    found = (file for file in (ROOT / folder).rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    return {file.relative_to(ROOT).as_posix() for file in found}


@pytest.mark.slow
def test_the_archives_hold_both_packages_and_the_data_and_nothing_else(wheel: Path, sdist: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    own = {name for name in names if ".dist-info/" not in name}
    assert own == committed("evals") | committed("retrievers") | {f"evals/{file}" for file in committed("datasets")}
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    with tarfile.open(sdist) as archive:
        sources = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "CHANGELOG.md", "requirements.lock", "setup.py"} <= sources
    assert not any(name.startswith(("tests", "mlruns", ".qdrant")) for name in sources)


@dataclass(frozen=True)
class Installed:
    folder: Path

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the console script in an empty folder, as a user with an empty home would."""
        usual = {name: value for name, value in environment().items() if name not in ("PYTHONPATH", "XDG_CACHE_HOME")}
        command = [str(self.folder / "venv" / "bin" / "retrieval-evals"), *arguments]
        env = {**usual, "HOME": str(self.folder / "home"), "PATH": "/usr/bin:/bin"}
        return subprocess.run(
            command, cwd=self.folder / "work", env=env, capture_output=True, text=True, check=False, timeout=300
        )

    def files(self) -> set[Path]:
        return {file for file in (self.folder / "venv").rglob("*") if file.is_file() and file.suffix != ".pyc"}


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("machine")
    for name in ("home", "work"):
        (folder / name).mkdir()
    uv = UV or pytest.skip("uv is neither on the PATH nor beside this Python")
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    command: list[str | Path] = [uv, "pip", "install", "--quiet", "--python", venv / "bin" / "python"]
    subprocess.run([*command, "--constraint", ROOT / "requirements.lock", wheel], check=True, timeout=600)
    return Installed(folder)


@pytest.mark.slow
def test_an_installed_wheel_runs_the_default_experiment_in_an_empty_folder(installed: Installed) -> None:
    before, work = installed.files(), installed.folder / "work"
    done = installed.run("run", "--no-gate")
    assert done.returncode == 0, done.stderr
    [report] = (work / "mlruns" / "reports").glob("default-*.json")
    assert len(json.loads(report.read_text(encoding="utf-8"))["queries"]) == 88
    assert [file.name for file in work.iterdir()] == ["mlruns"]
    assert (installed.folder / "home" / ".cache" / "retrieval-evals" / ".qdrant" / "collections").is_dir()
    assert installed.files() == before
    found = installed.run("search", "how do ROS 2 topics work", "--top-k", "1")
    assert (found.returncode, "physical_ai_handbook" in found.stdout) == (0, True), found.stderr


# Every benchmark starts and measures something small; the examples run

BENCHMARKS = ROOT / "benchmarks"
EXAMPLES = ROOT / "examples"
SMALL: Mapping[str, Sequence[str]] = {
    "default_run": ("--rounds", "1", "--flags", "--limit 5"),
    "embedding_models": ("--help",),
    "grid": ("--help",),
    "handbook": ("--limit", "3"),
    "judge": ("--help",),
    "paired_intervals": ("--samples", "10"),
    "proxies": ("--draws", "5"),
    "rounds": ("--draws", "1"),
    "scale": ("--queries", "100", "--chunks", "200"),
}
"""Three read a test collection, and are asked for their flags: mypy knows the rest."""


def test_every_benchmark_is_started() -> None:
    assert {*SMALL} == {file.stem for file in BENCHMARKS.glob("*.py")} - {"cranfield"}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_a_benchmark_measures_something_small(name: str, tmp_path: Path) -> None:
    done = python([str(BENCHMARKS / f"{name}.py"), *SMALL[name]], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_experiment_on_ones_own_qdrant_is_understood(capsys: Any) -> None:
    done = call(main, ["--config", EXAMPLES / "own_qdrant.yaml", "--print-config"], capsys)
    assert (done.code, done.err) == (0, "")
    assert "embed-english-v3.0" in done.out and "out_of_scope: 0.2" in done.out


def test_the_notebook_runs(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for cell in json.loads((EXAMPLES / "notebook.ipynb").read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)  # what a reader of the notebook runs
    assert names["result"].metrics["ranking/hit_rate_at_3"].value == 1.0
    swept = names["sweep"](names["find"], names["golden"], top_k=[1, 2, 3], threshold=[0.0, 0.1, 0.2, 0.3])
    assert "Which threshold and top_k?" in str(swept)

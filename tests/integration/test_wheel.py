"""The wheel and the sdist: what is in them, and the default experiment run by an installed wheel in an empty folder."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.child import environment

pytestmark = [pytest.mark.integration, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
SOURCES = ("evals", "retrievers", "datasets")
BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"
UV = shutil.which("uv", path=os.pathsep.join([os.environ["PATH"], str(Path(sys.executable).parent)]))


def built(kind: str, source: Path, into: Path) -> Path:
    """Build a wheel or an sdist as an installer does, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", BUILD, f"build_{kind}", into], cwd=source, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return into / done.stdout.split()[-1]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist of a checkout without what is not committed."""
    folder = tmp_path_factory.mktemp("built")
    ignored = shutil.ignore_patterns("__pycache__")
    for name in SOURCES:
        shutil.copytree(ROOT / name, folder / "checkout" / name, ignore=ignored)
    for file in (*ROOT.glob("*.toml"), *ROOT.glob("*.md"), *ROOT.glob("*.in"), *ROOT.glob("*.lock"), ROOT / "setup.py"):
        shutil.copy(file, folder / "checkout")
    shutil.copy(ROOT / "LICENSE", folder / "checkout")
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
    """The files of a folder of the checkout, as a wheel names them."""
    found = (file for file in (ROOT / folder).rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    return {file.relative_to(ROOT).as_posix() for file in found}


def test_the_wheel_holds_both_packages_and_the_data_below_evals_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    own = {name for name in names if ".dist-info/" not in name}
    data = {f"evals/{file}" for file in committed("datasets")}
    assert own == committed("evals") | committed("retrievers") | data
    assert {name.partition("/")[0] for name in own} == {"evals", "retrievers"}
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_the_sdist_holds_the_lock_file_and_the_license(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "CHANGELOG.md", "requirements.lock", "setup.py"} <= names
    assert not any(name.startswith(("tests", "mlruns", ".qdrant")) for name in names)


class Installed:
    """A virtual environment with the wheel and what the lock file names, and a user with an empty home."""

    def __init__(self, folder: Path) -> None:
        self.venv = folder / "venv"
        self.home = folder / "home"
        self.work = folder / "work"

    def run(self, *arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run the console script, as a user would, outside of any checkout."""
        env: Mapping[str, str] = {**environment(), "HOME": str(self.home), "PATH": "/usr/bin:/bin"}
        return subprocess.run(
            [self.venv / "bin" / "retrieval-evals", *arguments],
            cwd=folder or self.work,
            env={name: value for name, value in env.items() if name not in ("PYTHONPATH", "XDG_CACHE_HOME")},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def files(self) -> set[Path]:
        """All that the environment has, besides what Python compiles."""
        return {file for file in self.venv.rglob("*") if file.is_file() and file.suffix != ".pyc"}


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    machine = Installed(tmp_path_factory.mktemp("machine"))
    machine.home.mkdir()
    machine.work.mkdir()
    uv = UV or pytest.skip("uv is neither on the PATH nor beside this Python")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", machine.venv], check=True)
    command: list[str | Path] = [uv, "pip", "install", "--quiet", "--python", machine.venv / "bin" / "python"]
    subprocess.run([*command, "--constraint", ROOT / "requirements.lock", wheel], check=True, timeout=600)
    return machine


def test_an_installed_wheel_runs_the_default_experiment_in_an_empty_folder(installed: Installed) -> None:
    before = installed.files()
    done = installed.run("run", "--no-gate")
    assert done.returncode == 0, done.stderr
    [report] = (installed.work / "mlruns" / "reports").glob("default-*.json")
    assert len(json.loads(report.read_text(encoding="utf-8"))["queries"]) == 88
    assert [file.name for file in installed.work.iterdir()] == ["mlruns"]
    assert (installed.home / ".cache" / "retrieval-evals" / ".qdrant" / "collections").is_dir()
    assert installed.files() == before
    found = installed.run("search", "how do ROS 2 topics work", "--top-k", "1")
    assert (found.returncode, "physical_ai_handbook" in found.stdout) == (0, True), found.stderr


def test_a_cache_folder_that_cannot_be_written_is_named(installed: Installed, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file, where a folder is wanted")
    installed.home, home = taken, installed.home
    try:
        done = installed.run("run")
    finally:
        installed.home = home
    assert (done.returncode, done.stdout) == (2, "")
    assert f"the embedded store at {taken}/.cache/retrieval-evals/.qdrant cannot be opened; " in done.stderr
    assert "name another with --retriever.store.path" in done.stderr

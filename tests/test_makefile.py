"""How the Makefile installs: by uv from the PATH, by uv in the virtual environment, by pip. Stubs record the calls."""

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOLS = ("make", "sh", "basename", "cp", "touch")
RECORD = 'echo "$(basename $0) $*" >>calls\n'
# In the place of the environment's Python: `pip install uv` works or fails as the file `uv-can-be-had` says, -c is run.
PYTHON = f"""{RECORD}case "$*" in
  *" install --quiet uv"*) [ -e uv-can-be-had ] && cp uv-stub .venv/bin/uv ;;
  "-c "*) exec {sys.executable} "$@" ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, tmp_path)
    for name in (".venv/bin", "path"):
        (tmp_path / name).mkdir(parents=True)
    script(tmp_path / ".venv" / "bin" / "python", PYTHON)
    script(tmp_path / "uv-stub", RECORD)
    for tool in TOOLS:
        (tmp_path / "path" / tool).symlink_to(str(shutil.which(tool)))
    return tmp_path


def script(file: Path, text: str) -> None:
    file.write_text(f"#!/bin/sh\n{text}", encoding="utf-8")
    file.chmod(0o755)


def run(checkout: Path, target: str) -> subprocess.CompletedProcess[str]:
    """Run make with nothing on the PATH but the folder `path`."""
    env = {"PATH": str(checkout / "path")}
    return subprocess.run(
        ["make", target], cwd=checkout, env=env, capture_output=True, text=True, timeout=60, check=False
    )


def install(checkout: Path, target: str = ".venv/.installed") -> list[str]:
    """Install into the virtual environment; the calls that it took."""
    done = run(checkout, target)
    assert done.returncode == 0, done.stderr
    return (checkout / "calls").read_text(encoding="utf-8").splitlines()


def test_an_older_python_is_refused_before_anything_is_made(checkout: Path) -> None:
    shutil.rmtree(checkout / ".venv")
    script(checkout / "path" / "python3", '[ "$1" = --version ] && echo Python 3.9.6; exit 1')
    done = run(checkout, ".venv/.installed")
    assert done.returncode == 2
    assert done.stderr.startswith("expected Python 3.11 or later, found Python 3.9.6: name one with make PYTHON=")
    assert not (checkout / ".venv").exists()


LOCKED = "--constraint requirements.lock --build-constraints requirements.lock --editable"


def test_uv_on_the_path_installs_from_the_lock(checkout: Path) -> None:
    script(checkout / "path" / "uv", RECORD)
    assert install(checkout) == [f"uv pip install --python .venv/bin/python {LOCKED} ."]


def test_uv_is_installed_where_it_is_not_on_the_path(checkout: Path) -> None:
    (checkout / "uv-can-be-had").touch()
    bootstrap, call = install(checkout, ".venv/.installed-dev")
    assert bootstrap.startswith("python -m pip") and "install --quiet uv" in bootstrap
    assert call == f"uv pip install --python .venv/bin/python {LOCKED} .[dev]"


def test_a_newer_pip_takes_its_place_where_uv_cannot_be_had(checkout: Path) -> None:
    calls = install(checkout, ".venv/.installed-dev")
    pips = [call.partition(" install ")[2] for call in calls if call.startswith("python -m pip")]
    assert pips[1:] == [
        "--quiet --upgrade pip>=26.1",
        "--no-compile --constraint requirements.lock --requirement .venv/requirements.txt",
        "--no-deps --build-constraint requirements.lock --editable .",
    ]
    wanted = (checkout / ".venv" / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert "ragas==0.4.3" in wanted and "ruff==0.17.6" in wanted
    assert "xllamacpp>=2026.10" not in wanted


def test_the_container_file_installs_the_wheel_from_the_lock_and_calls_the_console_script(checkout: Path) -> None:
    script(checkout / "path" / "uv", "mkdir -p dist && touch dist/retrieval_evals-0-py3-none-any.whl")
    for tool in ("rm", "mkdir"):
        (checkout / "path" / tool).symlink_to(str(shutil.which(tool)))
    assert run(checkout, "image").returncode == 0
    steps = (checkout / "dist" / "Containerfile").read_text(encoding="utf-8").splitlines()
    [copied] = [step.split()[1:-1] for step in steps if step.startswith("COPY ") and "--from" not in step]
    assert all([*(checkout / "dist").glob(pattern)] for pattern in copied)
    [install] = [step for step in steps if "uv pip install" in step]
    assert install.endswith("--constraint /tmp/requirements.lock /tmp/*.whl")
    project = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pythons = {step.split()[1] for step in steps if step.startswith("FROM ")}
    supported = {f"python:{name.rpartition(' ')[2]}-slim" for name in project["classifiers"] if "Python :: 3." in name}
    assert len(pythons) == 1 and pythons <= supported
    [entry] = [step.partition(" ")[2] for step in steps if step.startswith("ENTRYPOINT ")]
    assert json.loads(entry) == [*project["scripts"]]
    assert steps.index("USER evals") < steps.index('CMD ["run"]')

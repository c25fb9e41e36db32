"""What is installed, and how: packages and data files, versions of the lock file, the Makefile's way, CI."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from evals.__main__ import script
from evals.judge.chat import EXTRAS
from retrievers.config.models import EMBEDDING_PROVIDERS

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
# SHA-256 of the license as the Apache Software Foundation publishes it.
APACHE_2 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"


def test_the_license_is_the_text_that_the_metadata_name() -> None:
    [file] = PROJECT["license-files"]
    digest = hashlib.sha256((ROOT / file).read_bytes()).hexdigest()
    assert (PROJECT["license"], digest) == ("Apache-2.0", APACHE_2)
    assert not any(classifier.startswith("License ::") for classifier in PROJECT["classifiers"])
    assert "urls" not in PROJECT


def test_the_console_script_and_its_extras() -> None:
    assert resolve_name(PROJECT["scripts"]["retrieval-evals"]) is script
    extras = set(PROJECT["optional-dependencies"]) - {"dev", "smallmodel"}
    embedding = {name.replace("_", "-") for name in EMBEDDING_PROVIDERS}
    assert extras <= {*EXTRAS, *embedding, "pdf", "rerank"} and {*EXTRAS, "pdf", "rerank"} <= extras


def test_the_lock_file_meets_every_requirement_with_hashes_and_names_no_host() -> None:
    pins = re.findall(r"^([a-z0-9-]+)==(\S+)([^\n]*(?:\n    --hash=sha256:[0-9a-f]{64}[^\n]*)*)", LOCK, re.MULTILINE)
    assert len(pins) > 150 and all("--hash=sha256:" in rest for _, _, rest in pins)
    assert "://" not in LOCK
    extras = PROJECT["optional-dependencies"]
    for line in [*PROJECT["dependencies"], *extras["dev"], *extras["smallmodel"]]:
        requirement = Requirement(line)
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        assert any(requirement.specifier.contains(version) for known, version, _ in pins if known == name), line


def test_ci_tests_every_supported_python_and_the_commit_hook_runs_what_ci_checks() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    jobs = workflow["jobs"]
    assert jobs["test"]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]
    commands = {name: [step["run"] for step in job["steps"] if "run" in step] for name, job in jobs.items()}
    assert commands == {"check": ["make check"], "test": ["make test"], "slow": [".ci/run"]}
    assert workflow["permissions"] == {"contents": "read"}
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
    assert [hook["entry"].split()[-2:] for hook in hooks] == [["--no-print-directory", "check"]]
    assert "make --no-print-directory check" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


# The Makefile installs by uv from the PATH, by uv in the virtual environment, or by pip. Stubs record the calls.

TOOLS = ("make", "sh", "basename", "cp", "touch", "rm", "mkdir")
RECORD = 'echo "$(basename $0) $*" >>calls\n'
# In the place of the environment's Python: `pip install uv` works or fails as the file `uv-can-be-had` says, -c is run.
PYTHON = f"""{RECORD}case "$*" in
  *" install --quiet uv"*) [ -e uv-can-be-had ] && cp uv-stub .venv/bin/uv ;;
  "-c "*) exec {sys.executable} "$@" ;;
esac
"""
LOCKED = "--constraint requirements.lock --build-constraints requirements.lock --editable"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, tmp_path)
    for name in (".venv/bin", "path"):
        (tmp_path / name).mkdir(parents=True)
    stub(tmp_path / ".venv" / "bin" / "python", PYTHON)
    stub(tmp_path / "uv-stub", RECORD)
    for tool in TOOLS:
        (tmp_path / "path" / tool).symlink_to(str(shutil.which(tool)))
    return tmp_path


def stub(file: Path, text: str) -> None:
    file.write_text(f"#!/bin/sh\n{text}", encoding="utf-8")
    file.chmod(0o755)


def make(checkout: Path, target: str, code: int = 0) -> str:
    """Run make with nothing on the PATH but the folder `path`; return what it says of errors."""
    env = {"PATH": str(checkout / "path")}
    done = subprocess.run(["make", target], cwd=checkout, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stderr


def calls(checkout: Path) -> list[str]:
    return (checkout / "calls").read_text(encoding="utf-8").splitlines()


def test_an_older_python_is_refused_before_anything_is_made(checkout: Path) -> None:
    shutil.rmtree(checkout / ".venv")
    stub(checkout / "path" / "python3", '[ "$1" = --version ] && echo Python 3.9.6; exit 1')
    said = make(checkout, ".venv/.installed", code=2)
    assert said.startswith("expected Python 3.11 or later, found Python 3.9.6: name one with make PYTHON=")
    assert not (checkout / ".venv").exists()


def test_uv_installs_from_the_lock_and_is_itself_installed_where_it_is_not_on_the_path(checkout: Path) -> None:
    on_path = checkout / "path" / "uv"
    stub(on_path, RECORD)
    make(checkout, ".venv/.installed")
    on_path.unlink()
    (checkout / "uv-can-be-had").touch()
    make(checkout, ".venv/.installed-dev")
    by_uv, bootstrap, by_its_own = calls(checkout)
    assert by_uv == f"uv pip install --python .venv/bin/python {LOCKED} ."
    assert bootstrap.startswith("python -m pip") and "install --quiet uv" in bootstrap
    assert by_its_own == f"uv pip install --python .venv/bin/python {LOCKED} .[dev]"


def test_a_newer_pip_takes_its_place_where_uv_cannot_be_had(checkout: Path) -> None:
    make(checkout, ".venv/.installed-dev")
    pips = [call.partition(" install ")[2] for call in calls(checkout) if call.startswith("python -m pip")]
    assert pips[1:] == [
        "--quiet --upgrade pip>=26.1",
        "--no-compile --constraint requirements.lock --requirement .venv/requirements.txt",
        "--no-deps --build-constraint requirements.lock --editable .",
    ]
    wanted = (checkout / ".venv" / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert {"ragas==0.4.3", "ruff==0.17.6"} <= {*wanted} and "xllamacpp>=2026.10" not in wanted


def test_the_container_file_installs_the_wheel_from_the_lock_and_calls_the_console_script(checkout: Path) -> None:
    stub(checkout / "path" / "uv", "mkdir -p dist && touch dist/retrieval_evals-0-py3-none-any.whl")
    make(checkout, "image")
    steps = (checkout / "dist" / "Containerfile").read_text(encoding="utf-8").splitlines()
    [copied] = [step.split()[1:-1] for step in steps if step.startswith("COPY ") and "--from" not in step]
    assert all([*(checkout / "dist").glob(pattern)] for pattern in copied)
    [install] = [step for step in steps if "uv pip install" in step]
    assert install.endswith("--constraint /tmp/requirements.lock /tmp/*.whl")
    pythons = {step.split()[1] for step in steps if step.startswith("FROM ")}
    supported = {f"python:{name.rpartition(' ')[2]}-slim" for name in PROJECT["classifiers"] if ":: 3." in name}
    assert len(pythons) == 1 and pythons <= supported
    [entry] = [step.partition(" ")[2] for step in steps if step.startswith("ENTRYPOINT ")]
    assert json.loads(entry) == [*PROJECT["scripts"]]
    assert steps.index("USER evals") < steps.index('CMD ["run"]')

"""What is installed: packages and data files as pyproject.toml lists them, versions as requirements.lock names them."""

import hashlib
import re
import tomllib
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import yaml
from packaging.requirements import Requirement

from evals.__main__ import script
from evals.judge.chat import EXTRAS
from retrievers.config import EMBEDDING_PROVIDERS

ROOT = Path(__file__).parents[1]
PACKAGES = ("evals", "retrievers")
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS: dict[str, Any] = PYPROJECT["tool"]["setuptools"]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")

# SHA-256 of the license as the Apache Software Foundation publishes it.
APACHE_2 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"


def files(package: str) -> set[Path]:
    """All that belong to a package, from its folder on."""
    found = (ROOT / package).rglob("*")
    return {file.relative_to(ROOT) for file in found if file.is_file() and "__pycache__" not in file.parts}


def test_every_folder_with_code_is_a_package() -> None:
    folders = {file.parent for package in PACKAGES for file in files(package) if file.suffix == ".py"}
    assert all((ROOT / folder / "__init__.py").is_file() for folder in folders)


def test_every_other_file_is_package_data() -> None:
    data = SETUPTOOLS["package-data"]
    assert set(data) == {*PACKAGES, "evals.datasets"}
    for package, globs in data.items():
        folder = package.removeprefix("evals.")
        others = {file for file in files(folder) if file.suffix != ".py"}
        listed = {glob: {found.relative_to(ROOT) for found in (ROOT / folder).glob(glob)} for glob in globs}
        assert set().union(*listed.values()) == others
        assert all(listed.values())


def test_the_license_is_the_text_that_the_metadata_name() -> None:
    project = PYPROJECT["project"]
    [file] = project["license-files"]
    digest = hashlib.sha256((ROOT / file).read_bytes()).hexdigest()
    assert (project["license"], digest) == ("Apache-2.0", APACHE_2)
    assert not any(classifier.startswith("License ::") for classifier in project["classifiers"])
    assert "urls" not in project


def test_the_console_script_and_its_extras() -> None:
    assert resolve_name(PYPROJECT["project"]["scripts"]["retrieval-evals"]) is script
    extras = set(PYPROJECT["project"]["optional-dependencies"]) - {"dev", "smallmodel"}
    embedding = {name.replace("_", "-") for name in EMBEDDING_PROVIDERS}
    assert extras <= {*EXTRAS, *embedding, "pdf", "rerank"} and {*EXTRAS, "pdf", "rerank"} <= extras


def test_the_lock_file_meets_every_requirement() -> None:
    project = PYPROJECT["project"]
    extras = project["optional-dependencies"]
    locked = re.findall(r"^([a-z0-9-]+)==(\S+)", LOCK, re.MULTILINE)
    for line in [*project["dependencies"], *extras["dev"], *extras["smallmodel"]]:
        requirement = Requirement(line)
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        assert any(requirement.specifier.contains(version) for known, version in locked if known == name), line


def test_the_lock_file_has_hashes_and_names_no_host() -> None:
    pins = re.findall(r"^[a-z0-9-]+==[^\n]*(?:\n    --hash=sha256:[0-9a-f]{64}[^\n]*)*", LOCK, re.MULTILINE)
    assert len(pins) > 150
    assert all("--hash=sha256:" in pin for pin in pins)
    assert "://" not in LOCK


def test_the_workflow_tests_every_supported_python_and_runs_ci_on_one() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    jobs = workflow["jobs"]
    assert jobs["test"]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]
    commands = {name: [step["run"] for step in job["steps"] if "run" in step] for name, job in jobs.items()}
    assert commands == {"check": ["make check"], "test": ["make test"], "slow": [".ci/run"]}
    assert workflow["permissions"] == {"contents": "read"}


def test_the_commit_hook_runs_what_ci_checks() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
    assert [hook["entry"].split()[-2:] for hook in hooks] == [["--no-print-directory", "check"]]
    assert "make --no-print-directory check" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")

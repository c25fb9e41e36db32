"""What is installed, and how; and the documentation: links lead to files and headings, recipes work in a copy."""

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
from packaging.requirements import Requirement

from evals.__main__ import script
from evals.judge.chat import EXTRAS
from retrievers.config.models import EMBEDDING_PROVIDERS
from tests.support.recipes import follow, run

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


# The Makefile installs by uv or, where there is none, by pip. Stubs record the calls: CI runs the real uv.

TOOLS = ("make", "sh", "basename", "cp", "touch", "rm", "mkdir")
RECORD = '#!/bin/sh\necho "$(basename $0) $*" >>calls\n'
PYTHON = f'{RECORD}case "$*" in *" install --quiet uv"*) exit 1 ;; "-c "*) exec {sys.executable} "$@" ;; esac\n'
LOCKED = "--constraint requirements.lock --build-constraints requirements.lock --editable"


def make(checkout: Path, target: str, uv: str = "") -> list[str]:
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, checkout)
    for name in (".venv/bin", "path"):
        (checkout / name).mkdir(parents=True)
    for tool in TOOLS:
        (checkout / "path" / tool).symlink_to(str(shutil.which(tool)))
    for stub, text in ((".venv/bin/python", PYTHON), *([("path/uv", uv)] if uv else [])):
        (checkout / stub).write_text(text, encoding="utf-8")
        (checkout / stub).chmod(0o755)
    subprocess.run(["make", target], cwd=checkout, env={"PATH": str(checkout / "path")}, check=True)
    return (checkout / "calls").read_text(encoding="utf-8").splitlines()


def test_uv_installs_from_the_lock(tmp_path: Path) -> None:
    assert make(tmp_path, ".venv/.installed-dev", RECORD) == [
        f"uv pip install --python .venv/bin/python {LOCKED} .[dev]"
    ]


def test_a_newer_pip_takes_its_place_where_uv_cannot_be_had(tmp_path: Path) -> None:
    pips = [call.partition(" install ")[2] for call in make(tmp_path, ".venv/.installed-dev") if " -m pip" in call]
    assert pips[1:] == [
        "--quiet --upgrade pip>=26.1",
        "--no-compile --constraint requirements.lock --requirement .venv/requirements.txt",
        "--no-deps --build-constraint requirements.lock --editable .",
    ]
    wanted = (tmp_path / ".venv" / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert {"ragas==0.4.3", "ruff==0.17.6"} <= {*wanted} and "xllamacpp>=2026.10" not in wanted


def test_the_container_file_installs_the_wheel_from_the_lock_and_calls_the_console_script(tmp_path: Path) -> None:
    make(tmp_path, "image", f"{RECORD}mkdir -p dist && touch dist/retrieval_evals-0-py3-none-any.whl")
    steps = (tmp_path / "dist" / "Containerfile").read_text(encoding="utf-8").splitlines()
    [copied] = [step.split()[1:-1] for step in steps if step.startswith("COPY ") and "--from" not in step]
    assert all([*(tmp_path / "dist").glob(pattern)] for pattern in copied)
    [install] = [step for step in steps if "uv pip install" in step]
    assert install.endswith("--constraint /tmp/requirements.lock /tmp/*.whl")
    assert 'ENTRYPOINT ["retrieval-evals"]' in steps and steps.index("USER evals") < steps.index('CMD ["run"]')


# Links lead to files and headings, files that the documentation names exist, recipes work in a copy

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCED = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)([^)\s]*)\)")
NAMED = re.compile(r"`((?:evals|retrievers|benchmarks|tests|datasets)/[\w./-]+)`")
WARNED_OF = {"datasets/__init__.py"}
"""What a page says must not be there."""


def prose(page: Path) -> str:
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """Return the names that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_its_links_lead_to_files_and_headings_and_the_files_that_it_names_exist(page: Path) -> None:
    broken = []
    for link in LINK.findall(prose(page)):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []
    assert {name for name in NAMED.findall(prose(page)) if not (ROOT / name).exists()} <= WARNED_OF


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in PAGES if ROOT / "docs" in page.parents}
    assert {name for name in pages - {"README.md"} if f"]({name})" not in index} == set()


# The recipes of CONTRIBUTING.md for what is declared once: each is followed in a copy, and the copy is run.


def experiment(copy: Path, *flags: str) -> dict[str, Any]:
    flags = ("--limit", "5", "--tracking.enabled", "false", "--no-gate", "--output", "report.json", *flags)
    done = run(copy, "-m", "evals.run", *flags)
    assert done.returncode == 0, done.stdout + done.stderr
    report: dict[str, Any] = json.loads((copy / "report.json").read_text(encoding="utf-8"))
    return report


@pytest.mark.slow
def test_a_metric_touches_its_family_and_the_table_and_is_scored_gated_listed_and_swept(tmp_path: Path) -> None:
    touched = follow("Add a metric", tmp_path, ("evals", "retrievers", "datasets"))
    assert touched == {"evals/metrics/ranking.py", "evals/metrics/table.yaml"}
    name = "ranking/r_precision"
    flags = ("--metrics", "ranking/*", "--criteria", f"{{{name}: '>= 0'}}", "--sweep.top-k", "3,5")
    report = experiment(tmp_path, *flags, "--objective.metrics", name)
    for query, score in zip(report["queries"], report["scores"][name], strict=True):
        if query["in_scope"]:
            first = [hit["grade"] > 0 for hit in query["retrieved"]][: len(query["relevant"])]
            assert score == sum(first) / len(query["relevant"])
    assert (name, True) in [(one["metric"], one["passed"]) for one in report["criteria"]]
    assert name in report["headline"]
    listed = run(tmp_path, "-m", "evals.run", "--list-metrics").stdout
    assert re.search(rf"^{name} +share, 0 to 1 +higher +relevant among the first R", listed, re.MULTILINE)


@pytest.mark.slow
def test_an_axis_touches_two_files_and_tells_variants_apart(tmp_path: Path) -> None:
    touched = follow("Add a sweep axis", tmp_path, ("evals", "retrievers", "datasets"))
    assert touched == {"evals/config/experiment.py", "evals/grid/axes.py"}
    mmr = ("--retriever.rerank", "mmr", "--metrics", "ranking/*")
    variants = experiment(tmp_path, *mmr, "--sweep.mmr-lambda", "0.1,0.9")["grid"]["configurations"]
    assert {one["name"]: one["parameters"]["mmr_lambda"] for one in variants} == {
        "hybrid weighted mmr mmr_lambda 0.1": 0.1,
        "hybrid weighted mmr mmr_lambda 0.9": 0.9,
    }

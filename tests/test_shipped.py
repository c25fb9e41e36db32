"""What is shipped: how it is installed, wheel, sdist, benchmarks and examples, documentation, data sets."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
from packaging.requirements import Requirement
from syrupy.assertion import SnapshotAssertion

from evals.__main__ import script
from evals.cases.case import Case
from evals.cases.reading import load_golden
from evals.cases.relevance import resolve
from evals.config.experiment import DatasetConfig
from evals.config.files import PRESETS
from evals.golden.command import main as golden
from evals.judge.chat import EXTRAS
from evals.run import main
from retrievers.config import IndexSettings
from retrievers.config.models import EmbeddingConfig
from retrievers.indexing.pages import read_corpus
from tests.support.command import ROOT, call, environment, python
from tests.support.recipes import follow, run

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")


def test_the_console_script_and_its_extras() -> None:
    assert resolve_name(PROJECT["scripts"]["retrieval-evals"]) is script
    extras = set(PROJECT["optional-dependencies"]) - {"dev", "smallmodel"}
    embedding = {name.replace("_", "-") for name in EmbeddingConfig.providers}
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
    named = {one["name"]: one["parameters"]["mmr_lambda"] for one in variants}
    assert named == {f"hybrid weighted mmr mmr_lambda {share}": share for share in (0.1, 0.9)}


# The data sets that come with the project keep what their README and the metrics promise

FOLDER = Path(__file__).parents[1] / "datasets" / "physical_ai_handbook"
OF_SPECIFICATIONS = {
    True: {
        "how do ROS 2 topics work", "What is forward kinematics?", "humanoid robot kinematics",
        "ROS2 nodes and topics", "How do I set up Isaac Sim?",
    },
    False: {"What is the capital of France?", "quantum computing in robotics"},
}  # fmt: skip
"""Queries that the specifications name, in scope and out of it."""


def normal(text: str) -> str:
    return " ".join(text.split())


@cache
def cases(name: str = "golden", in_scope: bool | None = None) -> list[Case]:
    known = load_golden(DatasetConfig(path=FOLDER / f"{name}.jsonl")).cases
    return [case for case in known if in_scope in (None, case.in_scope)]


def sections_of(case: Case) -> set[tuple[str | None, str | None]]:
    return {(evidence.source_url, evidence.heading) for evidence in case.evidence}


@pytest.mark.parametrize("name", ["golden", "spec"])
def test_golden_check_says_what_it_said(name: str, capsys: Any, snapshot: SnapshotAssertion) -> None:
    done = call(golden, ["check", FOLDER / f"{name}.jsonl", "--docs", FOLDER / "docs"], capsys)
    assert (done.code, done.err) == (0, "")
    assert done.out.replace(str(FOLDER), "FOLDER") == snapshot


def test_the_readme_states_the_numbers_of_the_data_and_queries_of_the_same_evidence_are_in_one_split() -> None:
    readme = normal((FOLDER / "README.md").read_text("utf-8"))
    pages = len([*(FOLDER / "docs").rglob("*.md*")])
    inside, outside = cases(in_scope=True), cases(in_scope=False)
    kinds = Counter(case.query_type for case in outside)
    for statement in (
        f"{pages} pages",
        f"{len(cases())} queries",
        f"{len(inside)} in scope",
        f"{sum(len(sections_of(case)) >= 3 for case in inside)} of them with evidence in three or more sections",
        f"{len(outside)} out of scope ({kinds['general']} of general knowledge, {kinds['near_domain']} near",
    ):
        assert statement in readme
    together: dict[frozenset[tuple[str | None, str | None]], set[str | None]] = {}
    for case in inside:
        best = frozenset((e.source_url, e.quote) for e in case.evidence if e.grade == 3)
        together.setdefault(best, set()).add(case.split)
    assert all(len(splits) == 1 for splits in together.values())


def test_evidence_meets_every_expectation() -> None:
    chunks = [*read_corpus(FOLDER / "docs").cut(IndexSettings().over({}))]
    by_id, relevance = {chunk.chunk_id: chunk for chunk in chunks}, resolve(cases(), chunks, {})
    for case in cases(in_scope=True):
        holders = [by_id[chunk_id] for (chunk_id,) in relevance[case.id].items]
        assert [chunk.heading for chunk in holders] == [evidence.heading for evidence in case.evidence]
        text = normal(" ".join(f"{c.text} {c.section_path} {' '.join(c.tags or ())}" for c in holders)).lower()
        assert [topic for topic in case.expected_topics if topic.lower() not in text] == [], case.id
        assert len({chunk.chunk_id for chunk in holders}) >= case.min_results, case.id
        pattern = case.source_url_pattern
        assert not pattern or any(re.search(pattern, c.source_url or "") for c in holders), case.id


def test_the_set_of_the_specifications_expects_three_sections_of_every_query() -> None:
    for in_scope, named in OF_SPECIFICATIONS.items():
        assert {case.query for case in cases("spec", in_scope)} >= named
    for case in cases("spec", in_scope=True):
        assert len(sections_of(case)) == len(case.evidence) == case.min_results == 3, case.id


# Wheel and sdist, run in an empty folder; benchmarks and examples, which start and run

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


@pytest.mark.slow
def test_an_installed_wheel_runs_the_default_experiment_in_an_empty_folder(wheel: Path, tmp_path: Path) -> None:
    uv = UV or pytest.skip("uv is neither on the PATH nor beside this Python")
    venv, home, work = (tmp_path / name for name in ("venv", "home", "work"))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    install: list[str | Path] = [uv, "pip", "install", "--quiet", "--python", venv / "bin" / "python"]
    subprocess.run([*install, "--constraint", ROOT / "requirements.lock", wheel], check=True, timeout=600)
    usual = {name: value for name, value in environment().items() if name not in ("PYTHONPATH", "XDG_CACHE_HOME")}
    env = {**usual, "HOME": str(home), "PATH": "/usr/bin:/bin"}

    def run_script(*arguments: str) -> str:
        command = [str(venv / "bin" / "retrieval-evals"), *arguments]
        done = subprocess.run(command, cwd=work, env=env, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def files() -> set[Path]:
        return {file for file in venv.rglob("*") if file.is_file() and file.suffix != ".pyc"}

    home.mkdir()
    work.mkdir()
    before = files()
    run_script("run", "--no-gate")
    [report] = (work / "mlruns" / "reports").glob("default-*.json")
    assert len(json.loads(report.read_text(encoding="utf-8"))["queries"]) == 88
    assert [file.name for file in work.iterdir()] == ["mlruns"]
    assert (home / ".cache" / "retrieval-evals" / ".qdrant" / "collections").is_dir()
    assert files() == before
    assert "physical_ai_handbook" in run_script("search", "how do ROS 2 topics work", "--top-k", "1")


BENCHMARKS = ROOT / "benchmarks"
EXAMPLES = ROOT / "examples"
SMALL: Mapping[str, Sequence[str]] = {
    "default_run": ("--rounds", "1", "--flags", "--limit 5"),
    **dict.fromkeys(("embedding_models", "grid", "judge"), ("--help",)),
    "handbook": ("--only", "modes,context,reference,rounds,proxies", "--limit", "3", "--draws", "1"),
    "scale": ("--queries", "100", "--chunks", "200"),
}
"""Three read a test collection, and are asked for their flags: mypy knows the rest."""


def test_every_benchmark_is_started() -> None:
    assert {*SMALL} == {file.stem for file in BENCHMARKS.glob("*.py")}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_a_benchmark_measures_something_small(name: str, tmp_path: Path) -> None:
    done = python([str(BENCHMARKS / f"{name}.py"), *SMALL[name]], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout


TYPED = """
from evals import Experiment, evaluate
from retrievers import QdrantRetriever
from retrievers.config import RetrieverConfig

settings = RetrieverConfig(top_k=3)
result = evaluate(QdrantRetriever.open(settings), "golden.jsonl", experiment=Experiment(name="mine", seed=1))
print(result.metrics["ranking/mrr_at_3"].value or 0.0)
"""


@pytest.mark.slow
def test_a_script_of_a_user_passes_a_type_checker_that_does_not_know_pydantic(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TYPED)
    flags = ["--strict", "--explicit-package-bases", "--follow-imports=silent", "--config-file", "/dev/null"]
    done = python(["-m", "mypy", *flags, "mine.py"], tmp_path, {"MYPYPATH": str(ROOT)})
    assert "Success" in done.stdout, done.stdout


@pytest.mark.slow
def test_the_baseline_is_what_is_measured_now(tmp_path: Path) -> None:
    done = python([ROOT / ".ci" / "baseline.py", tmp_path / "now.json"], tmp_path)
    assert done.returncode == 0, done.stderr
    shipped, now = (json.loads(file.read_text()) for file in (PRESETS / "baseline-default.json", tmp_path / "now.json"))
    values = [{name: figure["value"] for name, figure in each["metrics"].items()} for each in (shipped, now)]
    steady = {name for name in values[0] if not name.startswith("latency/")}
    assert values[0].keys() == values[1].keys() and len(steady) > 40
    assert {name: values[1][name] for name in steady} == pytest.approx({name: values[0][name] for name in steady})
    assert shipped["facts"]["collection"]["fingerprint"] == now["facts"]["collection"]["fingerprint"]


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

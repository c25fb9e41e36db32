"""The documentation: links lead to files and headings, files that it names exist, recipes work in a copy."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.recipes import follow, run

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCED = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)([^)\s]*)\)")
NAMED = re.compile(r"`((?:evals|retrievers|benchmarks|tests|datasets)/[\w./-]+)`")
WARNED_OF = {"datasets/__init__.py"}
"""What a page says must not be there."""


def prose(page: Path) -> str:
    """Return the page without its blocks of code."""
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
    """Return the report of the default experiment on a few queries, with further flags."""
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

"""The benchmarks of the default run and of benchmarks/results/handbook.md, and the page it wrote."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
FIGURE = re.compile(r"(\d+\.\d+)(?: \((\d+\.\d+) – (\d+\.\d+)\))?")


def test_the_default_run_is_taken_apart() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "default_run.py"), "--runs", "1"],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    [spent] = re.findall(r"^imports (.*) s  retrieval (.*) s  mlflow (.*) s  own (.*) s$", done.stdout, re.MULTILINE)
    assert all(float(seconds) > 0 for seconds in spent)


def rows(page: str) -> list[list[str]]:
    """The cells of every table, their heads included."""
    lines = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| ---")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "handbook.py"), "--limit", "3", "--repeats", "1"],
        cwd=tmp_path_factory.mktemp("benchmark"),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return done.stdout


def test_every_mode_has_its_figures_with_their_intervals(page: str) -> None:
    assert "3 queries, 3 in scope" in page
    *_, (mode, fusion, rerank, *_, false_abstention) = rows(page)
    assert (mode, fusion, rerank) == ("hybrid", "dbsf", "mmr")
    found = FIGURE.fullmatch(false_abstention)
    assert found is not None
    value, low, high = map(float, found.groups())
    assert 0 <= low <= value <= high <= 1


def test_the_page_of_the_project_has_the_same_lines(page: str) -> None:
    written = (ROOT / "benchmarks" / "results" / "handbook.md").read_text(encoding="utf-8")
    assert [row[:3] for row in rows(written)] == [row[:3] for row in rows(page)]
    assert all(FIGURE.fullmatch(cell) for row in rows(written) if row[0] != "mode" for cell in row[3:])

"""Cells of a grid by their names, what is compared of them, and their queries in a pull request's comment."""

import json
from pathlib import Path

import pytest

from evals.compare import main
from evals.errors import ReportError
from evals.report.model import Report
from evals.report.parsing import cell_report
from evals.report.section import escaped
from tests.support.grid_world import make_grid
from tests.support.results import report

BOTH = {"ranking/ndcg_at_10": 1, "ranking/recall_at_5": 3}
SWEEP = {"mode": ["semantic", "hybrid"], "fusion": ["weighted", "rrf"], "top_k": [1, 5], "threshold": [0, 0.3, 0.5]}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return report(make_grid(tmp_path_factory.mktemp("grid"), objective={"metrics": BOTH}, sweep=SWEEP))


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("semantic-k5-t0.30", "semantic-k5-t0.3"),
        ("sem-k5-t.3", "semantic-k5-t0.3"),
        ("hybrid-w-k1-t0", "hybrid-weighted-k1-t0"),
    ],
)
def test_a_cell_is_found_by_its_numbers_and_the_part_that_one_retrieval_alone_has(
    made: Report, name: str, whole: str
) -> None:
    assert cell_report(made, name).name == whole


@pytest.mark.parametrize(("name", "which"), [("hybrid-k5-t0.3", "2 cells"), ("semantic-k5-t0.31", "no cell")])
def test_a_name_of_several_cells_or_none_is_refused(made: Report, name: str, which: str) -> None:
    with pytest.raises(ReportError, match=which):
        cell_report(made, name)


def test_several_metrics_of_an_objective_are_compared_as_what_is_found(made: Report, tmp_path: Path) -> None:
    plain, file, cells = made.plain(), tmp_path / "grid.json", ("semantic-k5-t0", "semantic-k1-t0.5")
    for row in plain["queries"]:
        row["id"] += "\x1b[2J`|"
    file.write_text(json.dumps(plain), encoding="utf-8")
    flags = ["--output", str(tmp_path / "c.json"), "--markdown", str(tmp_path / "c.md")]
    assert main([*(f"{file}#{name}" for name in cells), *flags]) == 0
    [compared] = json.loads((tmp_path / "c.json").read_text(encoding="utf-8"))["comparisons"]
    assert made.grid is not None
    places = [made.grid.addresses.index(cell) for cell in cells]
    means = [sum(own * (made.grid.metrics[name].mean[n] or 0) for name, own in BOTH.items()) / 4 for n in places]
    assert [compared["metrics"]["found"][side] for side in ("baseline", "other")] == pytest.approx(means)
    written = (tmp_path / "c.md").read_text(encoding="utf-8")
    assert "\x1b" not in written and "\\x1b[2J'¦`" in written


def test_a_comment_mentions_nobody_and_holds_no_formula() -> None:
    assert not {"@user", "$x$", "#1"} & set(escaped("@user costs $x$ in #1").split())

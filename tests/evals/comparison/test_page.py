"""A comparison as a page and as Markdown, by the command."""

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from evals.compare import main
from evals.grid.measure import Measured
from evals.report.model import Report
from evals.report.parsing import cell_report, parse
from tests.support.grids import make_grid
from tests.support.results import report

HOSTILE = "<script>alert(1)</script> | `code` *bold* [a](http://b)\n# head"
MOST = 65_536


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return make_grid(tmp_path_factory.mktemp("grid"))


@pytest.fixture
def saved(grid: Measured, tmp_path: Path) -> tuple[Path, list[str]]:
    """A grid's report with a query that is an attack, and the names of its cells."""
    made = report(grid)
    assert made.grid is not None
    plain = made.plain()
    plain["queries"][0]["query"] = HOSTILE
    file = tmp_path / "grid.json"
    file.write_text(json.dumps(plain), encoding="utf-8")
    return file, [made.grid.address(place) for place in range(len(made.grid.cells.index))]


class Texts(HTMLParser):
    """What a page shows, and the elements that it has."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.tags = "", list[str]()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_two_cells_of_a_grid_as_page_and_markdown(
    saved: tuple[Path, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, names = saved
    page, text = tmp_path / "c.html", tmp_path / "c.md"
    first, last = (f"{file}#{name}" for name in (names[0], names[-1]))
    assert main([first, last, "--html", str(page), "--markdown", str(text), "--json"]) == 0
    [found] = json.loads(capsys.readouterr().out)["comparisons"]
    shown, written = Texts(page.read_text(encoding="utf-8")), text.read_text(encoding="utf-8")
    assert "script" not in shown.tags and HOSTILE.splitlines()[0] in shown.text
    assert "\\<script\\>" in written and "\n# head" not in written
    for name, metric in found["metrics"].items():
        assert name in shown.text
        if metric["n"]:
            assert f"{metric['baseline']:.3f}" in shown.text and f"{metric['difference']:+.3f}" in written
    grid = parse(file.read_text(encoding="utf-8"), "grid.json")
    before, after = (cell_report(grid, name).queries for name in (names[0], names[-1]))
    lost = [a.id for a, b in zip(before, after, strict=True) if (a.outcome, b.outcome) == ("SUCCESS", "FAILURE")]
    assert lost and shown.text.count("lost") >= len(lost)
    assert all(query_id in shown.text and f"`{query_id}`" in written for query_id in lost)
    assert f"{found['settings'][0]['setting']}" in shown.text
    assert main([last, last]) == 2 and "same run" in capsys.readouterr().err


def test_markdown_is_cut_before_github_refuses_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = report()
    files = []
    for number, outcome in enumerate(("SUCCESS", "FAILURE")):
        rows = [
            row.model_copy(update={"id": f"q{i}-{row.id}", "query": "long " * 3_000, "outcome": outcome})
            for i in range(20)
            for row in made.queries
        ]
        columns = {name: column * 20 for name, column in made.scores.items()}
        file = tmp_path / f"{number}.json"
        whole = {**dict(made), "queries": rows, "scores": columns, "name": f"run {number}"}
        file.write_text(json.dumps(Report(**whole).plain()), encoding="utf-8")
        files.append(str(file))
    text = tmp_path / "c.md"
    assert main([*files, "--markdown", str(text), "--quiet"]) == 0, capsys.readouterr().err
    written = text.read_text(encoding="utf-8")
    assert len(written) <= MOST and written.endswith("more than GitHub takes\n")


def test_a_cell_that_is_not_there_ends_in_a_line(
    saved: tuple[Path, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    file, names = saved
    assert main([f"{file}#{names[0]}", f"{file}#{names[0]}9"]) == 2
    assert "expected one such as" in capsys.readouterr().err

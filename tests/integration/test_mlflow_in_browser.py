"""Runs and a grid on MLflow's own pages, as a person has them in Chromium at 1600 x 1000 pixels."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from urllib.parse import quote

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from evals.compare import main as compare
from evals.run import main as evaluate
from tests.support.child import environment
from tests.support.chromium import Chromium, chromium, find_chromium
from tests.support.command import call
from tests.support.experiment import CASES, make_experiment
from tests.support.loopback import free_port

FOUND = find_chromium()
pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.skipif(FOUND is None, reason="needs a browser: chromium, chromium-browser or google-chrome"),
]
COLUMNS = ("queries/pass_rate", "scope/false_answer", "ranking/hit_rate_at_1", "ragas/id_context_recall")
WIDE, SEMANTIC = "hybrid k5", "semantic k3"
GRID = "--sweep.mode semantic,hybrid --sweep.top-k 3,5 --sweep.threshold 0,0.3 --objective.out-of-scope 0".split()
HEADERS = "[...document.querySelectorAll('[role=columnheader]')].map(header => header.innerText)"
ROWS = """[...document.querySelectorAll('[role=row]')].map(row => [...row.querySelectorAll('[role=cell]')].map(
  cell => cell.innerText)).filter(cells => cells.length)"""
OF_TWO_TRACES = r"cells => cells.join('\n').match(/^tr-/gm)?.length === 2"
AXES = "[...document.querySelectorAll('.axis-title')].map(title => title.textContent)"
# Nothing covers what is in sight: the element at its middle is its own.
IN_SIGHT = """(name => {
  const header = [...document.querySelectorAll('[role=columnheader]')].findLast(one => one.innerText.startsWith(name));
  const box = header.getBoundingClientRect();
  return box.left >= 0 && box.right <= innerWidth && box.top >= 0 && box.bottom <= innerHeight
    && header.contains(document.elementFromPoint((box.left + box.right) / 2, (box.top + box.bottom) / 2));
})"""


@dataclass(frozen=True)
class Shown:
    """A server that shows runs, and the page that it names."""

    server: str
    page: str

    def runs(self) -> list[Run]:
        """Return the runs of the experiment as its REST interface tells them, the newest first."""
        client = MlflowClient(self.server)
        [experiment] = client.search_experiments(filter_string="name = 'retrieval-evals'")
        return list(client.search_runs([experiment.experiment_id]))

    def run(self, label: str) -> Run:
        [run] = [run for run in self.runs() if run.info.run_name.startswith(label) and "cell" not in run.data.tags]
        return run


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Two runs and a grid of eight cells, on the server of `retrieval-evals ui`."""
    made, port = make_experiment(tmp_path_factory.mktemp("shown")), free_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made.folder)
        usual = ["--config", str(made.config), "--tracking.enabled", "true", "--metrics", "*", "--no-gate"]
        of_runs = [
            ["--retriever.mode", mode, "--retriever.top-k", k] for mode, k in (("hybrid", "5"), ("semantic", "3"))
        ]
        for flags in (*of_runs, GRID):
            with redirect_stdout(StringIO()):
                assert evaluate([*usual, *flags]) == 0
    command = [sys.executable, "-m", "evals", "ui", "--port", str(port), "--no-browser"]
    process = subprocess.Popen(command, cwd=made.folder, env=environment(), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        words = process.stdout.readline().split()  # it comes when the server answers
        assert words[:1] == ["Runs:"]
        yield Shown(f"http://127.0.0.1:{port}", words[1])
    finally:
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(60) == 0
        process.stdout and process.stdout.close()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Chromium]:
    """A browser that knows nothing of the last page: MLflow keeps there what was opened and closed."""
    assert FOUND is not None
    with chromium(FOUND, tmp_path / "profile") as opened:
        yield opened


def view(browser: Chromium, page: str) -> None:
    browser.open(page, width=1600, height=1000, theme="light")


def test_the_page_that_is_named_lists_the_runs_with_their_headline_figures(shown: Shown, browser: Chromium) -> None:
    runs = shown.runs()
    view(browser, shown.page)
    browser.wait_for(f"({ROWS}).length === {len(runs)}")
    headers, rows = browser.evaluate(HEADERS), browser.evaluate(ROWS)
    assert tuple(headers[headers.index("Dataset") + 1 :][: len(COLUMNS)]) == COLUMNS
    for name in COLUMNS:
        assert browser.evaluate(f"{IN_SIGHT}({json.dumps(name)})"), name
        figures = {row[1].split("\n")[-1]: float(row[headers.index(name)]) for row in rows}
        assert figures == {run.info.run_name: pytest.approx(run.data.metrics[name]) for run in runs}


def test_two_runs_side_by_side_have_a_whole_row_a_query_and_the_verdict_in_sight(
    shown: Shown, browser: Chromium, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = [shown.run(label).info.run_id for label in (SEMANTIC, WIDE)]
    said = call(compare, ["--tracking.uri", shown.server, *ids], capsys).out
    [page] = [word for word in said.split() if "compareToRunUuid" in word]
    view(browser, page)
    browser.wait_for(f"({ROWS}).filter({OF_TWO_TRACES}).length === {len(CASES)}")
    assert len(browser.evaluate(ROWS)) == len(CASES)
    headers = [header.split("\n")[0] for header in browser.evaluate(HEADERS)]
    columns = headers[headers.index("Request") - 1 :]  # above them is a row of groups
    rows = [dict(zip(columns, cells, strict=True)) for cells in browser.evaluate(ROWS)]
    assert {row["Request"].split("\n")[0] for row in rows} == {case["query"] for case in CASES}
    for row in rows:
        for column in ("Trace ID", "Response", "expected", "case_passed"):
            assert len(row[column].split("\n")) == 2 and "null" not in row[column], row
        assert set(row["case_passed"].split("\n")) <= {"Pass", "Fail"}
    assert browser.evaluate(f"{IN_SIGHT}('case_passed')")


@pytest.mark.parametrize("label", [WIDE, "grid 8 cells"])
def test_the_page_of_a_run_is_short(shown: Shown, browser: Chromium, label: str) -> None:
    run = shown.run(label)
    assert 20 <= len(run.data.metrics) <= 40 and 5 <= len(run.data.params) <= 30
    view(browser, f"{shown.server}/#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}")
    for title, count in (("Metrics", len(run.data.metrics)), ("Parameters", len(run.data.params))):
        browser.wait_for(f"document.body.innerText.includes('{title} ({count})')")


def test_cells_of_a_grid_are_compared_along_threshold_cut_and_objective(shown: Shown, browser: Chromium) -> None:
    cells = [run for run in shown.runs() if "cell" in run.data.tags]
    assert 2 <= len(cells) <= 8
    runs, experiments = (quote(json.dumps(ids)) for ids in (
        [cell.info.run_id for cell in cells], [cells[0].info.experiment_id],
    ))  # fmt: skip
    view(browser, f"{shown.server}/#/compare-runs?runs={runs}&experiments={experiments}")
    browser.wait_for(f"({AXES}).length >= 3")
    first, second, *others, last = browser.evaluate(AXES)
    assert (first, second, last) == ("cell.threshold", "cell.top_k", "ranking/ndcg_at_10")
    assert set(others) <= {"retriever.mode"}
    said = browser.evaluate("document.body.innerText")
    assert [run.info.run_name for run in cells if run.info.run_name not in said] == []

"""`evals.compare`: what it prints, writes and returns, of files, of cells of a grid, and of runs in MLflow."""

import json
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from evals.compare import main
from evals.errors import ReportError
from evals.grid.measure import Measured
from evals.report.model import Report
from evals.report.parsing import cell_report, parse
from evals.report.section import escaped
from tests.support.command import Done, call
from tests.support.grid_world import make_grid
from tests.support.reports import HIT, NDCG, P95, TOKENS, document, row
from tests.support.results import report

Compare = Callable[..., Done]
HOSTILE = "<script>alert(1)</script> | `code` *bold* [a](http://b)\n# head"
MOST = 65_536
HITS, SHALLOW = [1.0, 1.0, 0.0], "ranking/ndcg_at_3"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the reports of three runs: a, a worse b, a better c."""
    monkeypatch.chdir(tmp_path)
    for name, scores in {"a": [0.5, 0.5, 1.0], "b": [0.5, 0.1, 0.9], "c": [0.6, 0.6, 1.0]}.items():
        write(tmp_path / f"{name}.json", document({NDCG: scores, HIT: HITS, SHALLOW: HITS}, {P95: 2.0}, name=name))
    return tmp_path


@pytest.fixture
def compare(folder: Path, capsys: pytest.CaptureFixture[str]) -> Compare:
    return lambda *arguments: call(main, arguments, capsys)


def write(file: Path, made: dict[str, Any]) -> None:
    file.write_text(json.dumps(made), encoding="utf-8")


def everything(folder: Path) -> set[str]:
    return {file.name for file in folder.rglob("*")}


# What it prints and writes


def test_two_files_are_compared_and_nothing_is_written(
    compare: Compare, folder: Path, snapshot: SnapshotAssertion
) -> None:
    done = compare("a.json", "b.json", "--queries", "1")
    assert (done.code, done.err) == (0, "")
    assert done.out == snapshot
    assert "by ranking/hit_rate_at_5" not in compare("a.json", "b.json", "--by", HIT).out  # by it none has moved
    assert "queries/pass_rate" not in compare("a.json", "b.json", "--metrics", "ranking/*").out
    assert SHALLOW not in done.out and SHALLOW in compare("a.json", "b.json", "--verbose").out
    assert everything(folder) == {"a.json", "b.json", "c.json"}


def test_json_is_printed_or_written_the_same(compare: Compare, folder: Path, snapshot: SnapshotAssertion) -> None:
    done = compare("a.json", "b.json", "--json", "--output", "deep/compared.json", "--fail-on-regression", f"{HIT}:0")
    printed = json.loads(done.out)
    assert printed == snapshot
    assert json.loads((folder / "deep" / "compared.json").read_text(encoding="utf-8")) == printed


@pytest.mark.parametrize(
    ("tolerances", "code"),
    [
        ([f"{NDCG}:0.2"], 0),
        ([f"{NDCG}:0.1"], 1),
        ([f"{HIT}:0", f"{NDCG}:0.1"], 1),
        ([f"{HIT}:0", f"{P95}:0"], 0),
        (["content/verbatim:1"], 1),
    ],
)
def test_the_exit_code_says_whether_every_drop_is_tolerated(compare: Compare, tolerances: list[str], code: int) -> None:
    flags = [argument for one in tolerances for argument in ("--fail-on-regression", one)]
    done = compare("a.json", "b.json", *flags)
    assert (done.code, done.err) == (code, "")
    assert ("FAIL" in done.out) == bool(code)


def test_one_run_of_several_that_is_worse_fails(compare: Compare) -> None:
    done = compare("a.json", "c.json", "b.json", "--fail-on-regression", f"{NDCG}:0.1", "--json")
    assert (done.code, done.err) == (1, "")
    made = json.loads(done.out)
    assert made["passed"] is False
    assert [one["regressions"][0]["passed"] for one in made["comparisons"]] == [True, False]


# Bad input: exit code 2, a message, no traceback, nothing written


def refused(done: Done, *said: str) -> None:
    assert (done.code, done.out) == (2, "")
    assert [one for one in said if one not in done.err] == []
    assert "Traceback" not in done.err


def test_two_runs_on_different_golden_sets(compare: Compare, folder: Path) -> None:
    rows = [row("q0", {NDCG: 0.5}), row("new", {NDCG: 0.5})]
    write(folder / "d.json", document({NDCG: [0.5]}, rows=rows, dataset_fingerprint="other", commit="def"))
    before = everything(folder)
    done = compare("a.json", "d.json", "--output", "x.json")
    refused(
        done, "error: 'd.json' must not be compared with 'a.json'", "2 only in the baseline (q1, q2), 1 only in the",
        "commit: abc → def", "--common compares on the 1 queries that are the same in both",
    )  # fmt: skip
    assert everything(folder) == before
    restricted = compare("a.json", "d.json", "--common")
    assert (restricted.code, restricted.err) == (0, "")
    assert "Only the 1 queries that are the same in both runs are compared" in restricted.out


TOLERATED = "--fail-on-regression"
BAD = (
    "", "a.json", "a.json broken.json", "a.json later.json", "a.json queries.json", "a.json d.json",
    "a.json quries.json", "a.json some-run", "a.json b.json --queries -1", "a.json b.json --metrics rankng/*",
    f"a.json b.json --by {NDCG},", "a.json b.json --output a.json/x.json",
    f"a.json b.json --fail-on-regresion {NDCG}:0",
    *(f"a.json b.json {TOLERATED} {given}" for given in ("0.02", f"{NDCG}:x", f"{NDCG}:inf", "ranking/ndcg:0")),
    f"a.json b.json {TOLERATED} {NDCG}:0.1 {TOLERATED} {NDCG}:0.2",
)  # fmt: skip


def test_bad_input(compare: Compare, folder: Path, snapshot: SnapshotAssertion) -> None:
    (folder / "broken.json").write_text('{"a"')
    (folder / "later.json").write_text('{"schema_version": 3}')
    (folder / "queries.json").write_text('{"columns": []}')
    before, told = everything(folder), {}
    for arguments in BAD:
        done = compare(*arguments.split())
        refused(done)
        told[arguments] = done.err.replace(str(folder), "FOLDER")
    assert told == snapshot
    assert everything(folder) == before


# A page and Markdown


def test_two_cells_of_a_grid_as_page_and_markdown(
    grid: Measured, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = report(grid)
    assert made.grid is not None
    plain = made.plain()
    plain["queries"][0]["query"] = HOSTILE
    write(file := tmp_path / "grid.json", plain)
    page, text = tmp_path / "c.html", tmp_path / "c.md"
    names = made.grid.addresses[0], made.grid.addresses[-1]
    done = call(main, [*(f"{file}#{name}" for name in names), "--html", page, "--markdown", text, "--json"], capsys)
    [found] = json.loads(done.out)["comparisons"]
    shown, written = page.read_text(encoding="utf-8"), text.read_text(encoding="utf-8")
    assert "<script" not in shown and "\\<script\\>" in written and "\n# head" not in written
    shown = unescape(re.sub(r"<[^>]*>", "", shown))
    assert HOSTILE.splitlines()[0] in shown
    assert re.search(r"metricverdictbaselineother\s*difference−0?\.?\d+0\+0?\.?\d+", shown)  # the picture's ends
    for name, metric in found["metrics"].items():
        assert name in shown
        if metric["n"]:
            assert f"{metric['baseline']:.3f}" in shown and f"{metric['difference']:+.3f}" in written
    before, after = (cell_report(parse(json.dumps(plain), "grid"), name).queries for name in names)
    lost = [a.id for a, b in zip(before, after, strict=True) if (a.outcome, b.outcome) == ("SUCCESS", "FAILURE")]
    assert lost and shown.count("lost") >= len(lost)
    assert all(query_id in shown and f"`{query_id}`" in written for query_id in lost)
    assert found["settings"][0]["what"] in shown
    refused(call(main, [f"{file}#{names[0]}", f"{file}#{names[0]}9"], capsys), "expected one such as")


def test_the_verdict_tells_two_runs_of_an_experiment_apart_and_names_what_moved_most_either_way(
    compare: Compare, folder: Path, snapshot: SnapshotAssertion
) -> None:
    """The largest difference is that of tokens, then that of the hit rate; for its interval that of NDCG is."""
    scores = {NDCG: [0.8 + n / 1000 for n in range(20)], TOKENS: [900.0 + n for n in range(20)]}
    less = {NDCG: [0.4 - n / 1000 for n in range(20)], TOKENS: [400.0 + 20 * n for n in range(20)], HIT: [0.0] * 20}
    for name, values in {"old": scores | {HIT: [1.0] * 10 + [0.0] * 10}, "new": less}.items():
        write(folder / f"{name}.json", document(values, name="default") | {"run": f"hybrid k5 {name}"})
    assert compare("old.json", "new.json", "--markdown", "c.md", "--quiet").code == 0
    assert (folder / "c.md").read_text(encoding="utf-8").partition("\n\n|")[0] == snapshot


def test_a_comment_has_the_tolerances_and_queries_that_moved_by_another_metric_than_theirs(
    compare: Compare, folder: Path, snapshot: SnapshotAssertion
) -> None:
    for name, hits in {"old": 1.0, "new": 0.0}.items():
        rows = [row(f"q{n}", {HIT: hits if n < 4 else 1.0}, query_type="factual") for n in range(12)]
        write(folder / f"{name}.json", document({HIT: [hits]}, rows=rows, name=name))
    done = compare("old.json", "new.json", "--fail-on-regression", f"{NDCG}:0.02", "--markdown", "c.md")
    assert done.code == 1 and "Queries that moved, 4 of 4, by ranking/hit_rate_at_5" in done.out
    assert (folder / "c.md").read_text(encoding="utf-8") == snapshot
    assert "  drop +0.000," in compare("a.json", "b.json", "--fail-on-regression", f"{HIT}:0").out


def test_markdown_is_cut_before_github_refuses_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, files = report(), [tmp_path / f"{number}.json" for number in range(3)]
    for file, outcome in zip(files, ("SUCCESS", "FAILURE", "FAILURE"), strict=True):
        rows = [
            row.model_copy(update={"id": f"q{i}-{row.id}", "query": "long " * 3_000, "outcome": outcome})
            for i in range(20)
            for row in made.queries
        ]
        columns = {name: column * 20 for name, column in made.scores.items()}
        write(file, Report(**{**dict(made), "queries": rows, "scores": columns, "name": file.stem}).plain())
    assert call(main, [*files, "--markdown", tmp_path / "c.md", "--quiet"], capsys).code == 0
    written = (tmp_path / "c.md").read_text(encoding="utf-8")
    assert len(written) <= MOST and written.endswith("more than GitHub takes\n")
    assert all(f"{name} is worse by 1 (most: queries/pass_rate" in written for name in "12"), "every verdict is there"


# Cells of a grid by their names

BOTH = {"ranking/ndcg_at_10": 1, "ranking/recall_at_5": 3}
SWEEP = {"mode": ["semantic", "hybrid"], "fusion": ["weighted", "rrf"], "top_k": [1, 5], "threshold": [0, 0.3, 0.5]}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return report(make_grid(tmp_path_factory.mktemp("grid"), objective={"metrics": BOTH}, sweep=SWEEP))


def test_a_cell_is_found_by_its_numbers_and_the_part_that_one_retrieval_alone_has(made: Report) -> None:
    assert cell_report(made, "semantic-k5-t0.30").name == cell_report(made, "sem-k5-t.3").name == "semantic-k5-t0.3"
    assert cell_report(made, "hybrid-w-k1-t0").name == "hybrid-weighted-k1-t0"
    for name, which in (("hybrid-k5-t0.3", "2 cells"), ("semantic-k5-t0.31", "no cell")):
        with pytest.raises(ReportError, match=which):
            cell_report(made, name)


def test_several_metrics_of_an_objective_are_compared_as_what_is_found(made: Report, tmp_path: Path) -> None:
    plain, file, cells = made.plain(), tmp_path / "grid.json", ("semantic-k5-t0", "semantic-k1-t0.5")
    for query in plain["queries"]:
        query["id"] += "\x1b[2J`|"
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

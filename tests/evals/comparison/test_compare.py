"""`evals.compare`: what it prints, writes and returns, of files, of cells of a grid, and of runs in MLflow."""

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from evals.collect.observations import Failure
from evals.compare import main
from evals.comparison.comparing import compare as compare_reports
from evals.comparison.comparing import pair
from evals.comparison.differences import WHOLE_RUN
from evals.comparison.mismatches import changes
from evals.comparison.records import Difference, Run
from evals.comparison.sections import Comparison, render
from evals.errors import ReportError
from evals.grid.measure import Measured
from evals.judge.tasks import PRECISION
from evals.report.model import Report
from evals.report.parsing import cell_report, parse
from evals.report.section import escaped
from evals.stats import paired
from tests.support.command import Done
from tests.support.grid_world import SIDE, make_grid
from tests.support.reports import FALSE_ANSWER, HIT, NDCG, P95, TOKENS, Score, document, hit, report
from tests.support.results import report as report_of
from tests.support.results import sampled_result

Compare = Callable[..., Done]
HOSTILE = "<script>alert(1)</script> | `code` *bold* [a](http://b)\n# head"
HITS, SHALLOW = [1.0, 1.0, 0.0], "ranking/ndcg_at_3"


@pytest.fixture
def folder(here: Path) -> Path:
    for name, scores in {"a": [0.5, 0.5, 1.0], "b": [0.5, 0.1, 0.9], "c": [0.6, 0.6, 1.0]}.items():
        write(here / f"{name}.json", document({NDCG: scores, HIT: HITS, SHALLOW: HITS}, {P95: 2.0}, name=name))
    return here


@pytest.fixture
def compare(folder: Path, command: Compare) -> Compare:
    return partial(command, main)


def write(file: Path, made: dict[str, Any]) -> None:
    file.write_text(json.dumps(made), encoding="utf-8")


def everything(folder: Path) -> set[str]:
    return {file.name for file in folder.rglob("*")}


def test_two_files_are_compared_and_none_written(compare: Compare, folder: Path, snapshot: SnapshotAssertion) -> None:
    done = compare("a.json", "b.json", "--queries", "1")
    assert (done.code, done.err) == (0, "")
    assert done.out == snapshot
    assert "queries/pass_rate" not in compare("a.json", "b.json", "--metrics", "ranking/*").out
    assert SHALLOW not in done.out and SHALLOW in compare("a.json", "b.json", "--verbose").out
    assert everything(folder) == {"a.json", "b.json", "c.json"}


def test_json_is_printed_or_written_the_same(compare: Compare, folder: Path, snapshot: SnapshotAssertion) -> None:
    flags = ("--json", "--output", "deep/compared.json", "--fail-on-regression", f"{NDCG}:0.1")
    done = compare("a.json", "c.json", "b.json", *flags)
    printed = json.loads(done.out)
    assert (done.code, done.err, printed) == (1, "", snapshot)
    assert json.loads((folder / "deep" / "compared.json").read_text(encoding="utf-8")) == printed


# Bad input: exit code 2, a message, no traceback, nothing written


def refused(done: Done, *said: str) -> None:
    assert (done.code, done.out) == (2, "")
    assert [one for one in said if one not in done.err] == []
    assert "Traceback" not in done.err


TOLERATED = "--fail-on-regression"
BAD = (
    "", "a.json", "a.json broken.json", "a.json later.json", "a.json queries.json", "a.json d.json",
    "a.json quries.json", "a.json some-run", "a.json b.json --queries -1", "a.json b.json --metrics rankng/*",
    "a.json b.json --output a.json/x.json", "a.json b.json --markdown b.json",
    f"a.json b.json --fail-on-regresion {NDCG}:0",
    *(f"a.json b.json {TOLERATED} {given}" for given in ("0.02", f"{NDCG}:x", f"{NDCG}:-1", f"{NDCG}:inf")),
    f"a.json b.json {TOLERATED} ranking/ndcg:0",
    f"a.json b.json {TOLERATED} {NDCG}:0.1 {TOLERATED} {NDCG}:0.2",
)  # fmt: skip


def test_bad_input(compare: Compare, folder: Path, snapshot: SnapshotAssertion) -> None:
    (folder / "broken.json").write_text('{"a"')
    (folder / "later.json").write_text('{"schema_version": 3}')
    (folder / "queries.json").write_text('{"columns": []}')
    made = document({NDCG: [0.5, 0.5]}, rows=[{}, {"id": "new"}], dataset_fingerprint="other", commit="def")
    write(folder / "d.json", made)
    before, told = everything(folder), {}
    for arguments in BAD:
        done = compare(*arguments.split())
        refused(done)
        told[arguments] = done.err.replace(str(folder), "FOLDER")
    assert told == snapshot
    refused(compare("a.json", "b.json", "--queries", "9" * 5_000), "expected a whole number of 0 or more, got '99")
    restricted = compare("a.json", "d.json", "--common")
    assert (restricted.code, restricted.err) == (0, "")
    assert "Only the 1 queries that are the same in both runs are compared" in restricted.out
    assert everything(folder) == before


def test_two_cells_of_a_grid_as_page_and_markdown(grid: Measured, compare: Compare, folder: Path) -> None:
    made = report_of(grid)
    assert made.grid is not None
    plain = made.plain()
    plain["queries"][0]["query"] = HOSTILE
    write(folder / "grid.json", plain)
    page, text = folder / "c.html", folder / "c.md"
    names = made.grid.addresses[0], made.grid.addresses[-1]
    done = compare(*(f"grid.json#{name}" for name in names), "--html", page, "--markdown", text, "--json")
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
    assert all(query_id in shown and query_id in written for query_id in lost)
    assert found["settings"][0]["what"] in shown
    refused(compare(f"grid.json#{names[0]}", f"grid.json#{names[0]}9"), "expected one such as")


def test_the_verdict_names_runs_and_largest_moves(compare: Compare, folder: Path, snapshot: SnapshotAssertion) -> None:
    scores = {NDCG: [0.8 + n / 1000 for n in range(20)], TOKENS: [900.0 + n for n in range(20)]}
    less = {NDCG: [0.4 - n / 1000 for n in range(20)], TOKENS: [400.0 + 20 * n for n in range(20)], HIT: [0.0] * 20}
    for name, values in {"old": scores | {HIT: [1.0] * 10 + [0.0] * 10}, "new": less}.items():
        write(folder / f"{name}.json", document(values, name="default") | {"run": f"hybrid k5 {name}"})
    assert compare("old.json", "new.json", "--markdown", "c.md", "--quiet").code == 0
    assert (folder / "c.md").read_text(encoding="utf-8").partition("\n\n|")[0] == snapshot


def test_a_comment_has_tolerances_and_what_moved(compare: Compare, folder: Path, snapshot: SnapshotAssertion) -> None:
    for name, hits in {"old": 1.0, "new": 0.0}.items():
        scores = {HIT: [hits] * 4 + [1.0] * 8}
        write(folder / f"{name}.json", document(scores, rows=[{"query_type": "factual"}] * 12, name=name))
    done = compare("old.json", "new.json", "--fail-on-regression", f"{NDCG}:0.02", "--markdown", "c.md")
    assert done.code == 1 and "Queries that moved, 4 of 4, by ranking/hit_rate_at_5" in done.out
    assert (folder / "c.md").read_text(encoding="utf-8") == snapshot
    assert not {"@user", "$x$", "#1"} & set(escaped("@user costs $x$ in #1").split()), "nobody is mentioned"
    tolerated = compare("a.json", "b.json", "--fail-on-regression", f"{HIT}:0", "--fail-on-regression", f"{P95}:0")
    assert tolerated.code == 0 and "  drop +0.000," in tolerated.out


def test_markdown_is_cut_before_github_refuses_it(compare: Compare, folder: Path) -> None:
    made, files = report_of(), [folder / f"{number}.json" for number in range(3)]
    for file, outcome in zip(files, ("SUCCESS", "FAILURE", "FAILURE"), strict=True):
        row = {"query": "long " * 600, "outcome": outcome}
        rows = [q.model_copy(update={**row, "id": f"q{i}-{q.id}"}) for i in range(20) for q in made.queries]
        columns = {name: column * 20 for name, column in made.scores.items()}
        write(file, Report(**{**dict(made), "queries": rows, "scores": columns, "name": file.stem}).plain())
    done = compare(*files, "--markdown", "c.md", "--html", "c.html", "--fail-on-regression", "queries/pass_rate:0")
    assert done.code == 1 and done.out.startswith(
        "baseline  0\n1  FAIL (tolerated drop of queries/pass_rate): 1 is worse"
    )
    assert re.search(r"^queries/pass_rate +1.000  0.000 worse  0.000 worse$", done.out, re.MULTILINE)
    assert "<h1>2 runs beside 0</h1>" in (folder / "c.html").read_text(encoding="utf-8")
    written = (folder / "c.md").read_text(encoding="utf-8")
    assert 62_000 < len(written) <= 65_536 and written.endswith("more than GitHub takes\n")
    assert "| queries/pass_rate | 1.000 | **0.000 worse** | **0.000 worse** |" in written
    assert all(f"{name} is worse in 1 (queries/pass_rate" in written for name in "12"), "every verdict is there"


BOTH = {"ranking/ndcg_at_10": 1, "ranking/recall_at_5": 3}
SWEEP = {"mode": ["semantic", "hybrid"], "fusion": ["weighted", "rrf"], "top_k": [1, 5], "threshold": [0, 0.3, 0.5]}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return report_of(make_grid(tmp_path_factory.mktemp("grid"), objective={**SIDE, "metrics": BOTH}, sweep=SWEEP))


def test_a_cell_is_found_by_the_end_of_its_name(made: Report) -> None:
    assert cell_report(made, "semantic-k5-t0.3").name == "semantic-k5-t0.3"
    assert cell_report(made, "weighted-k1-t0").name == "hybrid-weighted-k1-t0"
    for name, which in (("k5-t0.3", "3 cells"), ("semantic-k5-t0.31", "no cell")):
        with pytest.raises(ReportError, match=which):
            cell_report(made, name)


def test_several_metrics_of_an_objective_are_compared_as_what_is_found(made: Report) -> None:
    assert made.grid is not None
    cells = "semantic-k5-t0", "semantic-k1-t0.5"
    places = [made.grid.addresses.index(cell) for cell in cells]
    means = [sum(own * (made.grid.metrics[name].mean[n] or 0) for name, own in BOTH.items()) / 4 for n in places]
    first, second = (cell_report(made, cell) for cell in cells)
    found = difference(first, second, "found")
    assert [found.baseline, found.other] == pytest.approx(means)


# By the door `compare`: what is paired, how scores differ, what forbids it, what moved, what is tolerated

VERDICT = "queries/pass_rate"
SCORES: dict[str, Sequence[Score]] = {HIT: [1.0, 0.0]}
NONE: list[Score] = ["unscored"]
JUDGE = {"provider": "cohere", "model": "x", "parameters": {"temperature": 0.0}, "fingerprint": "1"}


def compared(first: Report, second: Report, **options: Any) -> Comparison:
    options.setdefault("metrics", ("*",))
    [made] = compare_reports(Run.of(first), [Run.of(second)], **options)
    return made


def difference(first: Report, second: Report, metric: str) -> Difference:
    return next(one for one in compared(first, second).differences if one.metric == metric)


def found(metric: str, baseline: Sequence[Score], other: Sequence[Score]) -> Difference:
    return difference(report({metric: baseline}), report({metric: other}), metric)


def mismatches(first: Report, second: Report) -> dict[str, tuple[str, str]]:
    return {one.what: (one.baseline, one.other) for one in compared(first, second).mismatches}


def test_queries_are_paired_by_id_and_of_other_golden_data_those_whose_case_is_the_same() -> None:
    def of_data(digit: str, *rows: dict[str, Any]) -> Report:
        return report({HIT: [1.0] * len(rows)}, rows=rows, dataset_fingerprint=digit * 64)

    first = of_data("1", *({"id": name} for name in "abc"))
    rows = {"id": "c"}, {"id": "b", "fingerprint": "other"}, {"id": "x"}
    pairing = pair(first, of_data("2", *rows))
    assert [(a.id, b.id) for a, b in pairing.rows] == [("c", "c")]
    assert (pairing.only_baseline, pairing.only_other, pairing.changed) == (("a",), ("x",), ("b",))
    assert [a.id for a, _ in pair(first, of_data("1", *rows)).rows] == ["b", "c"]
    unknown, again = (of_data(digit, {"id": "c", "fingerprint": None}) for digit in "34")
    assert pair(first, unknown).changed == pair(unknown, again).changed == ("c",)
    with pytest.raises(ReportError, match="nothing to compare"):
        compared(first, unknown, common=True)


def test_a_metric_is_compared_over_the_queries_that_it_scores_in_both() -> None:
    one = found(NDCG, [0.5, 0.25, 1.0, 0.0], [0.5, 0.75, 0.5, 0.25])
    alone = paired.compare([0.5, 0.25, 1.0, 0.0], [0.5, 0.75, 0.5, 0.25], 0)
    assert (one.low, one.high, one.p, one.n) == (alone.interval.low, alone.interval.high, alone.p, alone.n)
    assert (one.baseline, one.other, one.difference, one.wins, one.losses) == (0.4375, 0.5, 0.0625, 2, 1)
    lower = found(FALSE_ANSWER, [1.0, 1.0, 0.0], [0.0, 0.0, 1.0])
    assert (lower.better, lower.wins, lower.losses) == ("lower", 2, 1)
    dropped = found(NDCG, [0.5, "unscored", 0.2, "unscored", None], [0.25, 0.5, "unscored", "unscored", None])
    assert (dropped.n, dropped.baseline, dropped.other) == (1, 0.5, 0.25)
    assert (dropped.only_baseline, dropped.only_other, dropped.worst) == (("q2",), ("q1",), None)


def test_of_differences_those_below_one_in_twenty_after_holm_have_a_verdict() -> None:
    six, seven = (found(HIT, [0.0] * count, [1.0] * count) for count in (6, 7))  # the pass rate is the other of the two
    assert [(one.p_adjusted, one.verdict) for one in (six, seven)] == [(0.0625, ""), (0.03125, "better")]


def test_a_difference_without_pairs_says_why() -> None:
    for first, second, metric, note, value in (
        (report({NDCG: NONE}), report({NDCG: [0.5]}), NDCG, "no query is scored in both: because", None),
        (report({NDCG: [0.5, 0.5]}), report(SCORES | {NDCG: [0.5, 0.5]}), HIT, "not measured in the baseline", None),
        (report({NDCG: [0.5]}, {P95: 1.0}), report({NDCG: [0.5]}, {P95: 3.0}), P95, WHOLE_RUN, 2.0),
        (report({NDCG: [1]}, {P95: 1.0}), report({NDCG: [1]}, {P95: None}), P95, "no value in the other run: ", None),
    ):
        one = difference(first, second, metric)
        assert one.note.startswith(note) and one.difference == value


def test_metrics_are_the_headline_or_those_asked_for() -> None:
    first = report({"ranking/ndcg_at_3": [0.5], NDCG: [0.5]})
    assert [one.metric for one in compared(first, report({NDCG: [0.4]}), metrics=()).differences] == [NDCG, VERDICT]
    tolerated = compared(first, first, metrics=(), tolerances={"ranking/ndcg_at_3": 1}).differences
    assert {one.metric for one in tolerated} >= {"ranking/ndcg_at_3", VERDICT}
    named = compared(first, first, metrics=("ranking/*",)).differences  # nothing else, unless all are asked for
    assert [one.metric for one in named] == ["ranking/ndcg_at_3", NDCG] and len(compared(first, first).differences) == 3


LABELS = np.random.default_rng(0).integers(0, 5, 60) / 4
JUDGED = np.clip(LABELS + np.random.default_rng(1).choice([0, 0, 0, 0.25, -0.25], 60), 0, 1)
GAINS = np.clip(JUDGED + 0.25, 0, 1) - JUDGED


def sampled(judged: int, shift: float = 0.0) -> Report:
    labels = np.clip(LABELS + shift, 0, 1)
    return report_of(sampled_result(np.clip(JUDGED + shift, 0, 1)[:judged].tolist(), labels.tolist()))


def changed(made: Report, **changes: Any) -> Report:
    return Report.model_validate(dict(made) | changes)


def test_samples_are_paired_on_the_queries_judged_in_both_and_corrected_by_the_scores_of_all() -> None:
    for first, value, within, note in (
        (sampled(30), GAINS.mean(), 0.05, "60 queries, corrected by what foretells the judge, weight "),
        (sampled(60), GAINS.mean(), 0.05, "60 queries, corrected by what foretells the judge, weight "),
        (changed(sampled(60), proxies={}), GAINS[:20].mean(), 1e-9, "60 queries, the judged queries alone"),
    ):
        made = difference(first, sampled(20, 0.25), PRECISION)
        assert (made.n, made.only_baseline, made.only_other, made.failed) == (20, (), (), ())
        assert made.note.startswith(f"judged in both: 20 of {note}")
        assert made.difference == pytest.approx(value, abs=within)


def test_queries_that_were_not_drawn_fail_no_tolerance_and_a_failed_score_counts_at_its_worst() -> None:
    for first, second, passed in ((sampled(60), sampled(20, 0.25), True), (sampled(60, 0.25), sampled(20), False)):
        [one] = compared(first, second, tolerances={PRECISION: 0.02}).regressions
        assert one.passed == passed
    first, second = sampled(20), sampled(20, 0.25)
    scores = [Failure(failed="Timeout: "), *second.scores[PRECISION][1:]]
    made = difference(first, changed(second, scores={PRECISION: scores}), PRECISION)
    assert made.failed == ("q0",) and made.worst is not None and made.difference is not None
    assert made.worst < made.difference


def test_what_differs_besides_is_named_and_runs_of_one_kind_have_no_mismatch(snapshot: SnapshotAssertion) -> None:
    assert mismatches(report(SCORES), report(SCORES, started_at="later", duration_s=9.0)) == {}
    versions = {"python": "3.12", "ragas": "0.4.3", "new": "1"}
    changes = {"dataset_fingerprint": "2", "commit": "b", "embedding": None, "versions": versions}
    for other in (changes, {"collection": None}):
        assert mismatches(report(SCORES), report(SCORES, **other)) == snapshot


def test_verdicts_of_two_judges_are_not_compared_and_fail_a_tolerance() -> None:
    first = report({PRECISION: [1.0, 0.0]}, judge=JUDGE)
    second = report({PRECISION: [0.0, 0.0]}, judge=JUDGE | {"fingerprint": "2", "parameters": {"temperature": 0.5}})
    made = compared(first, second, tolerances={PRECISION: 1})
    assert {one.what: one.baseline for one in made.mismatches} == {"judge": "cohere:x, 1"}
    assert made.differences[0].note == made.regressions[0].reason == "given by different judges, so not compared"
    assert not made.regressions[0].passed
    assert compared(first, report({PRECISION: [0.0, 0.0]})).mismatches == []  # one has none: nothing to compare


def test_a_metric_of_the_users_own_is_compared_as_the_reports_declare_it() -> None:
    own = {"name": "team/x", "about": "", "unit": "score", "direction": "lower", "range": (0, 5)}
    made = report({"team/x": [1.0] * 20})
    first, second = (changed(made, own_metrics=[own | more]) for more in ({}, {"direction": "higher"}))
    same = difference(first, first, "team/x")
    assert same.better == "lower" and same.high == pytest.approx(5 * 3.84 / 23.84, abs=1e-3)
    other = compared(first, second, tolerances={"team/x": 9})
    told = "declared differently in the two runs, so not compared"
    assert other.mismatches == [("team/x", "score, 0 to 5, lower", "score, 0 to 5, higher", told)]
    assert [(one.passed, one.reason) for one in other.regressions] == [(False, told)]


def test_settings_that_differ_are_named_by_their_place_without_those_on_which_no_score_depends() -> None:
    judge, retriever = {"model": None, "cache_path": 1}, {"top_k": 5, "keyword": {"k1": 1.2}}
    first = {"retriever": retriever, "name": "a", "baseline": "a.json", "judge": judge}
    second = {"retriever": {"top_k": 9, "keyword": {"k1": None}}, "name": "b", "judge": {"model": None, "sample": 3}}
    assert changes(first, second) == [("retriever.top_k", 5, 9, ""), ("retriever.keyword.k1", 1.2, None, "")]
    with_judge = second | {"judge": {"model": "m", "sample": 3, "cache_path": 1}}
    assert [one.what for one in changes(first, with_judge)][2:] == ["judge.model", "judge.sample"]
    run, grid = ({"objective": {"margin": 0.1}, "sweep": {"top_k": axis}} for axis in ([], [1, 2]))
    other = {"objective": {"margin": 0.2}, "sweep": {"top_k": [1, 3]}}
    assert changes(run, other) == [], "only of two grids it says how each was chosen"
    assert [one.what for one in changes(grid, other)] == ["objective.margin", "sweep.top_k"]
    bare: dict[str, object] = {"filters": {}}
    assert changes({"retriever": bare}, {"retriever": {"filters": {"lang": "en"}}}) == [
        ("retriever.filters.lang", None, "en", "")
    ]


def test_most_moved_first_each_query_once_by_the_metric_that_moved_it_most() -> None:
    first = report({NDCG: [0.5, 0.5, 0.5, 0.5], FALSE_ANSWER: [0.0, 0.0, 1.0, 0.0]})
    second = report({NDCG: [0.9, 0.1, 0.5, 0.5], FALSE_ANSWER: [1.0, 0.0, 0.0, 0.0]})
    moved = compared(first, second, tolerances={FALSE_ANSWER: 1}).moved
    assert [(one.kind, one.baseline.id, one.metric, round(one.gain, 3)) for one in moved] == [
        ("worse", "q0", FALSE_ANSWER, -1.0), ("better", "q2", FALSE_ANSWER, 1.0), ("worse", "q1", NDCG, -0.4),
    ]  # fmt: skip
    assert [one.baseline.id for one in compared(first, second).moved] == ["q1", "q0"]  # ndcg and abstention
    right, wrong = (report({}, rows=[{"outcome": outcome}]) for outcome in ("SUCCESS", "FAILURE"))
    assert [(one.kind, one.metric) for one in compared(right, wrong).moved] == [("lost", VERDICT)]
    assert compared(first, first).moved == []


def test_a_moved_query_shows_both_results_and_what_was_best_below_the_threshold() -> None:
    long = f"{'folder/' * 20}page.md:10-20"
    lost = {"retrieved": [], "best_below_threshold": [hit(1, 0.2, "b.md:1-2")]}
    first = report({NDCG: [1.0]}, rows=[{"retrieved": [hit(1, 0.9, long, 1)]}])
    made = compared(first, report({NDCG: [0.0]}, rows=[lost]))
    shown = render([made], width=100, color=False, queries=1)
    assert "page.md:10-20" in shown and "nothing returned" in shown and "below the threshold 1. b.md" in shown
    assert long in render([made], width=100, color=False, queries=1, whole=True)
    assert max(map(len, shown.splitlines())) <= 100


def test_a_drop_beyond_the_tolerance_or_unknown_is_a_regression() -> None:
    for metric, tolerance, baseline, other, passed, reason in (
        (NDCG, 0.1, [0.5, 0.5], [0.4, 0.4], True, "there is no interval"),
        (NDCG, 0.0999, [0.5, 0.5], [0.4, 0.4], False, "there is no interval"),
        (NDCG, 0, [0.5], [0.9], True, "there is no interval"),
        (FALSE_ANSWER, 0.4, [0.0, 0.0], [1.0, 0.0], False, "the 95% interval includes 0"),
        (FALSE_ANSWER, 0.4, [1.0, 0.0], [0.0, 0.0], True, "the 95% interval includes 0"),
        (NDCG, 0.02, [0.5] * 20, [0.4 - n / 100 for n in range(20)], False, "the 95% interval excludes 0"),
        (NDCG, 0.02, [0.5] * 20, [0.1] * 4 + [0.8] * 3 + [0.5] * 13, False, "the 95% interval includes 0"),
        (NDCG, 0.02, [0.5] * 20, [0.5] * 19 + ["failed"], False, "the 95% interval includes 0, if all 1 failed"),
        (NDCG, 0.03, [0.5] * 20, [0.5] * 19 + ["failed"], True, "the 95% interval includes 0, if all 1 failed"),
        (TOKENS, 1e9, [500.0] * 40, [500.0] * 39 + ["failed"], False, "1 failed scores leave it open"),
        (NDCG, 0.02, [0.5] * 20, [0.5] * 19 + NONE, True, "the 95% interval includes 0"),
        (NDCG, 0.02, [0.5] * 20, [0.5] * 18 + NONE * 2, False, "2 of 20 queries are scored in one of the runs"),
        (NDCG, 0, [0.5] + NONE * 9, [0.5] + NONE * 9, True, "there is no interval"),
        (NDCG, 1, NONE, [0.5], False, "no query is scored in both"),
    ):
        first, second = report({metric: baseline}), report({metric: other})
        [one] = compared(first, second, tolerances={metric: tolerance}).regressions
        assert (one.passed, one.reason[: len(reason)]) == (passed, reason)

"""`golden check` on golden data with known faults, and on the handbook."""

import json
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from evals.golden import main
from evals.golden.check import FEWEST_CHANGED, LARGEST, deviation_of, power, smallest_difference
from evals.run import main as run
from evals.stats.paired import sign_flip
from tests.support.command import Done, call
from tests.support.experiment import Experiment, make_experiment
from tests.support.observed import make_case

Rows = list[dict[str, Any]]
PAGES = {
    "motors": "## Speed\n\nA stepper turns at up to a thousand revolutions each minute before it loses steps.\n",
    "topics": "## Rates\n\nAsk for the rate of a channel with the hz verb and wait for ten seconds.\n",
    "unread": "## Nothing\n\nThis page is about something that no query asks about at all.\n",
}
STEPPER, RATE = PAGES["motors"].split("\n\n")[1].strip(), PAGES["topics"].split("\n\n")[1].strip()


def case(name: str, query: str, quote: str, page: str, split: str = "dev", **more: Any) -> dict[str, Any]:
    evidence = [{"source_url": f"/docs/{page}", "quote": quote}]
    return {"id": name, "query": query, "evidence": evidence, "split": split, "query_type": "factual", **more}


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for name, text in PAGES.items():
        (folder / f"{name}.md").write_text(f"---\ntitle: {name}\n---\n{text}")
    return folder


def check(folder: Path, rows: Rows, capsys: pytest.CaptureFixture[str], *flags: str | Path) -> Done:
    file = folder / "checked.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return call(main, ["check", file, *flags], capsys)


def test_coverage_counts_pages_sections_and_chunks(
    docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = check(tmp_path, [case("a", "how quick?", STEPPER, "motors")], capsys, "--docs", docs)
    assert "1 of 3 pages (33%), 1 of 3 sections (33%) and 1 of 3 chunks are relevant to some query" in done.out
    assert "! Coverage of the collection" in done.out
    assert "2 pages without, the largest first\n    /docs/topics\n    /docs/unread\n" in done.out


def test_repeated_queries_and_shared_evidence_across_splits(
    docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        case("a", "How fast does a stepper motor turn?", STEPPER, "motors"),
        case("b", "how fast does a stepper motor turn", STEPPER, "motors", "test"),
        case("c", "How fast does the stepper motor turn?", STEPPER, "motors"),
        case("d", "Which verb measures a channel?", RATE, "topics"),
    ]
    done = check(tmp_path, rows, capsys, "--docs", docs)
    assert "1 pairs of the same words, 2 more with a cosine of 0.85 and above; 2 pairs across splits" in done.out
    assert [line.split(" (")[0].strip() for line in done.out.splitlines() if " and " in line and "): " in line] == [
        "a and b", "b and c", "a and c"
    ]  # fmt: skip
    assert "1 of 2 pages have evidence of several splits, and 1 quotes do" in done.out
    assert "a and b: 'A stepper turns at up to" in done.out


def test_a_query_that_copies_its_passage_stands_out(
    docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        case("copy", "Who turns at up to a thousand revolutions each minute?", STEPPER, "motors"),
        case("own", "What is the top pace of that drive?", STEPPER, "motors"),
    ]
    done = check(tmp_path, rows, capsys, "--docs", docs)
    assert "1 of 2 queries copy more than 30% of themselves from it, median 43%" in done.out
    assert "    copy: 86% of its stretches of four words: 'Who turns" in done.out


def test_a_query_that_stands_in_a_chunk_is_named(
    docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        case("in", "wait for TEN seconds?", RATE, "topics"),
        case("out", "wait for nine seconds?", RATE, "topics"),
        case("short", "ten seconds", RATE, "topics"),
    ]
    done = check(tmp_path, rows, capsys, "--docs", docs)
    assert "! Queries whose text stands in the corpus" in done.out
    assert "1 of 2 queries of four words and more stand in a chunk word for word" in done.out
    assert "    in: 'wait for TEN seconds?' in topics.md:" in done.out


def test_near_copies_of_a_chunk_are_named_where_they_share_a_label_or_lack_it(
    docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (docs / "again.md").write_text((docs / "motors.md").read_text().replace("loses steps", "loses its steps"))
    both = case("both", "how quick?", STEPPER, "motors")
    both["evidence"].append({"source_url": "/docs/again", "heading": "Speed"})
    done = check(tmp_path, [both], capsys, "--docs", docs)
    assert "1 pairs of near copies are both relevant to a query" in done.out
    assert "0 near copies of relevant chunks are unlabelled" in done.out
    done = check(tmp_path, [case("one", "how quick?", STEPPER, "motors")], capsys, "--docs", docs)
    assert "0 pairs of near copies" in done.out and "1 near copies of relevant chunks are unlabelled" in done.out
    assert "    one: motors.md:" in done.out and " and again.md:" in done.out


def test_types_and_scope(docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = {"id": "o", "query": "who won?", "in_scope": False, "query_type": "general", "split": "test"}
    done = check(tmp_path, [case("a", "how quick?", STEPPER, "motors"), out], capsys)
    assert "2 queries: 1 in scope, 1 out of scope (50%)" in done.out and "factual: 1, general: 1" in done.out
    assert "few queries are out of scope" in done.out
    assert done.out.count("not known: ") == 2, "neither chunks nor reports were named"


def test_evidence_that_is_not_in_the_pages_is_named(
    docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [case("a", "how quick?", "Elephants never forget anything", "motors")]
    done = check(tmp_path, rows, capsys, "--docs", docs)
    assert done.code == 2
    assert "checked.jsonl:1: evidence.0: no chunk of '/docs/motors' holds the quote" in done.err


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return make_experiment(tmp_path_factory.mktemp("world"))


def test_reports_tell_what_is_never_found(
    world: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.json"
    flags = ["--output", report, "--no-gate", "--metrics", "ranking/*"]
    assert call(run, ["--config", world.config, *flags], capsys).code == 0
    rows = [json.loads(line) for line in world.golden.read_text().splitlines()]
    done = check(tmp_path, rows, capsys, "--report", report)
    written = json.loads(report.read_text())["queries"]
    lost = [row["id"] for row in written if row["in_scope"] and row["first_relevant"] is None]
    never = [set(row["relevant"]) - {hit["chunk_id"] for hit in row["retrieved"]} for row in written if row["in_scope"]]
    assert f"{len(lost)} of {len(never)} queries have no relevant chunk among the candidates of the run" in done.out
    assert f"{sum(map(len, never))} relevant chunks of {sum(map(bool, never))} queries are returned" in done.out
    done = check(tmp_path, [case("forward", "how quick?", STEPPER, "motors")], capsys, "--report", report)
    assert done.code == 2 and "has none of these golden queries as they are now" in done.err
    done = check(tmp_path, [case("a", "how?", STEPPER, "motors")], capsys, "--report", tmp_path / "checked.jsonl")
    assert done.code == 2 and "expected a report of evals.run" in done.err


def test_the_handbook(handbook: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = call(main, ["check", handbook / "golden.jsonl", "--docs", handbook / "docs"], capsys)
    assert done.code == 0, done.err
    assert "48 of 48 pages (100%)" in done.out and "0 pairs of the same words, 0 more" in done.out
    assert "0 of 176 queries of four words" in done.out or "queries of four words and more" in done.out


@pytest.mark.parametrize("old", ["validate", "audit", "export"])
def test_a_subcommand_that_is_gone_says_what_took_its_place(old: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = call(main, [old, "golden.jsonl"], capsys)
    assert done.code == 2 and f"golden {old} is gone: " in done.err and done.err.count("\n") == 1


# Provable differences against a simulation, and against the tests that runs are compared with


@pytest.mark.parametrize(("n", "deviation"), [(40, 0.3), (132, 0.3), (400, 0.15)])
def test_a_difference_of_that_size_is_proved_in_80_percent_of_simulated_comparisons(n: int, deviation: float) -> None:
    rng = np.random.default_rng(1)
    least = smallest_difference(deviation, n, binary=False)
    draws = rng.normal(least, deviation, size=(4_000, n))
    share = float((stats.ttest_1samp(draws, 0.0, axis=1).pvalue < 0.05).mean())
    assert share == pytest.approx(0.8, abs=0.025)


def test_hit_rates_differ_provably_only_where_six_queries_change() -> None:
    assert sign_flip(np.ones(FEWEST_CHANGED), 0)[0] < 0.05 < sign_flip(np.ones(FEWEST_CHANGED - 1), 0)[0]
    assert smallest_difference(0.01, 60, binary=True) == FEWEST_CHANGED / 60
    assert smallest_difference(0.01, 60, binary=False) < 0.01
    assert smallest_difference(0.5, 4, binary=True) == 1.0


def test_the_deviation_is_measured_between_runs_or_derived_from_one() -> None:
    first, second, third = ({"a": a, "b": b, "c": 0.5} for a, b in ((0.0, 1.0), (0.0, 1.0), (1.0, 1.0)))
    assert deviation_of([first, second, third])[0] == pytest.approx(sqrt(2) / 3)
    assert deviation_of([first])[0] == pytest.approx(np.std([0.0, 1.0, 0.5]))
    assert deviation_of([]) == deviation_of([{"a": 1.0, "b": 1.0}])
    assert deviation_of([])[0] == LARGEST


def test_all_and_each_split_are_told() -> None:
    cases = [make_case(f"q{n}", split="dev" if n < 30 else "test") for n in range(40)]
    cases += [make_case("out", in_scope=False, split="dev")]
    hit_rate, ndcg, _ = power(cases, {"hit rate": [], "nDCG": []}).lines
    assert f", {FEWEST_CHANGED / 10:.3f} (test, n 10); " in hit_rate
    assert "(all, n 40), " in ndcg and "(dev, n 30), " in ndcg and "(test, n 10); " in ndcg

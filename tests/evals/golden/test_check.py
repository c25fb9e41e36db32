"""`golden check` on golden data with known faults; `tests/test_shipped.py` has what it says of the handbook."""

import json
from collections.abc import Callable
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from syrupy.assertion import SnapshotAssertion

from evals.golden.check import FEWEST_CHANGED, LARGEST, copied_share, deviation_of, power, smallest_difference
from evals.run import main as run
from evals.stats.paired import sign_flip
from retrievers.__main__ import main as retrievers
from tests.support.command import Done, call
from tests.support.experiment import make_experiment
from tests.support.observed import make_case

STEPPER = "A stepper turns at up to a thousand revolutions each minute before it loses steps."
RATE = "Ask for the rate of a channel with the hz verb and wait for ten seconds."
PAGES = {
    "motors": f"## Speed\n\n{STEPPER}\n",
    "again": f"## Speed\n\n{STEPPER.replace('loses', 'loses its')}\n",
    "topics": f"## Rates\n\n{RATE}\n",
    "unread": "## Nothing\n\nThis page is about something that no query asks about at all.\n",
}
Check = Callable[..., Done]
Row = dict[str, Any]


def case(name: str, query: str, quote: str, page: str, split: str = "dev", **more: Any) -> Row:
    evidence = [{"source_url": f"/docs/{page}", "quote": quote}]
    return {"id": name, "query": query, "evidence": evidence, "split": split, "query_type": "factual", **more}


DOUBTFUL = [
    case("same", "How fast does a stepper motor turn?", STEPPER, "motors"),
    case("across", "how fast does a stepper motor turn", STEPPER, "motors", "test"),
    case("nearly", "How fast does the stepper motor turn?", STEPPER, "motors"),
    case("copied", "Who turns at up to a thousand revolutions each minute?", STEPPER, "motors"),
    case("stands", "wait for TEN seconds?", RATE, "topics"),
    case("short", "ten seconds", RATE, "topics"),
    case("twice", "What is the top pace of that drive?", STEPPER, "motors"),
    {"id": "outside", "query": "who won?", "in_scope": False, "query_type": "general", "split": "test"},
    {"id": "bare", "query": "and this one?"},
]
DOUBTFUL[6]["evidence"].append({"source_url": "/docs/again", "heading": "Speed"})


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for name, text in PAGES.items():
        (folder / f"{name}.md").write_text(f"---\ntitle: {name}\n---\n{text}")
    return folder


@pytest.fixture
def check(golden: Check, tmp_path: Path, docs: Path) -> Check:
    def checked(*rows: Row, flags: tuple[str | Path, ...] = ("--docs", docs)) -> Done:
        file = tmp_path / "checked.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return golden("check", file, *flags)

    return checked


def test_every_doubt_is_told_with_its_queries(check: Check, tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    for name, flags in {"with pages": {}, "alone": {"flags": ()}}.items():
        done = check(*DOUBTFUL, **flags)
        assert (done.code, done.err) == (0, "")
        assert done.out.replace(str(tmp_path), "FOLDER") == snapshot(name=name)
    assert copied_share("one two three four five", "Zero one two, three four. Six") == 0.5
    assert copied_share("one two three", "one two three") == copied_share("什么是机器人", "机器人是什么") == 0
    assert copied_share("机器人是", "这里机器人是什么") == 1


def test_evidence_is_looked_for_in_a_collection_which_an_experiment_makes(
    check: Check, docs: Path, tmp_path: Path
) -> None:
    good, config = case("a", "how quick?", STEPPER, "motors"), tmp_path / "mine.yaml"
    flags = ("--config", config)
    config.write_text("retriever: {collection: mine, store: {path: store}}\n")
    assert check(good, flags=flags).code == 2, "there is none yet"
    config.write_text(config.read_text() + "index: {collection: mine}\nsources: {dir: docs}\n")
    assert "every piece of evidence found in 4 chunks" in check(good, flags=flags).out
    assert "no collection 'other'" in check(good, flags=(*flags, "--collection", "other")).err
    assert "no chunk of '/docs/motors' holds" in check(case("a", "how?", "zzzz qqqq xxxx", "motors"), flags=flags).err
    assert retrievers(["index", str(docs), "--store.path", str(tmp_path / "s"), "--collection", "own", "--quiet"]) == 0
    assert check(good, flags=("--store.path", tmp_path / "s", "--collection", "own")).code == 0
    assert "found neither; did you mean 'default'?" in check(good, flags=("--config", "defalt")).err
    assert check(good, flags=("--quiet",)) == Done(0, "", "")


def test_reports_tell_what_is_never_found(check: Check, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world, report = make_experiment(tmp_path / "world"), tmp_path / "report.json"
    flags = ["--config", world.config, "--output", report, "--no-gate", "--metrics", "ranking/*"]
    assert call(run, flags, capsys).code == 0
    rows = [json.loads(line) for line in world.golden.read_text().splitlines()]
    done = check(*rows, flags=("--report", report))
    written = [row for row in json.loads(report.read_text())["queries"] if row["in_scope"]]
    lost = [row["id"] for row in written if row["first_relevant"] is None]
    assert f"{len(lost)} of {len(written)} queries have no relevant chunk among the candidates of 1 run" in done.out
    for file, said in ((report, "has none of these golden queries as they are now"), (world.golden, "expected a rep")):
        done = check(case("forward", "how quick?", STEPPER, "motors"), flags=("--report", file))
        assert done.code == 2 and said in done.err


# Provable differences against a simulation, and against the tests that runs are compared with


@pytest.mark.parametrize(("n", "deviation"), [(40, 0.3), (132, 0.3), (400, 0.15)])
def test_a_difference_of_that_size_is_proved_in_80_percent_of_simulated_comparisons(n: int, deviation: float) -> None:
    least = smallest_difference(deviation, n, binary=False)
    assert least is not None
    draws = np.random.default_rng(1).normal(least, deviation, size=(4_000, n))
    assert float((stats.ttest_1samp(draws, 0.0, axis=1).pvalue < 0.05).mean()) == pytest.approx(0.8, abs=0.025)


def test_hit_rates_differ_provably_only_where_six_queries_change() -> None:
    assert sign_flip(np.ones(FEWEST_CHANGED), 0)[0] < 0.05 < sign_flip(np.ones(FEWEST_CHANGED - 1), 0)[0]
    assert [smallest_difference(0.5, n, binary=True) is None for n in (1, 5, 6, 7)] == [True, True, False, False]
    assert smallest_difference(0.5, 5, binary=False) is None


@pytest.mark.parametrize(("n", "deviation"), [(8, 0.5), (16, 0.5), (20, 0.5), (60, 0.01), (60, 0.3)])
def test_a_difference_of_hit_rates_of_that_size_is_proved_in_80_percent_of_runs(n: int, deviation: float) -> None:
    least = smallest_difference(deviation, n, binary=True)
    assert least is not None and least >= 6 / n
    changed = min(1.0, max(least, deviation**2 + least**2))
    shares = [(changed - least) / 2, 1 - changed, (changed + least) / 2]
    draws = np.random.default_rng(1).choice([-1.0, 0.0, 1.0], size=(2_000, n), p=shares)
    proved = [draw.sum() > 0 and sign_flip(draw, 0)[0] < 0.05 for draw in draws]
    assert np.mean(proved) == pytest.approx(0.8, abs=0.03)


def test_the_deviation_is_measured_between_runs_and_told_by_split() -> None:
    first, second, third = ({"a": a, "b": b, "c": 0.5} for a, b in ((0.0, 1.0), (0.0, 1.0), (1.0, 1.0)))
    assert deviation_of([first, second, third])[0] == pytest.approx(sqrt(2) / 3)
    assert deviation_of([]) == deviation_of([first]) == deviation_of([first, first]) and deviation_of([])[0] == LARGEST
    cases = [make_case(f"q{n}", split="dev" if n < 30 else "test") for n in range(40)]
    _, hit_rate, ndcg, _ = power([*cases, make_case("out", in_scope=False, split="dev")], {}).split("\n  ")
    assert f", {smallest_difference(LARGEST, 10, binary=True):.3f} (test, n 10); " in hit_rate
    assert "hit rate: none (all, n 3), none (dev, n 3); " in power(cases[:3], {})
    assert "(all, n 40), " in ndcg and "(dev, n 30), " in ndcg and "(test, n 10); " in ndcg

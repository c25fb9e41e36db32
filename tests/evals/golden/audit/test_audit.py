"""`golden audit` on golden data with known faults, and on the handbook."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from evals.golden import main
from evals.run import main as run
from tests.support.chat_server import CohereChatServer
from tests.support.command import Done, call
from tests.support.experiment import Experiment, settings
from tests.support.judged_experiment import judge_flags, known_of, make_judged
from tests.support.judging import Flaws

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


def audit(
    folder: Path, rows: Rows, capsys: pytest.CaptureFixture[str], *flags: str | Path
) -> tuple[Done, Mapping[str, Any]]:
    file = folder / "audited.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    shown = call(main, ["audit", file, *flags], capsys)
    done = call(main, ["audit", file, *flags, "--json"], capsys)
    return shown, json.loads(done.out) if done.code == 0 else {}


def test_coverage_counts_pages_sections_and_chunks(
    docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown, parts = audit(tmp_path, [case("a", "how quick?", STEPPER, "motors")], capsys, "--docs", docs)
    assert "1 of 3 pages (33%), 1 of 3 sections (33%) and 1 of 3 chunks are relevant to some query" in shown.out
    assert parts["coverage"]["pages_without"] == ["/docs/topics", "/docs/unread"]
    assert parts["coverage"]["doubtful"] and "! Coverage of the collection" in shown.out


def test_repeated_queries_and_shared_evidence_across_splits(
    docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        case("a", "How fast does a stepper motor turn?", STEPPER, "motors"),
        case("b", "how fast does a stepper motor turn", STEPPER, "motors", "test"),
        case("c", "How fast does the stepper motor turn?", STEPPER, "motors"),
        case("d", "Which verb measures a channel?", RATE, "topics"),
    ]
    shown, parts = audit(tmp_path, rows, capsys, "--docs", docs)
    pairs = {(pair["first"], pair["second"]): pair for pair in parts["repeated"]["pairs"]}
    assert pairs.keys() == {("a", "b"), ("a", "c"), ("b", "c")}
    assert [pair["same_words"] for pair in pairs.values()] == [True, False, False]
    assert parts["repeated"]["across_splits"] == 2
    assert parts["shared_evidence"]["pages_of_several"] == ["/docs/motors"]
    assert "a and b: 'A stepper turns at up to" in shown.out


def test_a_query_that_copies_its_passage_stands_out(
    docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        case("copy", "Who turns at up to a thousand revolutions each minute?", STEPPER, "motors"),
        case("own", "What is the top pace of that drive?", STEPPER, "motors"),
    ]
    shown, parts = audit(tmp_path, rows, capsys, "--docs", docs)
    assert parts["leak"]["outliers"] == ["copy"]
    assert parts["leak"]["shares"] == {"copy": 1.0, "own": 0.0}
    assert parts["leak"]["quartiles"] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert "1 stand out" in shown.out


def test_types_and_scope(docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = {"id": "o", "query": "who won?", "in_scope": False, "query_type": "general", "split": "test"}
    shown, parts = audit(tmp_path, [case("a", "how quick?", STEPPER, "motors"), out], capsys)
    assert parts["composition"]["types"] == {"factual": 1, "general": 1}
    assert "2 queries: 1 in scope, 1 out of scope (50%)" in shown.out
    assert "few queries are out of scope" in shown.out
    assert shown.out.count("not known: ") == 3, "neither chunks nor reports were named"


def test_evidence_that_is_not_in_the_pages_is_named(
    docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown, _ = audit(
        tmp_path, [case("a", "how quick?", "Elephants never forget anything", "motors")], capsys, "--docs", docs
    )
    assert shown.code == 2
    assert "audited.jsonl:1: evidence.0: no chunk of '/docs/motors' holds the quote" in shown.err


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return make_judged(tmp_path_factory.mktemp("judged"), top_k=5, threshold=0.0, candidates=5)


def test_reports_tell_what_is_never_found_and_what_the_judge_contradicts(
    judged: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    oracle = known_of(settings(judged))[2]
    oracle.flaws = Flaws(false_useless=1.0)
    report = tmp_path / "report.json"
    with CohereChatServer(oracle) as server:
        monkeypatch.setenv("COHERE_API_KEY", server.key)
        flags = [*judge_flags(server, tmp_path), "--output", report, "--no-gate"]
        assert call(run, ["--config", judged.config, *flags], capsys).code == 0
    rows = [json.loads(line) for line in judged.golden.read_text().splitlines()]
    shown, parts = audit(tmp_path, rows, capsys, "--report", report)
    written = {row["id"]: row for row in json.loads(report.read_text())["queries"]}
    lost = [key for key, row in written.items() if row["in_scope"] and row["first_relevant"] is None]
    assert parts["unfound"]["queries"] == lost
    expected = {
        (key, hit["chunk_id"])
        for key, row in written.items()
        for hit in row["retrieved"]
        if hit["grade"] and hit["judge"]
    }
    assert expected and {(one["query"], one["chunk"]) for one in parts["contradicted"]["differing"]} == expected
    assert "is labelled relevant, judged useless" in shown.out
    assert parts["power"]["hit rate"]["basis"].startswith(("from one run", "the largest for scores"))


def test_a_report_of_other_golden_data_is_refused(
    judged: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.json"
    flags = ["--output", report, "--no-gate", "--metrics", "ranking/*"]
    assert call(run, ["--config", judged.config, *flags], capsys).code == 0
    shown, _ = audit(tmp_path, [case("forward", "how quick?", STEPPER, "motors")], capsys, "--report", report)
    assert shown.code == 2
    assert "has none of these golden queries as they are now" in shown.err
    shown, _ = audit(tmp_path, [case("a", "how?", STEPPER, "motors")], capsys, "--report", tmp_path / "audited.jsonl")
    assert shown.code == 2 and "expected a report of evals.run" in shown.err


def test_the_handbook_and_its_page(handbook: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "audit.html"
    done = call(main, ["audit", handbook / "golden.jsonl", "--docs", handbook / "docs", "--html", page], capsys)
    assert done.code == 0, done.err
    assert "48 of 48 pages (100%)" in done.out and "0 pairs of the same words, 0 more" in done.out
    text = page.read_text()
    assert text.count("<section ") == 8 and "48 of 48 pages" in text
    assert "<script" not in text and "http" not in text.replace("https://", ""), "nothing is loaded from elsewhere"


def test_what_golden_data_hold_is_text_on_the_page(
    docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "audit.html"
    rows = [
        case(name, "<script>alert(1)</script> how fast?", STEPPER, "motors", split)
        for name, split in (("a", "dev"), ("b", "test"))
    ]
    audit(tmp_path, rows, capsys, "--html", page)
    assert "&lt;script&gt;" in page.read_text() and "<script" not in page.read_text()

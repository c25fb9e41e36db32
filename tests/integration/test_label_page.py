"""People label pooled chunks: two retrievals, the page in Chromium, a spreadsheet, labels in the golden file."""

import csv
import json
import stat
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from evals.cases.reading import golden_set
from evals.golden.command import main as golden
from evals.run import main as evaluate
from evals.sampling.order import judging_order
from tests.support.chromium import Chromium, chromium, find_chromium
from tests.support.command import Done, call
from tests.support.experiment import CASES, make_experiment

FOUND = find_chromium()
POOL = ("--pool", "semantic", "hybrid", "--depth", "2", "--annotator", "ada")
COVERED = "document.querySelector('.cursor').getBoundingClientRect().bottom - document.getElementById('keys').offsetTop"
BAR = "document.getElementById('bar').value"
SHOWN = "!document.getElementById('work').hidden"
# A mouse that is let go below the text.
SELECT = """(() => {
  const span = document.querySelector('#text span'), range = document.createRange();
  range.setStart(span.firstChild, 0); range.setEnd(document.getElementById('hint'), 1);
  getSelection().removeAllRanges(); getSelection().addRange(range);
  document.body.dispatchEvent(new PointerEvent('pointerup', {bubbles: true}));
})()"""
MARKED = "document.querySelectorAll('.quoted').length"
# Another person labels in another tab, and so does this one.
TABS = """annotator = 'bob'; given = []; keep(); toggle(sentences[0]); annotator = 'ada';
dispatchEvent(new StorageEvent('storage', {key: own()}))"""
CUT_OFF = "[...document.querySelectorAll('footer button')].filter(b => b.getBoundingClientRect().right > 390).length"
# True where leaving the page asks first.
WARNS = "!dispatchEvent(new Event('beforeunload', {cancelable: true}))"
pytestmark = pytest.mark.integration
Golden = Callable[..., Done]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Golden:
    return lambda *arguments: call(golden, ["label", "golden.jsonl", *arguments], capsys)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    make_experiment(tmp_path)
    monkeypatch.chdir(tmp_path)
    for mode in ("semantic", "hybrid"):
        flags = ["--config", "experiment.yaml", "--retriever.mode", mode, "--save-retrieval", mode, "--quiet"]
        assert call(evaluate, flags, capsys) == Done(0, "", "")
    return tmp_path


def sheet(file: Path) -> list[dict[str, str]]:
    assert file.read_bytes().startswith(b"\xef\xbb\xbf")
    with file.open(newline="", encoding="utf-8-sig") as opened:
        return list(csv.DictReader(opened))


def press(browser: Chromium, key: str, done: int | None = None) -> None:
    text = {"text": key} if len(key) == 1 else {}
    browser.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
    browser.call("Input.dispatchKeyEvent", type="keyUp", key=key)
    if done is not None:
        browser.wait_for(f"{BAR} === {done}")


def saved_by(browser: Chromium, folder: Path) -> list[dict[str, Any]]:
    browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    for old in folder.glob("*.ada.jsonl"):
        old.unlink()
    count = int(browser.evaluate(BAR))
    press(browser, "w")
    lines: list[str] = []
    # The browser makes the file first, and fills it then.
    while len(lines) < count or not lines[-1].endswith("\n"):
        browser.evaluate("0")
        lines = [line for file in folder.glob("*.ada.jsonl") for line in file.read_text().splitlines(keepends=True)]
    return [json.loads(line) for line in lines]


@pytest.mark.slow
@pytest.mark.skipif(FOUND is None, reason="needs a browser: chromium, chromium-browser or google-chrome on the PATH")
def test_a_person_labels_by_keyboard_mouse_and_touch(folder: Path, run: Golden, tmp_path: Path) -> None:
    assert FOUND is not None and run(*POOL).code == 0
    page = folder / "golden.label.html"
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    with chromium(FOUND, tmp_path / "profile") as browser:
        browser.open(page, width=1200, theme="light")
        browser.wait_for(SHOWN)
        assert not browser.evaluate(WARNS), "nothing is lost yet"
        assert browser.evaluate("split('Above 0.13 it ends. Then?')") == [[0, 19], [20, 25]], "no number is cut"
        press(browser, "j")
        press(browser, " ")
        press(browser, "3", done=1)
        assert browser.evaluate(WARNS)
        browser.evaluate(SELECT)
        press(browser, "2", done=2)
        press(browser, "u", done=1)
        assert browser.evaluate(MARKED) > 0, "what was marked is there again"
        press(browser, "x")
        press(browser, "1", done=2)
        press(browser, "S", done=3)
        browser.evaluate(TABS)
        assert browser.evaluate(f"given.length === 3 && {MARKED}") > 0, "another person, and another tab of this one"
        press(browser, "x")
        first, second, third = saved_by(browser, tmp_path)
        assert not browser.evaluate(WARNS), "all is saved"
        assert first["grade"] == 3 and len(first["quotes"]) == 1 and first["quotes"][0] in first["chunk_text"]
        assert (second["grade"], second["quotes"], third["grade"]) == (1, [], None)
        assert {row["annotator"] for row in (first, second, third)} == {"ada"} and "query" not in first
        # A tab that crashes or is closed loses nothing. On a phone, in the dark: nothing is out of sight, a tap labels.
        time.sleep(1)  # a tab's process writes its storage a moment later, and another process may open the page
        browser.open(page, width=390, theme="dark")
        browser.wait_for(f"{SHOWN} && {BAR} === 3")
        assert browser.evaluate("document.documentElement.scrollWidth") <= 390 and not browser.evaluate(CUT_OFF)
        browser.evaluate("document.querySelector('[data-key=\"0\"]').click()")
        browser.wait_for(f"{BAR} === 4")
        total = int(browser.evaluate("document.getElementById('bar').max"))
        for done in range(5, total + 1):
            press(browser, "0", done=done)
        assert "All done" in browser.evaluate("document.body.innerText") and len(saved_by(browser, tmp_path)) == total
        assert run(*POOL[:-1], "bob", "--out", "bob.html").code == 0
        browser.open(folder / "bob.html", width=390, theme="light", height=300)
        browser.wait_for(f"{SHOWN} && {BAR} === 0")
        press(browser, "j")
        assert browser.evaluate("document.getElementById('who').textContent") == "bob", "in the same browser"
        assert browser.evaluate(COVERED) <= 0, "the chosen sentence stands above the buttons"
        assert not [problem for problem in browser.problems if "blob:" not in problem]
    [labels] = tmp_path.glob("*.ada.jsonl")
    read_back = run("--labels", labels)
    assert read_back.code == 0 and f"{total} labels by ada" in read_back.out, read_back.err
    assert run("--labels", labels, "--write").code == 0
    [case] = [case for case in golden_set(folder / "golden.jsonl").cases if case.id == first["case"]]
    assert case.labelling is not None and case.labelling.by == ["ada"]
    assert (first["quotes"][0], 3) in [(evidence.quote, evidence.grade) for evidence in case.evidence]


def rewritten(folder: Path, **columns: Sequence[str]) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (folder / "golden.jsonl").read_text().splitlines()]
    for name, values in columns.items():
        for row, value in zip(rows, values, strict=False):
            row[name] = value
    (folder / "golden.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rows


def graded(file: Path, grade: Callable[[dict[str, str]], str]) -> None:
    rows = [row | {"grade": grade(row)} for row in sheet(file)]
    with file.open("w", newline="") as opened:
        writer = csv.DictWriter(opened, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def test_a_text_of_the_pool_ends_no_script_loads_nothing_and_is_no_formula(folder: Path, run: Golden) -> None:
    answers = [f"{sign}1+1" for sign in "=+-@'1"]
    rewritten(folder, query=["</script><img src=x onerror=alert(1)>"], reference_answer=answers)
    assert run("--config", "experiment.yaml").code == 0
    text = (folder / "golden.label.html").read_text()
    assert text.count("</script>") == 2 and "<img" not in text and "default-src 'none'" in text
    assert run("--config", "experiment.yaml", "--out", "sheet.csv", "--annotator", "ada").code == 0
    assert {row["annotator"] for row in sheet(folder / "sheet.csv")} == {"ada"}
    written = {row["reference_answer"] for row in sheet(folder / "sheet.csv")}
    assert written == {*(f"'{answer}" for answer in answers[:-1]), answers[-1]}


def test_queries_come_in_the_judging_order_and_a_spreadsheet_is_read_back(folder: Path, run: Golden) -> None:
    path = folder / "golden.jsonl"
    before = rewritten(folder, reference_answer=["About it."] * len(CASES))
    done = run(*POOL, "--seed", "5", "--out", "sheet.csv")
    assert done.code == 0 and stat.S_IMODE((folder / "sheet.csv").stat().st_mode) == 0o600
    rows = sheet(folder / "sheet.csv")
    order = judging_order(golden_set(path).cases, 5)
    assert list(dict.fromkeys(row["case"] for row in rows))[: len(order)] == order
    assert "no label in them" in run("--labels", "sheet.csv").err
    graded(folder / "sheet.csv", lambda row: "1" if row["case"] in order[:3] else "")
    assert "sheet.csv: exists already" in run(*POOL, "--out", "sheet.csv").err, "it may be filled in"
    assert "labels of 3 cases are written" in run("--labels", "sheet.csv", "--annotator", "bob", "--write").out
    for row, old in zip(map(json.loads, path.read_text().splitlines()), before, strict=True):
        assert set(row.pop("human_verdicts", {}).values()) == ({1} if row["id"] in order[:3] else set())
        assert row["id"] in order[:3] or row == old
    assert run(*POOL, "--seed", "5", "--out", "again.csv").code == 0
    assert not {row["case"] for row in sheet(folder / "again.csv")} & {*order[:3]}, "what people judged is left out"
    graded(folder / "again.csv", lambda _: "0")
    assert run("--labels", "again.csv", "--write").code == 0
    assert "No chunk of the pool is left to judge" in run(*POOL, "--out", "none.csv").out, "out of scope, too"


def test_unjudged_chunks_of_a_report_are_asked(folder: Path, run: Golden, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--config", "experiment.yaml", "--from-retrieval", "semantic", "--output", "report.json", "--quiet"]
    assert call(evaluate, [*flags, "--retriever.mode", "semantic"], capsys) == Done(0, "", "")
    report = json.loads((folder / "report.json").read_text())
    inside = [row for row in report["queries"] if row["in_scope"]]
    returned = {(row["id"], hit["chunk_id"]) for row in inside for hit in row["retrieved"]}
    relevant = {(row["id"], chunk_id) for row in report["queries"] for chunk_id in row["relevant"]}
    for where in (("--pool", "semantic"), ("--config", "experiment.yaml")):
        assert run("--report", "report.json", *where, "--out", "sheet.csv", "--force").code == 0
        assert {(row["case"], row["chunk"]) for row in sheet(folder / "sheet.csv")} == returned - relevant
    assert "there is no pool" in run("--report", "report.json").err


def test_bad_input_is_told_and_nothing_is_written(folder: Path, run: Golden) -> None:
    before = (folder / "golden.jsonl").read_bytes()
    for arguments, message in (
        ((), "there is no pool: name saved retrievals with --pool FILE"),
        (("--pool", "nowhere"), "--pool nowhere: expected a file that --save-retrieval wrote"),
        (("--write",), "--write: expected the files of labels to write"),
        (("--pool", "semantic", "--report", "none.json"), "none.json"),
        (("--holes", "none.json"), "--holes is gone: `golden label --report REPORT`"),
    ):
        done = run(*arguments)
        assert (done.code, done.out) == (2, "") and message in done.err, done.err
    assert (folder / "golden.jsonl").read_bytes() == before
    (folder / "golden.jsonl").unlink()
    assert "golden.jsonl: expected a golden .jsonl file" in run("--pool", "semantic").err

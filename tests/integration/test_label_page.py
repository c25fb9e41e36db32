"""People label pooled chunks: two retrievals, the page in Chromium, kill -9, and the labels in the golden file."""

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from evals.collect.saved import read, write
from evals.config.experiment import DatasetConfig
from evals.golden import main as golden
from evals.golden.loading import load_golden
from evals.run import main as evaluate
from tests.support.child import environment
from tests.support.chromium import Chromium, chromium, find_chromium
from tests.support.command import Done, call
from tests.support.experiment import CASES, make_experiment
from tests.support.golden_data import judging_order

FOUND = find_chromium()
POOL = ("--pool", "semantic", "hybrid", "--depth", "2", "--annotator", "ada")
BAR = "document.getElementById('bar').value"
SHOWN = "!document.getElementById('work').hidden"
SELECT = """(() => {
  const span = document.querySelector('#text span'), range = document.createRange();
  range.setStart(span.firstChild, 0); range.setEnd(span.firstChild, 5);
  getSelection().removeAllRanges(); getSelection().addRange(range);
  document.getElementById('text').dispatchEvent(new PointerEvent('pointerup', {bubbles: true}));
})()"""
CUT_OFF = "[...document.querySelectorAll('footer button')].filter(b => b.getBoundingClientRect().right > 390).length"
pytestmark = pytest.mark.integration
Golden = Callable[..., Done]


class Page:
    """A running `golden label`."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "evals.golden", "label", "golden.jsonl", "--no-browser", *arguments]
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self.process.stdout is not None
        self.said = ""
        while not (address := re.search(r"http://127\S+", self.said)):
            line = self.process.stdout.readline()
            assert line, self.said
            self.said += line
        self.address = address.group()
        self.server, _, rest = self.address.partition("/?token=")
        self.token = rest.partition("&")[0]

    def ask(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        content = None if body is None else json.dumps(body).encode()
        with urlopen(Request(self.server + path, content, {"x-token": self.token}), timeout=60) as reply:
            state: dict[str, Any] = json.load(reply)
        return state

    def end(self, number: signal.Signals) -> str:
        self.process.send_signal(number)
        return self.process.communicate(timeout=60)[0]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Golden:
    return lambda *arguments: call(golden, ["label", "golden.jsonl", "--no-browser", *arguments], capsys)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A golden file, and two retrievals of its queries."""
    make_experiment(tmp_path)
    monkeypatch.chdir(tmp_path)
    for mode in ("semantic", "hybrid"):
        flags = ["--config", "experiment.yaml", "--retriever.mode", mode, "--save-retrieval", mode, "--quiet"]
        assert call(evaluate, flags, capsys) == Done(0, "", "")
    return tmp_path


@pytest.fixture
def page(folder: Path) -> Iterator[Page]:
    page = Page(folder, *POOL)
    yield page
    page.process.kill()
    page.process.communicate()


def press(browser: Chromium, key: str, done: int | None = None) -> None:
    """Press a key, and wait until so many labels are done."""
    text = {"text": key} if len(key) == 1 else {}
    browser.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
    browser.call("Input.dispatchKeyEvent", type="keyUp", key=key)
    if done is not None:
        browser.wait_for(f"{BAR} === {done} && !document.querySelector('footer button').disabled")


def labels_in(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "golden.jsonl.labels.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.slow
@pytest.mark.skipif(FOUND is None, reason="needs a browser: chromium, chromium-browser or google-chrome on the PATH")
def test_a_person_labels_by_keyboard_mouse_and_touch(page: Page, folder: Path, tmp_path: Path) -> None:
    assert FOUND is not None
    with chromium(FOUND, tmp_path / "profile") as browser:
        browser.open(page.address, width=1200, theme="light")
        browser.wait_for(SHOWN)
        press(browser, "j")
        press(browser, " ")
        press(browser, "3", done=1)
        [first] = labels_in(folder)
        assert first["grade"] == 3 and len(first["quotes"]) == 1 and first["quotes"][0] in first["chunk_text"]
        browser.evaluate(SELECT)
        press(browser, "2", done=2)
        second = labels_in(folder)[-1]
        assert second["quotes"] == [second["chunk_text"][:5].strip()]
        press(browser, "u", done=1)
        assert browser.evaluate("document.querySelectorAll('.quoted').length") > 0, "what was marked is there again"
        press(browser, "x")
        press(browser, "n")
        browser.call("Input.insertText", text="odd")
        press(browser, "Escape")
        press(browser, "1", done=2)
        last = labels_in(folder)[-1]
        assert (last["note"], last.get("quotes", [])) == ("odd", [])
        press(browser, "s", done=3)
        # On a phone, in the dark: nothing is out of sight, and a tap is a label.
        browser.open(page.address, width=390, theme="dark")
        browser.wait_for(SHOWN)
        assert browser.evaluate("document.documentElement.scrollWidth") <= 390 and not browser.evaluate(CUT_OFF)
        browser.evaluate("document.querySelector('[data-key=\"0\"]').click()")
        browser.wait_for(f"{BAR} === 4")
        for done in range(5, int(browser.evaluate("document.getElementById('bar').max")) + 1):
            press(browser, "0", done=done)
        assert "All done" in browser.evaluate("document.body.innerText")
        assert not [problem for problem in browser.problems if not problem.startswith("request of http://127.0.0.1")]
    assert "labels by ada" in page.end(signal.SIGINT)


@pytest.mark.slow
def test_a_killed_page_has_lost_no_label(page: Page, folder: Path, run: Golden) -> None:
    state = page.ask("/state?annotator=ada")
    case_id = state["case"]["id"]
    page.ask("/label", {"case": case_id, "chunk": state["chunk"]["id"], "annotator": "ada", "grade": 0})
    page.end(signal.SIGKILL)
    again = Page(folder, *POOL)
    assert again.ask("/state?annotator=ada")["done"] == 1
    again.end(signal.SIGINT)
    before = {row["id"]: row for row in map(json.loads, (folder / "golden.jsonl").read_text().splitlines())}
    done = run("--write")
    assert done.code == 0 and "labels of 1 cases are written" in done.out, done.err
    rows = {row["id"]: row for row in map(json.loads, (folder / "golden.jsonl").read_text().splitlines())}
    assert rows[case_id]["labelling"] | {"at": ""} == {
        "by": ["ada"],
        "at": "",
        "pool": ["semantic", "hybrid"],
        "depth": 2,
    }
    assert {name: row for name, row in rows.items() if name != case_id} == {
        name: row for name, row in before.items() if name != case_id
    }


@pytest.mark.slow
def test_the_judges_question_comes_in_the_judging_order_and_leaves_evidence_as_it_is(folder: Path, run: Golden) -> None:
    path = folder / "golden.jsonl"
    before = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**row, "reference_answer": f"About {row['id']}."}) + "\n" for row in before))
    page = Page(folder, *POOL, "--verdicts", "--seed", "5")
    order = judging_order(before, 5)
    asked: list[str] = []
    while len(dict.fromkeys(asked)) < 3:
        state = page.ask("/state?annotator=ada")
        asked.append(state["case"]["id"])
        page.ask("/label", {"case": asked[-1], "chunk": state["chunk"]["id"], "annotator": "ada", "grade": 1})
    assert list(dict.fromkeys(asked)) == order[:3]
    assert "label golden.jsonl --verdicts --write" in page.end(signal.SIGINT)
    assert "no label to write" in run("--write").err
    done = run("--verdicts", "--write")
    assert done.code == 0 and "labels of 3 cases are written" in done.out, done.err
    for row, old in zip(map(json.loads, path.read_text().splitlines()), before, strict=True):
        verdicts = row.pop("human_verdicts", {})
        assert row == {**old, "reference_answer": f"About {old['id']}."}
        assert set(verdicts.values()) == ({1} if row["id"] in order[:3] else set())


def test_bad_input_is_told_and_nothing_is_written(folder: Path, run: Golden) -> None:
    before = (folder / "golden.jsonl").read_bytes()
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    for arguments, message in (
        ((), "there is no pool: name saved retrievals with --pool FILE"),
        (("--pool", "nowhere"), "--pool nowhere: expected a file that --save-retrieval wrote"),
        (("--write",), "golden.jsonl.labels.jsonl: no label to write"),
        (("--pool", "semantic", "--judge", "none.json"), "none.json"),
        (("--pool", "semantic", "--port", port), f"port {port} cannot be used"),
        (
            ("--pool", "semantic", "--verdicts"),
            "--verdicts: expected in-scope cases with a reference_answer, found none",
        ),
        (("--verdicts", "--holes", "none.json"), "by what they decide; leave one out"),
    ):
        done = run(*arguments)
        assert (done.code, done.out) == (2, "") and message in done.err, done.err
    taken.close()
    assert (folder / "golden.jsonl").read_bytes() == before
    (folder / "golden.jsonl").unlink()
    assert "golden.jsonl: expected a golden .jsonl file" in run("--pool", "semantic").err


def test_a_pool_of_two_collections_is_refused(folder: Path, run: Golden) -> None:
    saved = read(folder / "hybrid")
    other = replace(saved.origin, collection={**(saved.origin.collection or {}), "fingerprint": "other"})
    cases = load_golden(DatasetConfig(path=folder / "golden.jsonl")).cases
    write(folder / "hybrid", [saved.pool(cases, [0])], other)
    done = run("--pool", "semantic", "hybrid")
    assert done.code == 2 and "the pool is of different collections: semantic of 'robots'" in done.err


@pytest.mark.slow
def test_cases_need_no_evidence_to_be_labelled_and_a_retriever_can_be_asked_now(folder: Path) -> None:
    rows = [{"id": case["id"], "query": case["query"]} for case in CASES]
    (folder / "golden.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = Page(folder, "--store.path", "store", "--collection", "robots", "--depth", "2")
    state = page.ask("/state?annotator=eve")
    assert state["done"] == 0 and state["total"] == 2 * len(CASES)
    assert "no label yet" in page.end(signal.SIGINT)


@pytest.mark.slow
def test_the_holes_of_a_report_are_asked_for_until_none_is_left(
    folder: Path, run: Golden, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--config", "experiment.yaml", "--from-retrieval", "semantic", "--output", "report.json", "--quiet"]
    assert call(evaluate, [*flags, "--retriever.mode", "semantic"], capsys) == Done(0, "", "")
    page = Page(folder, "--pool", "semantic", "hybrid", "--holes", "report.json")
    report = json.loads((folder / "report.json").read_text())
    returned = [(row, hit["chunk_id"]) for row in report["queries"] if row["in_scope"] for hit in row["retrieved"]]
    relevant = [chunk_id for row, chunk_id in returned if chunk_id in row["relevant"]]
    assert f"judged {len(relevant)} → {len(relevant)}, relevant {len(relevant)} → {len(relevant)};" in page.said
    state = page.ask("/state?annotator=ada")
    while "chunk" in state:
        row = next(row for row in report["queries"] if row["id"] == state["case"]["id"])
        assert state["chunk"]["id"] not in row["relevant"], "its label is known"
        answer = {"case": row["id"], "chunk": state["chunk"]["id"], "annotator": "ada", "grade": 0}
        state = page.ask("/label", answer)
    page.end(signal.SIGINT)
    assert run("--write").code == 0
    done = run("--pool", "semantic", "hybrid", "--holes", "report.json")
    assert done.code == 0 and done.out.endswith("No hole is left: all that can change the report was judged\n")
    assert f"judged {len(relevant)} → {len(returned)}, relevant" in done.out

"""`golden label --labels`: labels of pages and spreadsheets read back, compared, and taken into the golden file."""

import csv
import hashlib
import json
import random
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from sklearn.metrics import cohen_kappa_score
from syrupy.assertion import SnapshotAssertion

from evals.golden.command import main
from evals.golden.labelling import COLUMNS
from evals.judge.verdicts import ChunkVerdict
from evals.report.model import Hit
from tests.support.command import Done, call
from tests.support.results import report

PAGE = "/docs/motors"
ASKED = hashlib.sha256(b"How fast?\x001,000 rpm.").hexdigest()[:16]
ROW: dict[str, Any] = {"id": "q1", "query": "How fast?", "reference_answer": "1,000 rpm."}
OTHER = '{"query":  "unlabelled", "id": "q2"}\n'
Row = dict[str, Any]
Command = Callable[..., Done]


def given(chunk: str = "a", grade: int | None = 2, annotator: str = "ada", minute: int = 0, **fields: Any) -> Row:
    known = {"case": "q1", "asked": ASKED, "at": f"2026-11-23T12:{minute:02}:00Z", "chunk_text": f"Text of {chunk}."}
    place = {"source_url": PAGE, "heading": "Speed"}
    return {**known, **place, "chunk": chunk, "grade": grade, "annotator": annotator, **fields}


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    return tmp_path / "golden.jsonl"


@pytest.fixture
def label(golden: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    def run(labels: Sequence[Row] | Path, *flags: str | Path, case: Mapping[str, Any] | None = ROW) -> Done:
        file = labels if isinstance(labels, Path) else golden.with_name("ada.jsonl")
        if not isinstance(labels, Path):
            file.write_text("".join(json.dumps(row) + "\n" for row in labels))
        if case is not None:
            golden.write_text(OTHER + json.dumps(case) + "\n")
        return call(main, ["label", golden, "--labels", file, *flags], capsys)

    return run


def written(golden: Path) -> Row:
    first, second = golden.read_text().splitlines(keepends=True)
    assert first == OTHER, "lines without labels stay as they are"
    row: Row = json.loads(second)
    assert all((item["source_url"], item.get("heading", "Speed")) == (PAGE, "Speed") for item in row["evidence"])
    return row


LABELLED = {**ROW, "evidence": [
    {"source_url": PAGE, "heading": "Speed", "quote": "Text of a.", "grade": 3, "labelled": True},
    {"source_url": PAGE, "heading": "Speed", "quote": "Text of b.", "grade": 0, "labelled": True},
]}  # fmt: skip


AGAIN = {**LABELLED, "human_verdicts": {"a": 1, "b": 0}, "labelling": {"by": ["ada"], "at": "now"}}


@pytest.mark.parametrize(
    ("case", "labels", "passages", "verdicts"),
    [
        (ROW, [given("a", 3, quotes=["Text of"]), given("b", 1), given("c", 0), given("d", None)],
         {"Text of": 3, "Text of b.": 1, "Text of c.": 0}, {"a": 1, "b": 1, "c": 0}),
        (ROW, [given("a", 3), given("a", 1)], {"Text of a.": 1}, {"a": 1}),  # the last of a person counts
        # The lower median, and the quotes of those who found it relevant.
        (ROW, [given("a", 3, quotes=["Text of"]), given("a", 2, "bob", quotes=["of  a", "Text   of"]),
               given("b"), given("b", 0, "bob")],
         {"Text   of": 2, "of  a": 2, "Text of b.": 0}, {"a": 1, "b": 0}),
        # Of passages that are there already the grade is replaced, and by a quote the whole.
        (LABELLED, [given("a", 1), given("b", 2)], {"Text of a.": 1, "Text of b.": 2}, {"a": 1, "b": 1}),
        (LABELLED, [given("b", 2, quotes=["of b"])], {"Text of a.": 3, "of b": 2}, {"b": 1}),
        # The latest of a person counts, whichever file is named last, and replaces what a former one left in the chunk.
        (ROW, [given("a", 0, minute=9), given("a", 3)], {"Text of a.": 0}, {"a": 0}),
        (AGAIN, [given("a", 1, quotes=["of a"])], {"of a": 1, "Text of b.": 0}, {"a": 1, "b": 0}),
        (AGAIN, [given("a", 0)], {"Text of a.": 0, "Text of b.": 0}, {"a": 0, "b": 0}),
        # What the row held in other columns stands in its evidence alone.
        ({**ROW, "quote": "of  a.", "source_url": PAGE, "contexts": ["Text of a."]}, [given("a", 2)],
         {"of  a.": 1, "Text of a.": 2}, {"a": 1}),
    ],
)  # fmt: skip
def test_labels_become_evidence_and_verdicts(
    label: Command, golden: Path, case: Row, labels: list[Row], passages: Row, verdicts: Row
) -> None:
    done = label(labels, "--write", case=case)
    assert f"{golden}: labels of 1 cases are written" in done.out, done.err
    row = written(golden)
    assert {item["quote"]: item["grade"] for item in row["evidence"]} == passages
    assert (row["human_verdicts"], row["query"]) == (verdicts, "How fast?")
    assert "contradict" not in done.out and not row.keys() & {"quote", "contexts"}
    latest = max(one["at"] for one in labels).replace("Z", "+00:00")
    assert row["labelling"] == {"by": sorted({one["annotator"] for one in labels}), "at": latest}


def test_what_contradicts_the_golden_data_is_named_and_changes_nothing(label: Command, golden: Path) -> None:
    done = label([given("a", 2), given("b", 0)], "--write", case={**ROW, "in_scope": False})
    assert "q1: chunk a has grade 2, and the case is out of scope; left out" in done.out
    assert [item["quote"] for item in written(golden)["evidence"]] == ["Text of b."]
    case = {**ROW, "evidence": [{"source_url": PAGE, "quote": "Text  of a"}], "relevant_ids": {"b": 2}}
    done = label([given("a", 0), given("b", 0), given("c", 0)], "--write", case=case)
    for _ in range(2):  # written twice, it is the same
        assert "2 labels contradict the golden data" in done.out
        assert done.out.count("has grade 0, and a higher one by evidence or relevant_ids") == 2
        assert written(golden)["relevant_ids"] == {"b": 2}
        assert ("Text  of a", 1) in [(item["quote"], item["grade"]) for item in written(golden)["evidence"]]
        done = label([given("a", 0), given("b", 0), given("c", 0)], "--write", case=written(golden))
    # What a person wrote, also with its heading as `golden init` does, stays in a second round, or is told.
    unanswered, asked = {"id": "q1", "query": "How fast?"}, hashlib.sha256(b"How fast?\0").hexdigest()[:16]
    for row, text, heading in ((ROW, ASKED, {"heading": "Speed"}), (unanswered, asked, {})):
        case = {**row, "evidence": [{"source_url": PAGE, "quote": "of a", **heading}]}
        for grade, others in ((3, "bob"), (0, "eve")):
            done = label([given("a", grade, others, asked=text)], "--write", case=case)
            case = written(golden)
            assert [(item["quote"], item["grade"]) for item in case["evidence"]] == [("of a", 1), ("Text of a.", grade)]
        assert "q1: chunk a has grade 0, and a higher one by evidence or relevant_ids; both are kept" in done.out
        assert case["labelling"]["by"] == ["bob", "eve"]
    places = [{"source_url": PAGE, "heading": "Speed"}, {"source_url": PAGE}]
    label([given("c", 0)], "--write", case={**ROW, "evidence": places})
    assert sum("quote" not in item for item in written(golden)["evidence"]) == 2, "both stay"
    done = label([given("a", 0)], "--write", case={**ROW, "evidence": [{"quote": "Text of a."}]})
    assert "a higher one by evidence or relevant_ids; the label replaces it" in done.out


def test_a_spreadsheet_is_read_without_formulas_and_empty_grades(label: Command, golden: Path, tmp_path: Path) -> None:
    with (tmp_path / "bob.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        file.write(",".join(COLUMNS).replace("grade", "Grade ") + "\n")
        row = {"case": "q1", "query": "why?", "asked": ASKED, "chunk_text": "'=1+1", "source_url": PAGE}
        writer.writerow(row | {"chunk": "a", "grade": 3})
        writer.writerow(row | {"chunk": "b", "chunk_text": "first, second", "grade": 2, "quotes": "first\nsecond"})
        writer.writerow(row | {"chunk": "c", "grade": ""})
    done = label(tmp_path / "bob.csv", "--annotator", "eve")
    assert "2 labels by eve" in done.out and "bob.csv --annotator=eve --write" in done.out
    done = label(tmp_path / "bob.csv", "--write")
    assert "2 labels by bob" in done.out, done.err
    golden.rename(tmp_path / "linked.jsonl")
    golden.symlink_to("linked.jsonl")
    golden.chmod(0o600)
    assert label(tmp_path / "bob.csv", "--write").code == 0 and golden.is_symlink(), "the file of the link is written"
    assert stat.S_IMODE(golden.stat().st_mode) == 0o600
    assert [item["quote"] for item in written(golden)["evidence"]] == ["=1+1", "first", "second"]
    saved_twice = (tmp_path / "bob.csv").rename(tmp_path / "bob (1).csv")
    assert f"label {golden} --labels '{saved_twice}' --write" in label(saved_twice).out
    (other := tmp_path / "of_eve" / saved_twice.name).parent.mkdir()
    other.write_bytes(saved_twice.read_bytes())
    assert "the same on 100% of 2 pairs" in label(saved_twice, other).out, "files of one name are of two people"


LABELS = {
    "a.jsonl": '{"case": "q1"}\n{no', "graded.csv": "case,chunk,asked,grade\nq1,a,x,7\n",
    "empty.csv": "case,chunk,asked,grade\nq1,a,x,\n", "gone.jsonl": json.dumps(given(case="gone")),
    "short.csv": "case,chunk,asked,grade\nq1,a\n", "changed.jsonl": json.dumps(given(asked="another")),
}  # fmt: skip


def test_faults_of_labels_are_named_with_their_place_and_nothing_is_written(
    label: Command, golden: Path, tmp_path: Path, snapshot: SnapshotAssertion, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in LABELS.items():
        (tmp_path / name).write_text(text)
    done = {name: label(tmp_path / name, "--write") for name in (*LABELS, "none.jsonl")}
    assert golden.read_text() == OTHER + json.dumps(ROW) + "\n"
    golden.write_text(json.dumps([ROW]))
    done["no lines"] = label([given()], "--write", case=None)
    done["--out"] = label([given()], "--write", "--out", tmp_path / "page.html")
    done["over"] = call(main, ["label", golden, "--out", golden], capsys)
    assert {name: one.err.replace(str(tmp_path), "FOLDER") for name, one in done.items()} == snapshot
    assert {one.code for one in done.values()} == {2}


def test_annotators_are_compared_on_what_is_relevant_as_scikit_learn_does(label: Command) -> None:
    grades: dict[str, list[int | None]] = {"ada": [3, 0, 2, 0], "bob": [3, 0, 1, 1], "eve": [None, None, None, 0]}
    pairs = [(1, 1), (0, 0), (1, 1), (0, 1), (0, 0), (1, 0)]
    one, other = zip(*pairs, strict=True)
    done = label([given(str(n), grade, name) for name, own in grades.items() for n, grade in enumerate(own)])
    kappa = cohen_kappa_score(one, other)
    assert f"Annotators: the same on 67% of 6 pairs of labels (kappa {kappa:.2f})\n" in done.out
    assert "Annotators: no chunk was judged by two" in label([given()]).out


def test_the_judge_is_compared_with_people_as_scikit_learn_does(label: Command, tmp_path: Path) -> None:
    drawn = random.Random(4)
    grades, verdicts = ([drawn.choice((0, 0, 1)) for _ in range(30)] for _ in range(2))
    hits = [
        Hit(rank=n + 1, chunk_id=f"c{n}", score=None, grade=0, judge=ChunkVerdict(verdict=verdict, reason=""))
        for n, verdict in enumerate(verdicts)
    ]
    made, file = report(), tmp_path / "report.json"
    row = made.queries[0].model_copy(update={"id": "q1", "retrieved": hits})
    file.write_text(
        made.model_copy(update={"queries": [row], "scores": {}, "proxies": {}}).model_dump_json(by_alias=True)
    )
    done = label([given(f"c{n}", 3 * grade) for n, grade in enumerate(grades)], "--report", file)
    same = sum(grade == verdict for grade, verdict in zip(grades, verdicts, strict=True)) / 30
    kappa = cohen_kappa_score(grades, verdicts)
    assert f"the same on {same:.0%} of 30 chunks (kappa {kappa:.2f})" in done.out, done.err
    assert ": no verdict on a labelled chunk" in label([given("other")], "--report", file).out

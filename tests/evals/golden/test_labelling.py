"""Labels of people: read back from pages and spreadsheets, compared, and taken into the golden file."""

import csv
import hashlib
import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from sklearn.metrics import cohen_kappa_score

from evals.cases.case import Case
from evals.errors import DatasetError
from evals.golden.labelling import (
    COLUMNS,
    Label,
    agreement,
    contradictions,
    krippendorff_alpha,
    merged,
    read_labels,
    standing,
    with_judge,
    write_labels,
)
from evals.judge.verdicts import ChunkVerdict
from evals.report.model import Hit
from tests.support.results import report

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
PAGE = "/docs/motors"
ASKED = hashlib.sha256(b"How fast?\x001,000 rpm.").hexdigest()[:16]
ROW: dict[str, Any] = {"id": "q1", "query": "How fast?", "reference_answer": "1,000 rpm.", "in_scope": True}


def case(**fields: Any) -> Case:
    return Case.model_validate(ROW | fields)


def given(chunk: str = "a", grade: int | None = 2, annotator: str = "ada", **fields: Any) -> Label:
    known: dict[str, Any] = {"case": "q1", "asked": ASKED, "at": NOON, "chunk_text": f"Text of {chunk}."}
    place = {"source_url": PAGE, "heading": "Speed"}
    return Label(chunk=chunk, grade=grade, annotator=annotator, **known | place | fields)


def passages(changed: dict[str, Any]) -> list[tuple[str, int]]:
    assert all((item["source_url"], item["heading"]) == (PAGE, "Speed") for item in changed["evidence"])
    return [(item["quote"], item["grade"]) for item in changed["evidence"]]


def test_labels_of_pages_and_spreadsheets_come_together_and_the_last_counts(tmp_path: Path) -> None:
    page, sheet = tmp_path / "ada.jsonl", tmp_path / "bob.csv"
    own = [given(), given("b", 0, quotes=("ein Absatz\n„wörtlich“",)), given(grade=1)]
    page.write_text("".join(one.model_dump_json(exclude_none=True) + "\n" for one in own))
    with sheet.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        row = {"case": "q1", "query": "why?", "asked": "x", "chunk_text": "'=1+1"}
        writer.writerow(row | {"chunk": "a", "grade": 3, "quotes": "first\nsecond"})
        writer.writerow(row | {"chunk": "b", "grade": ""})
    every = read_labels([page, sheet], "bob")
    assert every[:3] == own and [one.annotator for one in every] == ["ada"] * 3 + ["bob"]
    assert every[3].quotes == ("first", "second")
    assert every[3].chunk_text == "=1+1", "a spreadsheet must not take it for a formula"
    labels = standing(every)
    found = {chunk: [(one.annotator, one.grade) for one in own] for chunk, own in labels["q1"].items()}
    assert found == {"a": [("ada", 1), ("bob", 3)], "b": [("ada", 0)]}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.jsonl", '{"case": "q1"}\n{no', ["a.jsonl:1: asked: this field is required", "a.jsonl:2: not valid JSON"]),
        ("a.csv", "case,chunk,asked,grade\nq1,a,x,7\n", ["a.csv:2: grade: Input should be less"]),
        ("a.csv", "case;chunk;asked;grade\nq1;a;x;3\n", ["a.csv:2: annotator: must not be blank"]),
        ("a.csv", "case,chunk,asked,grade\nq1,a,x,\n", ["a.csv: no label in them; label first"]),
        ("none.jsonl", None, ["none.jsonl: cannot be read"]),
    ],
)
def test_faults_of_labels_are_named_with_their_place(
    tmp_path: Path, name: str, text: str | None, said: list[str]
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(DatasetError) as caught:
        read_labels([tmp_path / name])
    assert all(one in str(caught.value) for one in said)


def test_graded_chunks_become_evidence_and_the_others_are_judged() -> None:
    labels = standing([given("a", 3, quotes=("Text of",)), given("b", 1), given("c", 0), given("d", None)])
    changed = merged(case(), labels)
    assert passages(changed) == [("Text of", 3), ("Text of b.", 1), ("Text of c.", 0)]
    assert changed["human_verdicts"] == {"a": 1, "b": 1, "c": 0}
    assert changed["labelling"] == {"by": ["ada"], "at": "2026-11-23T12:00:00+00:00"}
    assert Case.model_validate(ROW | changed).labelling is not None
    assert merged(case(), standing([given(case="q2"), given(grade=None)])) == {}


def test_of_several_annotators_the_lower_median_counts_and_the_quotes_of_those_who_found_it_relevant() -> None:
    labels = standing([
        given("a", 3, quotes=("Text of",), at=NOON + timedelta(minutes=1)),
        given("a", 2, "bob", quotes=("of  a", "Text   of")),
        given("b", 0), given("b", 1, "bob"),
    ])  # fmt: skip
    changed = merged(case(), labels)
    assert set(passages(changed)) == {("Text   of", 2), ("of  a", 2), ("Text of b.", 0)}
    assert changed["labelling"]["by"] == ["ada", "bob"]
    assert changed["labelling"]["at"].startswith("2026-11-23T12:01")


def test_writing_twice_changes_nothing_and_another_grade_replaces_the_first() -> None:
    first = merged(case(), standing([given("a", 3), given("b", 0)]))
    again = Case.model_validate(ROW | first)
    assert merged(again, standing([given("a", 3), given("b", 0)])) == first
    assert passages(merged(again, standing([given("a", 1), given("b", 2)]))) == [("Text of a.", 1), ("Text of b.", 2)]
    marked = merged(again, standing([given("b", 2, quotes=("of b",))]))
    assert passages(marked) == [("Text of a.", 3), ("of b", 2)]


def test_what_contradicts_the_golden_data_is_named_and_changes_nothing() -> None:
    labels = standing([given("a", 2), given("b", 0)])
    outside = case(in_scope=False)
    changed = merged(outside, labels)
    assert set(changed) == {"evidence", "labelling"} and passages(changed) == [("Text of b.", 0)]
    assert Case.model_validate(ROW | {"in_scope": False} | changed)
    assert contradictions(outside, labels) == ["q1: chunk a has grade 2, and the case is out of scope"]
    known = case(evidence=[{"source_url": PAGE, "quote": "Text  of a"}], relevant_ids={"b": 2})
    assert contradictions(known, standing([given("a", 0), given("b", 0), given("c", 0)])) == [
        f"q1: chunk {name} has grade 0, and is relevant by evidence or relevant_ids" for name in "ab"
    ]
    assert "relevant_ids" not in merged(known, standing([given("b", 0)]))


def test_only_the_lines_of_labelled_cases_change_and_none_where_a_case_did(tmp_path: Path) -> None:
    file = tmp_path / "golden.jsonl"
    other = '{"query":  "unlabelled", "id": "q2"}\n'
    file.write_text(other + json.dumps(ROW) + "\n")
    assert write_labels(file, standing([given("a", 3)]))[0] == f"{file}: labels of 1 cases are written"
    assert file.read_text().startswith(other) and '"human_verdicts":' in file.read_text()
    before = file.read_text()
    for stale in (given(asked="another"), given(case="gone")):
        with pytest.raises(DatasetError, match=f"nothing is written: .*: {stale.case}$"):
            write_labels(file, standing([given("a", 1), stale]))
    assert file.read_text() == before
    file.write_text(json.dumps([ROW]))
    with pytest.raises(DatasetError, match="expected one JSON object a line to write into; golden import"):
        write_labels(file, standing([given("a", 3)]))


# Agreement: a published example, and the definition

# Krippendorff (2011), example C: 4 observers, 12 units, values 1 to 5; alpha ordinal 0.815.
EXAMPLE = [
    [1, 1, 1], [2, 2, 3, 2], [3, 3, 3, 3], [3, 3, 3, 3], [2, 2, 2, 2], [1, 2, 3, 4], [4, 4, 4, 4], [1, 1, 2, 1],
    [2, 2, 2, 2], [5, 5, 5], [1, 1], [3],
]  # fmt: skip


def by_definition(units: list[list[int]], most: int) -> float:
    """1 − the mean distance within units over that of all pairs, pair by pair."""
    paired = [unit for unit in units if len(unit) > 1]
    values = [value for unit in paired for value in unit]
    counts = [values.count(grade) for grade in range(most + 1)]

    def distance(a: int, b: int) -> float:
        low, high = sorted((a, b))
        return (sum(counts[low : high + 1]) - (counts[low] + counts[high]) / 2) ** 2

    within = sum(sum(distance(a, b) for a, b in permutations(unit, 2)) / (len(unit) - 1) for unit in paired)
    every = sum(distance(a, b) for a, b in permutations(values, 2)) / (len(values) - 1)
    return 1 - within / every


def test_alpha_is_that_of_the_published_example_and_of_its_definition() -> None:
    assert krippendorff_alpha(EXAMPLE, most=5) == pytest.approx(0.815, abs=5e-4)
    rng = random.Random(1)
    for _ in range(20):
        units = [[rng.randint(0, 3) for _ in range(rng.randint(1, 4))] for _ in range(8)]
        assert krippendorff_alpha(units) == pytest.approx(by_definition(units, 3), abs=1e-12)
    assert krippendorff_alpha([[0, 0], [3, 3], [1, 1]]) == pytest.approx(1.0)


@pytest.mark.parametrize("units", [[], [[1], [2]], [[2, 2], [2, 2, 2]]])
def test_alpha_is_not_computable_where_nothing_could_disagree(units: list[list[int]]) -> None:
    assert krippendorff_alpha(units) is None


def test_agreement_is_of_the_chunks_that_several_people_graded() -> None:
    grades: dict[str, Sequence[int | None]] = {"ada": [3, 0, 2, 0], "bob": [3, 0, 1, 1], "eve": [None, None, None, 0]}
    labels = standing([given(str(n), grade, name) for name, own in grades.items() for n, grade in enumerate(own)])
    alpha = krippendorff_alpha([[3, 3], [0, 0], [2, 1], [0, 1, 0]])
    assert agreement(labels) == f"Agreement (Krippendorff's alpha, ordinal): {alpha:.3f} over 4 chunks"
    same = standing([given("a", 2), given("a", 2, "bob")])
    assert agreement(same).endswith("not computable (all say the same) over 1 chunks")
    assert agreement(standing([given()])) == "Agreement: nothing was labelled by two yet"


def test_the_judge_is_compared_with_people_as_scikit_learn_does() -> None:
    drawn = random.Random(4)
    grades, verdicts = ([drawn.choice((0, 0, 1)) for _ in range(30)] for _ in range(2))
    own = [given(f"c{n}", 3 * grade) for n, grade in enumerate(grades)]
    hits = [
        Hit(rank=n + 1, chunk_id=f"c{n}", score=None, grade=0, judge=ChunkVerdict(verdict=verdict, reason=""))
        for n, verdict in enumerate(verdicts)
    ]
    made = report()
    row = made.queries[0].model_copy(update={"id": "q1", "retrieved": hits})
    said = with_judge(standing(own), made.model_copy(update={"queries": [row]}))
    same = sum(grade == verdict for grade, verdict in zip(grades, verdicts, strict=True)) / 30
    kappa = cohen_kappa_score(grades, verdicts)
    assert said == f"Judge of by hand: says the same on {same:.0%} of 30 chunks (kappa {kappa:.2f})"
    assert with_judge(standing([given("other")]), made) == "Judge of by hand: no verdict on a labelled chunk"

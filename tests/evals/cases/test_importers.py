"""BEIR folders are golden queries, or every fault is named."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from evals.cases.case import Case
from evals.cases.reading import validate_rows
from evals.cases.rows import beir_rows
from evals.errors import DatasetError


def import_beir(folder: Path, qrels: Path | None = None) -> tuple[Case, ...]:
    return validate_rows(beir_rows(folder, [qrels or folder / "qrels" / "test.tsv"]))[0]


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def test_a_beir_folder_is_read_and_unjudged_queries_are_left_out(tmp_path: Path) -> None:
    rows = [{"_id": "q1", "text": "one"}, {"_id": "q2", "text": "two", "metadata": {}}]
    write(tmp_path, "queries.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    write(tmp_path, "qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\nq1\td3\t-1\nq2\td1\t0\n")
    cases = import_beir(tmp_path)
    assert [(c.id, c.relevant_ids, c.split) for c in cases] == [("q1", {"d1": 2, "d2": 0, "d3": -1}, "test")]


def test_a_beir_qrels_file_without_a_header_loses_no_line(tmp_path: Path) -> None:
    write(tmp_path, "queries.jsonl", '{"_id": "q1", "text": "one"}\n')
    qrels = write(tmp_path, "dev.tsv", "q1\td1\t1\nq1\td2\t1\n")
    assert import_beir(tmp_path, qrels)[0].relevant_ids == {"d1": 1, "d2": 1}


def test_beir_faults_of_both_files_are_named_at_once(tmp_path: Path) -> None:
    write(tmp_path, "queries.jsonl", '{"_id": "q1"}\n{"_id": "q2", "text": "two"}\n')
    write(tmp_path, "qrels/test.tsv", "query-id\tcorpus-id\tscore\nq2 d1 1\n")
    with pytest.raises(DatasetError) as caught:
        import_beir(tmp_path)
    assert [Path(fault.split(":")[0]).name for fault in caught.value.faults] == ["queries.jsonl", "test.tsv"]


def test_judgements_of_unknown_queries_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "queries.jsonl", '{"_id": "q1", "text": "one"}\n')
    write(tmp_path, "qrels/test.tsv", "query-id\tcorpus-id\tscore\nq9\td1\t1\n")
    with pytest.raises(DatasetError, match=r"test.tsv:2: no query 'q9'"):
        import_beir(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"queries.jsonl: cannot be read: No such file"):
        import_beir(tmp_path)


# Faults that would pass in silence, or end in a traceback


def faults_of_beir(folder: Path, queries: Sequence[Mapping[str, object]], qrels: str) -> list[str]:
    write(folder, "queries.jsonl", "".join(json.dumps(row) + "\n" for row in queries))
    write(folder, "qrels/test.tsv", "query-id\tcorpus-id\tscore\n" + qrels)
    with pytest.raises(DatasetError) as caught:
        import_beir(folder)
    return [fault.removeprefix(f"{folder}/") for fault in caught.value.faults]


def test_queries_that_cannot_be_asked_are_named_with_their_line(tmp_path: Path) -> None:
    queries = [{"_id": "q1", "text": "fine"}, {"_id": "q2", "text": " \t"}, {"_id": "q3", "text": "word " * 600}]
    assert faults_of_beir(tmp_path, queries, "q1\td\t1\nq2\td\t1\nq3\td\t1\n") == [
        "queries.jsonl:2: query: must not be blank, got ' \\t'",
        "queries.jsonl:3: query: is too long: 600 words and 3000 characters; at most 512 words and 4000 characters, "
        "got 'word word word word word word word word word wo…rd word word word word word word word word word '",
    ]


def test_queries_without_judgements_may_be_as_they_like(tmp_path: Path) -> None:
    write(tmp_path, "queries.jsonl", '{"_id": "q1", "text": "fine"}\n{"_id": "q2", "text": ""}\n')
    write(tmp_path, "qrels/test.tsv", "q1\td\t1\n")
    assert [case.id for case in import_beir(tmp_path)] == ["q1"]


def test_what_is_said_twice_is_named_with_both_lines(tmp_path: Path) -> None:
    queries: list[dict[str, object]] = [{"_id": "q1", "text": "a"}, {"_id": 2, "text": "b"}, {"_id": "q1", "text": "c"}]
    assert faults_of_beir(tmp_path, queries, "q1\td\t1\nq1\te\t1\nq1\td\t2\n2\td\t1\n") == [
        f"queries.jsonl:3: query id 'q1' is used already at {tmp_path}/queries.jsonl:1",
        f"qrels/test.tsv:4: document 'd' of query 'q1' is judged already at {tmp_path}/qrels/test.tsv:2",
    ]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('{"_id": "q1"}', """expected an object with "_id" and "text", got {'_id': 'q1'}"""),
        ('{"_id": " ", "text": "a"}', 'expected an object with "_id" and "text"'),
        ('{"_id": "q1", "text": ["a"]}', 'expected an object with "_id" and "text"'),
        ('["q1"]', "expected a JSON object, got 'q1'"),
        ("5", "expected a JSON object, got 5"),
        ('{"_id": "q1", "_id": "q2", "text": "a"}', "not valid JSON: '_id' is given twice"),
        ('{"_id": ' + "9" * 5_000 + ', "text": "a"}', "not valid JSON: a number of 5,000 digits"),
        ("[" * 100_000, "not valid JSON: nested too deep"),
        ('{"_id": "q1", "text": "\\ud800"}', "not valid JSON: half of a surrogate pair"),
    ],
)
def test_a_line_that_is_no_query_is_named(line: str, fault: str, tmp_path: Path) -> None:
    write(tmp_path, "queries.jsonl", line)
    write(tmp_path, "qrels/test.tsv", "q1\td\t1\n")
    with pytest.raises(DatasetError) as caught:
        import_beir(tmp_path)
    assert caught.value.faults[0].startswith(f"{tmp_path}/queries.jsonl:1: {fault}")
    assert len(caught.value.faults[0]) < 500


@pytest.mark.parametrize("grade", ["9" * 5_000, "1.5", "", "one", "1 2"])
def test_a_grade_that_is_no_whole_number_is_named(grade: str, tmp_path: Path) -> None:
    (fault,) = faults_of_beir(tmp_path, [{"_id": "q1", "text": "a"}], f"q1\td\t1\nq1\te\t{grade}\n")
    assert fault.startswith("qrels/test.tsv:3: expected query id, document id and a whole-number grade, got 'q1\\te")
    assert len(fault) < 300

"""`golden import`: columns of any name, faults by line, contexts found in the pages."""

import json
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset, DatasetDict
from ragas import EvaluationDataset
from ragas.dataset_schema import SingleTurnSample
from ragas.testset.synthesizers.testset_schema import Testset as RagasTestset

from evals.golden import main
from tests.support.command import Done, call
from tests.support.golden_data import load

STEPPER = "A stepper turns at up to a thousand revolutions each minute before it loses steps."
RATE = "Ask for the rate of a channel with the hz verb,\nand wait for ten seconds until it is steady."


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "motors.md").write_text(f"---\ntitle: Motors\n---\n## Speed\n\n{STEPPER}\n")
    (folder / "topics.md").write_text(f"---\ntitle: Topics\n---\n## Rates\n\n{RATE}\n")
    return folder


def imported(folder: Path, table: Path, capsys: pytest.CaptureFixture[str], *flags: str | Path) -> Done:
    return call(main, ["import", table, "--out", folder / "out.jsonl", *flags], capsys)


def cases(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_csv_of_other_column_names(
    tmp_path: Path, docs: Path, capsys: pytest.CaptureFixture[str], delimiter: str
) -> None:
    table = tmp_path / "table.csv"
    lines = [
        ["question", "truth", "answerable", "kind", "passage"],
        ["How quick is a stepper?", "1,000 rpm", "yes", "factual", STEPPER],
        ["Who won the cup?", "", "no", "general", ""],
    ]
    table.write_text("".join(delimiter.join(f'"{cell}"' for cell in line) + "\n" for line in lines))
    names = ["query=question", "reference_answer=truth", "in_scope=answerable", "query_type=kind", "contexts=passage"]
    done = imported(tmp_path, table, capsys, "--docs", docs, *(f for name in names for f in ("--column", name)))
    assert done.code == 0, done.err
    assert "2 cases of" in done.out and "1 of them out of scope" in done.out and "1 contexts: exact 1" in done.out
    assert cases(tmp_path) == [
        {
            "id": "q001",
            "query": "How quick is a stepper?",
            "reference_answer": "1,000 rpm",
            "evidence": [{"source_url": "/docs/motors", "heading": "Speed", "quote": STEPPER}],
            "query_type": "factual",
        },
        {"id": "q002", "query": "Who won the cup?", "in_scope": False, "query_type": "general"},
    ]
    assert call(main, ["check", tmp_path / "out.jsonl", "--docs", docs], capsys).code == 0


def test_rows_of_one_id_are_one_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "table.csv"
    table.write_text(
        "id,query,quote,grade\n7,how?,the first quote,3\n7,how?,the second quote,0\n8,why?,another quote,1\n"
    )
    assert imported(tmp_path, table, capsys).code == 0
    first, second = cases(tmp_path)
    assert [(e["quote"], e["grade"]) for e in first["evidence"]] == [("the first quote", 3), ("the second quote", 0)]
    assert (first["id"], second["id"]) == ("7", "8")


def test_queries_without_labels_are_skeletons_that_people_can_judge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "table.csv"
    table.write_text("query,in_scope\nhow?,\nwhy?,\nWho won?,no\n")
    done = imported(tmp_path, table, capsys)
    assert done.code == 0
    assert "3 cases of" in done.out and "2 of them are without evidence, so that only a judge can" in done.out
    assert f"python -m evals.golden label {tmp_path / 'out.jsonl'} --config EXPERIMENT" in done.out
    assert [case["query"] for case in cases(tmp_path)] == ["how?", "why?", "Who won?"]


def test_relevant_ids_in_any_notation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notations = ['{"a": 2, "b": 0}', "a:2, b:0", ["a", "b"], "a b", {"a": 2, "b": 0}]
    table = tmp_path / "table.jsonl"
    rows = [{"query": f"how {n}?", "gold": ids} for n, ids in enumerate(notations)]
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert imported(tmp_path, table, capsys, "--column", "relevant_ids=gold").code == 0
    graded, plain = {"a": 2, "b": 0}, {"a": 1, "b": 1}
    assert [case["relevant_ids"] for case in cases(tmp_path)] == [graded, graded, plain, plain, graded]


SAMPLES = [
    {"user_input": "How quick is a stepper?", "reference": "1,000 rpm", "reference_contexts": [STEPPER, RATE]},
    {"user_input": "How is a rate measured?", "reference": "With hz.", "reference_contexts": [" ".join(RATE.split())]},
]


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
@pytest.mark.parametrize("kind", ["testset", "evaluation dataset"])
def test_what_ragas_itself_writes(
    tmp_path: Path, docs: Path, capsys: pytest.CaptureFixture[str], kind: str, suffix: str
) -> None:
    table = tmp_path / f"ragas.{suffix}"
    made: Any = EvaluationDataset(samples=[SingleTurnSample(**sample) for sample in SAMPLES])
    if kind == "testset":
        made = RagasTestset.from_list([{**sample, "synthesizer_name": "single_hop"} for sample in SAMPLES])
    getattr(made, f"to_{suffix}")(table)
    done = imported(tmp_path, table, capsys, "--docs", docs)
    assert done.code == 0, done.err
    assert "3 contexts: exact 2, white space 1" in done.out
    assert [case["query"] for case in cases(tmp_path)] == [sample["user_input"] for sample in SAMPLES]
    assert {case.get("query_type") for case in cases(tmp_path)} == {"single_hop" if kind == "testset" else None}
    assert call(main, ["check", tmp_path / "out.jsonl", "--docs", docs], capsys).code == 0


def test_contexts_without_pages_are_quotes_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "ragas.jsonl"
    table.write_text(json.dumps(SAMPLES[0]) + "\n")
    done = imported(tmp_path, table, capsys)
    assert "2 contexts are quotes without a page" in done.out
    assert cases(tmp_path)[0]["evidence"] == [{"quote": STEPPER}, {"quote": RATE}]


def test_contexts_that_are_nowhere_are_told_and_their_cases_left_out(
    tmp_path: Path, docs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "ragas.jsonl"
    lost = {"user_input": "Where are zebras?", "reference_contexts": ["Zebras have stripes on all of their legs."]}
    table.write_text("".join(json.dumps(row) + "\n" for row in (*SAMPLES, lost)))
    done = imported(tmp_path, table, capsys, "--docs", docs)
    assert done.code == 0
    assert f"{table}:3: not found (most alike " in done.out and "1 cases of" in done.out
    assert len(cases(tmp_path)) == 2


@pytest.mark.parametrize("kind", ["saved", "saved splits", "parquet", "folder of parquet"])
def test_a_dataset_of_hugging_face(tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    rows = [{"question": f"how {n}?", "gold": ["c1", f"d{n}"], "split": None} for n in range(3)]
    made, place = Dataset.from_list(rows), tmp_path / "made"
    if kind == "saved":
        made.save_to_disk(str(place))
    elif kind == "saved splits":
        DatasetDict({"train": made, "test": made.select([0])}).save_to_disk(str(place))
    else:
        place = tmp_path / "made" / "train.parquet"
        place.parent.mkdir()
        made.to_parquet(str(place))
        place = place if kind == "parquet" else place.parent
    columns = ["--column", "query=question", "--column", "relevant_ids=gold"]
    done = imported(tmp_path, place, capsys, *columns)
    assert done.code == 0, done.err
    assert [case["relevant_ids"] for case in cases(tmp_path)] == [{"c1": 1, f"d{n}": 1} for n in range(3)]


def test_a_hub_id_without_a_revision_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = imported(tmp_path, Path("someone/data"), capsys)
    assert done.code == 2
    assert "'someone/data': no such file or folder; of a hub id give --revision" in done.err


@pytest.mark.parametrize(
    ("text", "flags", "message"),
    [
        ("question\nhow?\n", [], "no column 'query'; it has 'question'; name columns with --column FIELD=COLUMN"),
        ("query\nhow?\n", ["query=questions"], "no column 'questions'"),
        ("query\nhow?\n", ["qury=query"], "unknown field 'qury'; did you mean 'query'"),
        ("query\nhow?\n", ["query"], "expected FIELD=COLUMN, such as query=question, got 'query'"),
        ("query,answer\nhow?,so\n,so\n", [], "table.csv:3: query: this field is required"),
        ("query,quote\nhow?,a quote\nHow,other\n", [], "table.csv:3: the query is that of"),
        ("query,quote\nhow?,a,b,c\n", [], "table.csv:2: has 2 more cells than the first line has names"),
        ("query,in_scope\nhow?,maybe\n", [], "table.csv:2: in_scope: expected true or false, got 'maybe'"),
        ("query,quote,grade\nhow?,a quote,high\n", [], "table.csv:2: grade: expected a whole number, got 'high'"),
        ("query\n", [], "table.csv: holds no row"),
    ],
)
def test_faults_are_named_by_line_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, flags: list[str], message: str
) -> None:
    table = tmp_path / "table.csv"
    table.write_text(text)
    done = imported(tmp_path, table, capsys, *(f for flag in flags for f in ("--column", flag)))
    assert done.code == 2
    assert message in done.err and "Traceback" not in done.err
    assert not (tmp_path / "out.jsonl").exists()


def test_ragas_reads_the_rows_and_the_import_gives_the_evidence_back(
    handbook: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    golden, out, back = load(handbook / "golden.jsonl"), tmp_path / "ragas.jsonl", tmp_path / "back.jsonl"
    before = {case.query: case for case in golden.cases if case.in_scope}
    dataset = EvaluationDataset.from_list(golden.to_ragas())
    assert [(sample.user_input, sample.reference) for sample in dataset.samples] == [
        (query, case.reference_answer) for query, case in before.items()
    ]
    dataset.to_jsonl(out)
    assert call(main, ["import", out, "--docs", handbook / "docs", "--out", back], capsys).code == 0
    for case in load(back).cases:
        quotes = {(e.source_url, e.quote) for e in before[case.query].evidence if e.quote}
        assert {e.quote for e in case.evidence} == {quote for _, quote in quotes}


@pytest.mark.parametrize("kind", ["beir", "csv", "jsonl", "hf", "ragas", "traces"])
def test_a_format_that_was_named_is_read_by_itself_now(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = call(main, ["import", kind, tmp_path / "x", "--out", tmp_path / "out.jsonl"], capsys)
    place = "golden init --traces EXPERIMENT" if kind == "traces" else f"golden import {tmp_path / 'x'}"
    assert (done.code, done.err) == (2, f"error: golden import {kind} is gone: {place} -o FILE takes its place\n")

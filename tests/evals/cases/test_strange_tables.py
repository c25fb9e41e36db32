"""Tables as spreadsheets and pandas write them: nothing is lost without a word."""

from pathlib import Path

import pandas as pd
import pytest
from datasets import Dataset

from evals.cases.reading import golden_set
from evals.errors import DatasetError


def written(folder: Path, text: str) -> Path:
    file = folder / "golden.csv"
    file.write_text(text, encoding="utf-8", newline="")
    return file


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(",query,quote\n0,What turns?,A wheel.\n1,What stops?,A brake.\n", id="numbers of pandas"),
        pytest.param("query;quote\nWhat turns?;A wheel.\nWhat stops?;A brake.\n;\n", id="a blank last row"),
        pytest.param("query,quote\rWhat turns?,A wheel.\rWhat stops?,A brake.\r", id="carriage returns alone"),
    ],
)
def test_what_programs_add_is_no_part_of_the_data(text: str, tmp_path: Path) -> None:
    cases = golden_set(written(tmp_path, text)).cases
    assert [(case.query, case.evidence[0].quote) for case in cases] == [
        ("What turns?", "A wheel."),
        ("What stops?", "A brake."),
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("query,quote,quote\nWhat turns?,A wheel.,A disc.\n", "two columns 'quote'"),
        ("id,query,split\na,What turns?,dev\na,What turns?,test\n", "csv:3: split is 'test', and 'dev' in the row"),
        ("query,quote\nWhat turns?,A wheel.,A disc.\n", "csv:2: has 1 more cells"),
        ('query;quote;grade\r\nq;"one\r\ntwo";3\r\nr;"one\r\ntwo";9.5\r\n', "csv:4: evidence.0.grade"),
    ],
)
def test_what_would_be_lost_is_a_fault(text: str, fault: str, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=fault):
        golden_set(written(tmp_path, text))


def test_a_row_grades_all_that_it_names_and_need_not_repeat_the_query(tmp_path: Path) -> None:
    text = 'id,query,relevant_ids,contexts,grade\na,Which port?,d1,,3\na,,d2 d3,,0\na,,,"{""port"": 8080}",2\n'
    [case] = golden_set(written(tmp_path, text)).cases
    assert case.relevant_ids == {"d1": 3, "d2": 0, "d3": 0}
    assert [(item.quote, item.grade) for item in case.evidence] == [('{"port": 8080}', 2)]


def test_a_frame_or_a_dataset_is_read_as_its_csv_file() -> None:
    frame = pd.DataFrame({"id": ["1", "1", None], "query": ["q", "q", "r"], "quote": ["one", "two", "three"]})
    for table in (frame, Dataset.from_pandas(frame)):
        assert [(case.id, len(case.evidence)) for case in golden_set(table).cases] == [("1", 2), ("q002", 1)]


def test_every_file_of_a_folder_is_read(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text('{"id": "b", "query": "q"}')
    (tmp_path / "a.CSV").write_text("id,query\na,q\n")
    assert [case.id for case in golden_set(tmp_path).cases] == ["a", "b"]

"""Rows of a large report in a Parquet file, and the report that holds the worst of them."""

from pathlib import Path

import pandas as pd
import pytest

from evals.config.files import write
from evals.errors import ReportError
from evals.experiment.evaluation import Evaluation
from evals.experiment.output_files import Outputs
from evals.experiment.report_files import save_data
from evals.report import rows_file
from evals.report.building import run as building
from evals.report.model import Report
from evals.report.rows_file import RowsFile, written
from evals.tracking.references import open_run
from retrievers.errors import ConfigError
from tests.support.results import report, result

SMALL = report()


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> Report:
    """The report of three queries where two are too many."""
    monkeypatch.setattr(building, "MOST_IN_REPORT", 2)
    monkeypatch.setattr(building, "WORST_IN_REPORT", 1)
    return building.build_report(result(), SMALL.facts)


def saved(made: Report, folder: Path, name: str = "run.json") -> Path:
    evaluation = Evaluation(report=made, result=result(), outputs=Outputs())
    save_data(evaluation, Outputs(report=folder / name))
    return folder / name


@pytest.mark.parametrize("block", [1, 2, 2_000])
def test_all_rows_are_read_as_they_were_built(large: Report, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_file, "BLOCK", block)
    files: list[RowsFile] = []
    rows = SMALL.queries
    assert list(written(rows, [], files)) == rows
    assert list(files[0]) == rows == list(files[0])
    assert list(large.rows()) == rows


def test_the_report_holds_the_worst_and_names_the_file(large: Report) -> None:
    assert [row.id for row in large.queries] == ["wrong"]
    assert large.queries_file == "report.queries.parquet"
    assert (SMALL.queries_file, SMALL.rows_file) == (None, None)
    same = {"queries", "queries_file"}
    assert large.model_dump(exclude=same) == SMALL.model_dump(exclude=same)


def test_a_saved_report_is_read_with_the_rows_beside_it(large: Report, tmp_path: Path) -> None:
    file = saved(large, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.json", "run.queries.parquet"]
    run = open_run(str(file), None, "e")
    assert list(run.report.rows()) == SMALL.queries
    table = pd.read_parquet(tmp_path / "run.queries.parquet").set_index("id")
    assert table.loc["right", "outcome"] == "SUCCESS"
    assert table.loc["right", "ranking/hit_rate_at_5"] == 1.0


def test_a_file_of_rows_that_is_missing_or_something_else_is_told(large: Report, tmp_path: Path) -> None:
    file = saved(large, tmp_path)
    rows = tmp_path / "run.queries.parquet"
    rows.write_bytes(b"PAR1")
    with pytest.raises(ReportError, match="the rows of the report cannot be read"):
        open_run(str(file), None, "e")
    pd.DataFrame({"id": ["a"]}).to_parquet(rows)
    with pytest.raises(ReportError, match="a Parquet file with a column 'row'"):
        open_run(str(file), None, "e")
    rows.unlink()
    with pytest.raises(ReportError, match=r"1 worst of 3 queries; those of all are in 'run\.queries\.parquet', which"):
        open_run(str(file), None, "e")


def test_a_report_reads_no_file_elsewhere(large: Report, tmp_path: Path) -> None:
    file = saved(large, tmp_path)
    write(tmp_path / "in" / "run.json", file.read_text().replace("run.queries.parquet", "../run.queries.parquet"))
    with pytest.raises(ReportError, match="which is not beside it"):
        open_run(str(tmp_path / "in" / "run.json"), None, "e")


def test_a_folder_that_cannot_be_written_leaves_nothing(large: Report, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be written"):
        saved(large, tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]

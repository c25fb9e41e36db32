import json
from pathlib import Path
from typing import Any

import pytest

from evals.errors import ReportError, TrackingError
from evals.tracking.references import open_run, refuse_repeated
from tests.support.reports import NDCG, document


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(file: Path, **changes: Any) -> Path:
    file.write_text(json.dumps(document({NDCG: [0.5]}, **changes)), encoding="utf-8")
    return file


def opened(reference: str) -> Any:
    return open_run(reference, None, "retrieval-evals")


def test_a_file_is_read(folder: Path) -> None:
    write(folder / "a.json", name="mine")
    found = opened("a.json")
    assert (found.reference, found.origin, found.name, found.report.facts.cases) == ("a.json", "a.json", "mine", 1)


def test_a_file_needs_no_suffix_and_may_begin_with_a_mark(folder: Path) -> None:
    write(folder / "baseline").write_text("\ufeff" + (folder / "baseline").read_text(), encoding="utf-8")
    assert opened("baseline").origin == "baseline"


def test_a_file_that_is_missing_names_the_nearest(folder: Path) -> None:
    write(folder / "report.json")
    with pytest.raises(ReportError, match=r"repot\.json: cannot be read: No such file.*did you mean 'report\.json'"):
        opened("repot.json")
    with pytest.raises(ReportError, match=r"gone/report\.json: cannot be read: No such file"):
        opened("gone/report.json")


def test_a_folder_or_a_binary_file_is_no_report(folder: Path) -> None:
    (folder / "x.json").mkdir()
    with pytest.raises(ReportError, match=r"x\.json: expected a report of evals\.run, found a folder"):
        opened("x.json")
    (folder / "b.json").write_bytes(b"\xff\xfe")
    with pytest.raises(ReportError, match=r"b\.json: not UTF-8 \(byte 0"):
        opened("b.json")


def test_a_name_where_there_are_no_runs(folder: Path) -> None:
    with pytest.raises(TrackingError, match=r"'mine': no such file, and no MLflow runs either .*--tracking\.uri"):
        opened("mine")
    assert list(folder.iterdir()) == []


def test_the_same_run_twice_under_whatever_name(folder: Path) -> None:
    write(folder / "a.json")
    (folder / "b.json").write_bytes((folder / "a.json").read_bytes())
    write(folder / "c.json", started_at="later")
    refuse_repeated([opened("a.json"), opened("c.json")])
    for again in ("a.json", "b.json", "./a.json"):
        with pytest.raises(ReportError, match=f"'{again}' and 'a.json' are the same run".replace("./", "")):
            refuse_repeated([opened("a.json"), opened("c.json"), opened(again)])

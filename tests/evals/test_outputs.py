from pathlib import Path

import pytest

from evals.outputs import report_file


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("default-20260101", "default-20260101.json"),
        ("a/b: c", "a-b-c.json"),
        ("../../etc/passwd", "etc-passwd.json"),
        ("...", "run.json"),
        ("größe", "größe.json"),
    ],
)
def test_a_report_is_named_after_its_run_and_stays_in_its_folder(tmp_path: Path, name: str, file: str) -> None:
    assert report_file(tmp_path, name) == tmp_path / file


def test_runs_of_one_name_do_not_overwrite_each_others_reports(tmp_path: Path) -> None:
    for expected in ("nightly.json", "nightly-2.json", "nightly-3.json"):
        file = report_file(tmp_path, "nightly")
        file.touch()
        assert file.name == expected

from pathlib import Path

import pytest

from evals.config import TrackingConfig
from evals.outputs import Outputs, report_file, settle
from retrievers.errors import ConfigError


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


def tracking(**values: object) -> TrackingConfig:
    return TrackingConfig.model_validate(values)


@pytest.mark.parametrize("uri", [None, "http://127.0.0.1:9"])
def test_a_run_that_is_tracked_has_a_report_in_any_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    assert settle(Outputs(), tracking(uri=uri), "one") == Outputs(report=Path("mlruns/reports/one.json"))
    own = Outputs(report=tmp_path / "own.json", html=tmp_path / "own.html")
    assert settle(own, tracking(uri=uri), "one") == own
    assert settle(Outputs(), tracking(enabled=False), "one") == Outputs()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["report", "junit", "html", "export"])
def test_a_file_that_cannot_be_written_is_named_before_any_work(tmp_path: Path, name: str) -> None:
    wanted = Outputs(**{name: tmp_path})
    with pytest.raises(ConfigError, match="expected a file to write, found a folder"):
        settle(wanted, tracking(enabled=False), "one")


def test_a_folder_for_runs_that_cannot_be_made_is_named_unless_they_are_kept_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mlruns").touch()
    with pytest.raises(ConfigError, match=r"mlruns: cannot be written .*--tracking\.enabled false"):
        settle(Outputs(report=tmp_path / "r.json"), tracking(), "one")
    own = Outputs(report=tmp_path / "r.json")
    assert settle(own, tracking(uri="http://127.0.0.1:9"), "one") == own

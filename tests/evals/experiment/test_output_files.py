from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evals.config.experiment import TrackingConfig
from evals.experiment.outputs import Outputs, check_outputs, new_file, with_report
from retrievers.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("default-20260101", "default-20260101.json"),
        ("a/b: c", "a-b-c.json"),
        ("../../etc/passwd", "etc-passwd.json"),
        ("...", "run.json"),
        ("größe", "größe.json"),
        ("r" * 300, "r" * 120 + ".json"),
        ("ö" * 150, "ö" * 60 + ".json"),
        ("x" + "ö" * 150, "x" + "ö" * 59 + ".json"),
    ],
)
def test_a_report_is_named_after_its_run_and_stays_in_its_folder(tmp_path: Path, name: str, file: str) -> None:
    assert new_file(tmp_path, name) == tmp_path / file


def test_runs_of_one_name_do_not_overwrite_each_others_reports(tmp_path: Path) -> None:
    """However many there are at once: a name is taken at the moment in which it is found free."""
    with ThreadPoolExecutor(8) as pool:
        files = list(pool.map(lambda _: new_file(tmp_path / "reports", "nightly"), range(24)))
    assert {file.name for file in files} == {"nightly.json", *(f"nightly-{number}.json" for number in range(2, 25))}


def test_a_folder_that_became_unwritable_is_named(tmp_path: Path) -> None:
    (tmp_path / "reports").touch()
    with pytest.raises(ConfigError, match=r"reports: cannot be written: File exists"):
        new_file(tmp_path / "reports", "nightly")


def tracking(**values: object) -> TrackingConfig:
    return TrackingConfig.model_validate(values)


@pytest.mark.parametrize("uri", [None, "http://127.0.0.1:9"])
def test_a_run_that_is_tracked_has_a_report_in_any_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    check_outputs(Outputs(), tracking(uri=uri))
    own = Outputs(report=tmp_path / "own.json", html=tmp_path / "own.html")
    for wanted, enabled in ((own, True), (Outputs(), False)):
        check_outputs(wanted, tracking(uri=uri, enabled=enabled))
        assert with_report(wanted, tracking(uri=uri, enabled=enabled), "one") == wanted
    assert list(tmp_path.iterdir()) == []
    assert with_report(Outputs(), tracking(uri=uri), "one") == Outputs(report=Path("mlruns/reports/one.json"))


@pytest.mark.parametrize("name", ["report", "junit", "html", "export"])
def test_a_file_that_cannot_be_written_is_named_before_any_work(tmp_path: Path, name: str) -> None:
    wanted = Outputs(**{name: tmp_path})
    with pytest.raises(ConfigError, match="expected a file to write, found a folder"):
        check_outputs(wanted, tracking(enabled=False))


@pytest.mark.parametrize("name", ["report", "junit", "html", "export"])
def test_a_file_whose_name_is_too_long_is_named_before_any_work(tmp_path: Path, name: str) -> None:
    for file in (tmp_path / ("r" * 300), tmp_path / "deep" / ("r" * 300)):
        with pytest.raises(ConfigError, match=r"cannot be written: .*: File name too long"):
            check_outputs(Outputs(**{name: file}), tracking(enabled=False))
    assert list(tmp_path.iterdir()) == []


def test_two_outputs_are_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wanted = Outputs(report=Path("r"), html=tmp_path / "r")
    with pytest.raises(ConfigError, match=r"r: --output and --html would be one file; expected a file for each"):
        check_outputs(wanted, tracking(enabled=False))


def test_a_folder_for_runs_that_cannot_be_made_is_named_unless_they_are_kept_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mlruns").touch()
    with pytest.raises(ConfigError, match=r"mlruns: cannot be written .*--tracking\.enabled false"):
        check_outputs(Outputs(report=tmp_path / "r.json"), tracking())
    own = Outputs(report=tmp_path / "r.json")
    check_outputs(own, tracking(uri="http://127.0.0.1:9"))

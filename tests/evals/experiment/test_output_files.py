import logging
from contextlib import ExitStack
from pathlib import Path

import pytest

from evals.config.experiment import TrackingConfig
from evals.config.files import write
from evals.experiment.output_files import Outputs, reserved, settle
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
    with reserved(tmp_path, name) as found:
        assert found == tmp_path / file
        write(found, "{}")


def test_runs_of_one_name_do_not_overwrite_each_others_reports(tmp_path: Path) -> None:
    for expected in ("nightly.json", "nightly-2.json", "nightly-3.json"):
        with reserved(tmp_path, "nightly") as file:
            write(file, "{}")
        assert file.name == expected
    assert len(list(tmp_path.iterdir())) == 3


def test_runs_of_one_name_at_once_have_each_a_report(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with ExitStack() as stack:
        files = [stack.enter_context(reserved(tmp_path, "nightly")) for _ in range(3)]
        assert [file.name for file in files] == ["nightly.json", "nightly-2.json", "nightly-3.json"]
        assert not any(file.exists() for file in files), "an empty file would be read as a report"
        assert list(tmp_path.glob("*.json")) == []
    assert "nightly.json is the report of a run that has not ended" in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_the_name_of_a_run_that_was_killed_is_passed_by_with_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mark = tmp_path / ".nightly.json.taken"
    mark.touch()
    with caplog.at_level(logging.WARNING), reserved(tmp_path, "nightly") as file:
        assert file.name == "nightly-2.json"
    assert f"if none is going on, remove {mark}" in caplog.text
    assert list(tmp_path.iterdir()) == [mark]


def test_a_run_that_fails_gives_its_name_back(tmp_path: Path) -> None:
    folder = tmp_path / "mlruns" / "reports"
    with pytest.raises(ValueError, match="failed"), reserved(folder, "nightly"):
        assert folder.is_dir()
        raise ValueError("failed")
    assert list(tmp_path.iterdir()) == []
    with reserved(folder, "nightly") as file:
        assert file.name == "nightly.json"


def tracking(**values: object) -> TrackingConfig:
    return TrackingConfig.model_validate(values)


@pytest.mark.parametrize("uri", [None, "http://127.0.0.1:9"])
def test_a_run_that_is_tracked_has_a_report_in_any_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    with settle(Outputs(), tracking(uri=uri), "one") as settled:
        assert settled == Outputs(report=Path("mlruns/reports/one.json"))
    own = Outputs(report=tmp_path / "own.json", html=tmp_path / "own.html")
    for wanted, enabled in ((own, True), (Outputs(), False)):
        with settle(wanted, tracking(uri=uri, enabled=enabled), "one") as settled:
            assert settled == wanted
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["report", "junit", "html", "export"])
def test_a_file_that_cannot_be_written_is_named_before_any_work(tmp_path: Path, name: str) -> None:
    wanted = Outputs(**{name: tmp_path})
    with pytest.raises(ConfigError, match="expected a file to write, found a folder"):
        settle(wanted, tracking(enabled=False), "one").__enter__()


@pytest.mark.parametrize("name", ["report", "junit", "html", "export"])
def test_a_file_whose_name_is_too_long_is_named_before_any_work(tmp_path: Path, name: str) -> None:
    for file in (tmp_path / ("r" * 300), tmp_path / "deep" / ("r" * 300)):
        with pytest.raises(ConfigError, match=r"cannot be written: .*: File name too long"):
            settle(Outputs(**{name: file}), tracking(enabled=False), "one").__enter__()
    assert list(tmp_path.iterdir()) == []


def test_two_outputs_are_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wanted = Outputs(report=Path("r"), html=tmp_path / "r")
    with pytest.raises(ConfigError, match=r"r: --output and --html would be one file; expected a file for each"):
        settle(wanted, tracking(enabled=False), "one").__enter__()


def test_a_folder_for_runs_that_cannot_be_made_is_named_unless_they_are_kept_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mlruns").touch()
    with pytest.raises(ConfigError, match=r"mlruns: cannot be written .*--tracking\.enabled false"):
        settle(Outputs(report=tmp_path / "r.json"), tracking(), "one").__enter__()
    own = Outputs(report=tmp_path / "r.json")
    with settle(own, tracking(uri="http://127.0.0.1:9"), "one") as settled:
        assert settled == own

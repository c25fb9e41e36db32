import os
from pathlib import Path

import pytest

from evals.config.files import check_writable, probe, write
from retrievers.errors import ConfigError


def everything(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def test_a_file_is_written_with_its_folders_and_replaced_whole(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b" / "report.json"
    write(file, "first, and longer")
    write(file, "zweite ä")
    assert file.read_bytes() == "zweite ä".encode()
    assert everything(tmp_path / "a" / "b") == [file]


def test_what_cannot_be_encoded_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    write(file, "old")
    with pytest.raises(UnicodeEncodeError):
        write(file, "\ud800")
    assert (file.read_text(), everything(tmp_path)) == ("old", [file])


def test_a_file_in_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "mlruns").touch()
    for call in (lambda file: write(file, "x"), check_writable):
        with pytest.raises(ConfigError, match=r"report\.json: cannot be written"):
            call(tmp_path / "mlruns" / "reports" / "report.json")


@pytest.mark.parametrize("name", ["report.json", "a/b/c/report.json"])
def test_checking_leaves_nothing_behind(tmp_path: Path, name: str) -> None:
    check_writable(tmp_path / name)
    assert everything(tmp_path) == []


def test_no_file_is_nothing_to_check() -> None:
    check_writable(None)


def test_a_folder_in_place_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected a file to write, found a folder"):
        check_writable(tmp_path)


def test_a_dangling_link_is_no_folder_to_write_to(tmp_path: Path) -> None:
    (tmp_path / "mlruns").symlink_to(tmp_path / "gone")
    with pytest.raises(OSError, match=r"No such file|Not a directory"):
        probe(tmp_path / "mlruns")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_to(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigError, match="Permission denied"):
        check_writable(tmp_path / "report.json")


def test_the_longest_name_that_the_file_system_takes_is_written(tmp_path: Path) -> None:
    file = tmp_path / ("r" * 255)
    check_writable(file)
    write(file, "whole")
    assert file.read_text() == "whole"


@pytest.mark.parametrize("name", ["r" * 256, "ö" * 128, "gone/" + "r" * 256, "r" * 256 + "/report.json"])
def test_a_name_that_the_file_system_refuses(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"cannot be written: .*File name too long") as raised:
        check_writable(tmp_path / name)
    assert len(str(raised.value)) < 450
    assert everything(tmp_path) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_a_pipe_or_a_device_is_no_file_to_replace(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", Path(os.devnull)):
        with pytest.raises(ConfigError, match="expected a file to write, found a device or a pipe"):
            check_writable(place)

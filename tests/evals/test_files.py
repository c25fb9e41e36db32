"""Files are written whole or not at all."""

from pathlib import Path

import pytest

from evals.files import check_writable, write
from retrievers.errors import ConfigError


def test_folders_are_made_and_nothing_else_is_left(tmp_path: Path) -> None:
    write(tmp_path / "a" / "b.json", "{}")
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["b.json"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    write(file, "old")
    with pytest.raises(UnicodeEncodeError):
        write(file, "\ud800")
    assert file.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["report.json"]


@pytest.mark.parametrize("check", [check_writable, lambda file: write(file, "x")])
def test_a_file_in_place_of_the_folder_is_named(tmp_path: Path, check: object) -> None:
    (tmp_path / "blocked").write_text("")
    with pytest.raises(ConfigError, match="blocked"):
        check(tmp_path / "blocked" / "report.json")  # type: ignore[operator]


def test_a_folder_in_place_of_the_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="found a folder"):
        check_writable(tmp_path)


def test_checking_leaves_nothing_behind(tmp_path: Path) -> None:
    check_writable(tmp_path / "report.json")
    check_writable(None)
    assert list(tmp_path.iterdir()) == []

from pathlib import Path

import pytest

from retrievers.config.paths import user_path


def test_the_tilde_is_the_home_of_the_user(empty_home: Path) -> None:
    assert user_path("~/file") == user_path(Path("~/file")) == empty_home / "file"
    assert user_path("a/~/file") == Path("a/~/file")


def test_a_path_need_not_exist_nor_be_reachable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "gone", tmp_path / "gone" / "too", tmp_path / "file" / "below", tmp_path / ("r" * 255)):
        assert user_path(path) == path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("~nobody-of-that-name/x", "there is no home folder for '~nobody-of-that-name'; write the path out"),
        ("r" * 256, r"expected the path of a file or folder \(File name too long\)"),
        ("ö" * 128, "File name too long"),
        ("r/" * 2_100, "expected a path of at most 200 folders, got one of 2,099"),
        ("a\0b", r"expected the path of a file or folder \(embedded null byte\)"),
    ],
)
def test_what_cannot_be_a_path(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        user_path(text)

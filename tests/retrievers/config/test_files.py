import json
import os
import socket
from pathlib import Path

import pytest

from retrievers.config.files import load_json, read_text, user_path
from retrievers.errors import ConfigError, StoreError


def fault_of(file: Path, most_bytes: int = 10) -> str:
    with pytest.raises(ConfigError) as caught:
        read_text(file, "a list", most_bytes)
    return str(caught.value)


@pytest.mark.parametrize(("data", "text"), [(b"", ""), (b"0123456789", "0123456789"), (b"\xef\xbb\xbfa", "a")])
def test_a_file_is_read_with_or_without_a_byte_order_mark(data: bytes, text: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(data)
    assert read_text(tmp_path / "file", "a list", 10) == text
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert read_text(tmp_path / "link", "a list", 10) == text


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "sparse"
    with file.open("wb") as handle:
        handle.truncate(1 << 40)
    assert fault_of(file) == f"{file}: expected a list of at most 10 bytes, found 1,099,511,627,776"


def test_what_might_never_end_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fault_of(Path("/dev/zero")) == (
        "/dev/zero: expected a list, found a device, which might never end; name a file"
    )
    os.mkfifo(tmp_path / "pipe")
    assert "found a pipe, which might never end" in fault_of(tmp_path / "pipe")
    assert "found a folder" in fault_of(tmp_path)
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        assert "found a socket" in fault_of(Path("socket"))


@pytest.mark.parametrize(
    ("name", "reason"),
    [("a\0b", "embedded null byte"), ("x" * 300, "File name too long"), ("none", "No such file or directory")],
)
def test_a_name_that_cannot_be_opened_is_named(name: str, reason: str, tmp_path: Path) -> None:
    assert fault_of(tmp_path / name) == f"{tmp_path / name}: cannot be read: {reason}; expected a list"


def test_other_encodings_are_refused_by_the_error_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"a\xff")
    with pytest.raises(StoreError, match=r"file: not UTF-8 \(byte 1: invalid start byte\); expected a list"):
        read_text(tmp_path / "file", "a list", 10, StoreError)


# JSON


@pytest.mark.parametrize(
    "text", ["null", "5", "-1.5e3", '"\\ud83e\\udd16 a"', '{"a": [1, {"a": 2}], "b": {}}', "[]", " 1 "]
)
def test_json_is_read_as_the_standard_library_reads_it(text: str) -> None:
    assert load_json(text) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"a": 1, "b": 2, "a": 1}', "'a' is given twice; leave one of them out"),
        ('[{"a": {"b": 1, "b": 2}}]', "'b' is given twice"),
        ("{", "Expecting property name enclosed in double quotes at column 2"),
        ('{\n "a": }', "Expecting value at line 2, column 7"),
        ("", "Expecting value at column 1"),
        ("NaN", "NaN is no JSON number"),
        ("[-Infinity]", "-Infinity is no JSON number"),
        ("1e999", "'1e999' is larger than any number of a computer"),
        ("9" * 5_000, "a number of 5,000 digits, expected at most 100"),
        ("[" * 100_000, "nested too deep"),
        ('{"a": "\\ud800"}', "half of a surrogate pair"),
        ('{"\\udfff": 1}', "half of a surrogate pair"),
    ],
)
def test_what_is_not_json_or_ambiguous_is_told(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=r"^not valid JSON: ") as caught:
        load_json(text)
    assert fault in str(caught.value)
    assert len(str(caught.value)) < 300


def test_thousands_of_keys_given_twice_are_told_at_once() -> None:
    with pytest.raises(ValueError, match="is given twice"):
        load_json("{" + ", ".join(f'"k{number % 30_000}": 1' for number in range(60_000)) + "}")


# Paths


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

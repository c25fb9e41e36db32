import os
import socket
from pathlib import Path

import pytest

from retrievers.config.text_files import read_text
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

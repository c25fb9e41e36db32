"""Character sets: marks and declarations are believed, other bytes are not guessed at."""

import codecs

import pytest

from retrievers.text.charsets import charset, decoded, decoded_html


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_a_file_is_read_by_its_mark(encoding: str) -> None:
    assert decoded("Größe €".encode(encoding)) == "Größe €"


def test_bytes_of_another_encoding_are_refused() -> None:
    with pytest.raises(UnicodeDecodeError):
        decoded("Größe".encode("latin-1"))


@pytest.mark.parametrize(
    "data",
    [
        '<meta charset="iso-8859-1"><p>Größe'.encode("latin-1"),
        "<html><head>\n<META http-equiv=x content='text/html; charset=windows-1252'><p>Größe".encode("cp1252"),
        '<?xml version="1.0" encoding="ISO-8859-2"?><p>Größe'.encode("iso-8859-2"),
        "<p>Größe".encode("cp1252"),
        "<p>Größe".encode(),
        "<meta charset=utf-16><p>Größe".encode(),
        "<meta charset=utf-7><p>Größe".encode(),
        codecs.BOM_UTF16_BE + '<meta charset="latin-1"><p>Größe'.encode("utf-16-be"),
    ],
)
def test_html_is_read_as_browsers_read_it(data: bytes) -> None:
    assert decoded_html(data).endswith("<p>Größe")


def test_a_wrong_declaration_shows() -> None:
    assert decoded_html('<meta charset="utf-8">ö'.encode("latin-1")).endswith("\ufffd")


@pytest.mark.parametrize(
    ("name", "codec"), [("latin1", "cp1252"), ("rot13", "utf-8"), ("nope", "utf-8"), (None, "utf-8")]
)
def test_only_character_sets_of_pages_are_used(name: str | None, codec: str) -> None:
    assert charset(name) == codec

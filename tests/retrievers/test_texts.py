"""Texts on their way out and in: secrets hidden, control characters visible, quotes short, charsets believed."""

import codecs
import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from retrievers.config.layers import api_key, environment
from retrievers.errors import ConfigError, IndexingError, StoreError, nearest
from retrievers.indexing.pages import decoded_html
from retrievers.text import shown
from retrievers.text.language import Languages, differing, names

KEY = "planted-key/1+2=3"


def test_what_addresses_carry_is_hidden() -> None:
    for text, told in (
        ("http://me:pw@host:1/a", "http://***@host:1/a"),
        ("http://me:p/w?d#@host", "http://***@host"),
        ("postgresql://u:pw@db/runs?password=pw&sslmode=require", "postgresql://***@db/runs?password=***&sslmode=***"),
        ("https://host/page?signature#access_token=abc", "https://host/page?***#access_token=***"),
        ("GET /collections/x?wait=true", "GET /collections/x?wait=***"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("me@example.com asked: why? #1 & #2", "me@example.com asked: why? #1 & #2"),
    ):
        assert shown.redacted(text) == told


def test_a_known_secret_is_hidden_however_it_is_written() -> None:
    assert api_key({"MINE": KEY}, "MINE") == KEY
    for written in (KEY, "planted-key%2F1%2B2%3D3", "planted-key/1%2B2%3D3", repr(KEY)):
        for told in (shown.without_secrets, shown.printable, shown.quoted, lambda text: str(StoreError(text))):
            assert "planted" not in told(f"the key {written} is wrong")
    shown.remember("none")
    assert shown.without_secrets("none of it") == "none of it", "the words of local servers are no secrets"
    shown.remember_password("postgresql://me:pass%20word-1@db/runs")
    assert shown.without_secrets("FATAL: pass%20word-1, or pass word-1") == "FATAL: ***, or ***"
    shown.remember_password("http://[bad")


def test_variables_whose_names_say_so_hold_secrets() -> None:
    environment({"COHERE_API_KEY": "of cohere", "MLFLOW_TRACKING_PASSWORD": "of mlflow", "PARTITION_KEY": "of nobody"})
    assert shown.without_secrets("of cohere, of mlflow, of nobody") == "***, ***, of nobody"


def test_what_steers_is_made_visible_and_the_rest_stays() -> None:
    for text, told in (
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        ("over\rwritten\x08\x7f", r"over\rwritten\x08\x7f"),
        ("abc\u202edcba", r"abc\u202edcba"),
        ("half \ud800 pair", r"half \ud800 pair"),
        ("two\r\nlines\tand\na tab", "two\nlines\tand\na tab"),
        ("ünïcode 🤖 日本 👩‍💻", "ünïcode 🤖 日本 👩‍💻"),
    ):
        assert shown.printable(text) == told
        assert json.loads(shown.json_text({"text": text}, indent=1)) == {"text": text}
        assert shown.printable(shown.json_text(text)) == shown.json_text(text)


@pytest.mark.slow
def test_no_control_character_and_no_bidirectional_one_is_left() -> None:
    bidirectional = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    for character in map(chr, range(0x110000)):
        is_control = unicodedata.category(character) in ("Cc", "Cs") and character not in "\n\t"
        steers = is_control or unicodedata.bidirectional(character) in bidirectional
        assert (shown.printable(character) != character) >= steers, ascii(character)


def test_a_short_value_is_shown_as_python_writes_it_and_a_long_one_in_part() -> None:
    for value in ("x", "", 5, 1.5, None, True, [1, "a"], {"a": [1]}, ("b",), Path("a/b")):
        assert shown.quoted(value) == repr(value)
    deep: list[Any] = []
    aliases: list[Any] = ["x"]
    for _ in range(100_000):
        deep = [deep]
    for _ in range(40):
        aliases = [aliases] * 10  # as YAML writes them in few bytes
    for long in ("x" * 400_000, ["x" * 90] * 5_000, Path("a" * 5_000), deep, aliases):
        assert 10 < len(shown.quoted(long)) <= 201 and shown.clipped("x" * 201) == "x" * 200 + "…"


def test_a_long_line_keeps_its_beginning_and_its_end() -> None:
    text = "first\n" + "a" * 1_000 + "b" * 5_000 + "c" * 1_000 + "\nlast"
    assert shown.shortened(text) == "first\n" + "a" * 1_000 + " … (5,000 characters) … " + "c" * 1_000 + "\nlast"
    assert len(str(ConfigError("x" * 400_000 + ": do this"))) < 2_100
    error = IndexingError("two pages are broken:", ["a.md: no title", "b.md: not UTF-8"])
    assert str(error) == "two pages are broken:\n  a.md: no title\n  b.md: not UTF-8"


def test_the_nearest_known_names_are_suggested(snapshot: SnapshotAssertion) -> None:
    known = ["title", "text", "module", "physical_handbook", *(f"page{n}" for n in range(9))]
    assert [f"{name}{nearest(name, iter(known))}" for name in ("titel", "book", "page", "xyz")] == snapshot


def test_html_is_read_as_browsers_read_it() -> None:
    for data in (
        '<meta charset="iso-8859-1"><p>Größe'.encode("latin-1"),
        "<html><head>\n<META http-equiv=x content='text/html; charset=windows-1252'><p>Größe".encode("cp1252"),
        "<p>Größe".encode("cp1252"),
        "<p>Größe".encode(),
        "<meta charset=utf-16><p>Größe".encode(),
        codecs.BOM_UTF16_BE + '<meta charset="latin-1"><p>Größe'.encode("utf-16-be"),
    ):
        assert decoded_html(data).endswith("<p>Größe")
    assert decoded_html('<meta charset="utf-8">ö'.encode("latin-1")).endswith("\ufffd"), "a wrong declaration shows"
    for declared, text in (("latin1", "ö"), ("nope", "\ufffd"), ("hex", "\ufffd"), (None, "ö")):
        assert decoded_html("ö".encode("latin-1"), declared) == text
    assert decoded_html("ö".encode(), "latin1") == "ö", "what can be read as UTF-8 is nothing else"


ENGLISH = [
    "A topic is a named bus over which nodes exchange messages, and a publisher sends without knowing who listens.",
    "The joint limits of the arm stand in the description of the robot, together with the inertia of every link.",
]
GERMAN = [
    "Ein Topic ist ein benannter Kanal, über den Knoten Nachrichten austauschen. Ein Herausgeber sendet, ohne zu "
    "wissen, wer zuhört, und ein Abonnent empfängt, was eintrifft, solange er läuft."
]
BUS = "was ist ein bus und wozu brauche ich ihn"


def test_another_language_is_named_from_eight_words_on_or_by_its_letters() -> None:
    for query, language in (
        ("Wie funktionieren Topics in ROS 2, und wozu brauche ich sie?", "German"),
        (BUS, "German"),
        ("Pourquoi mon robot tombe-t-il quand on le pousse par derrière ?", "French"),
        ("安全标准", "Chinese"),
        ("ROS 2のトピックはどのように動作しますか？", "Japanese"),
        ("roboter greifer rutscht ab", None),  # fewer than eight words in Latin letters tell nothing
        ("o2 sensor", None),
        ("ModuleNotFoundError: No module named 'rclpy'", None),
        ("SELECT * FROM queries WHERE id = 3", None),
    ):
        assert differing(query, ENGLISH) == (Languages(language, "English") if language else None)


def test_the_language_is_that_of_what_was_found(handbook: Path) -> None:
    assert differing(BUS, GERMAN) is None
    found = differing("How do I keep a robot from tipping over when it is pushed?", GERMAN)
    assert found == Languages("English", "German")
    assert [differing(BUS, few) for few in ([], [""], ["def f(): pass"])] == [None] * 3
    assert len({*names().values()}) == len(names())
    lines = [line for name in ("golden", "spec") for line in (handbook / f"{name}.jsonl").read_text().splitlines()]
    assert len(lines) == 209
    assert sum(differing(json.loads(line)["query"], ENGLISH) is not None for line in lines) <= 1, "all are English"

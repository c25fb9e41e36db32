"""Texts on their way out and in: secrets hidden, control characters visible, quotes short, charsets believed."""

import codecs
import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from retrievers.config.layers import api_key, environment
from retrievers.errors import ConfigError, IndexingError, StoreError, nearest
from retrievers.text.charsets import charset, decoded, decoded_html
from retrievers.text.language import Languages, differing, names
from retrievers.text.printable import json_text, printable
from retrievers.text.quoting import clipped, quoted, shortened
from retrievers.text.secrets import redacted, remember, remember_password, without_secrets

KEY = "planted-key/1+2=3"


# Secrets


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://me:pw@host:1/a", "http://***@host:1/a"),
        ("http://me:p/w?d#@host", "http://***@host"),
        ("postgresql://u:pw@db/runs?password=pw&sslmode=require", "postgresql://***@db/runs?password=***&sslmode=***"),
        ("https://host/page?signature#access_token=abc", "https://host/page?***#access_token=***"),
        ("GET /collections/x?wait=true", "GET /collections/x?wait=***"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("me@example.com asked: why? #1 & #2", "me@example.com asked: why? #1 & #2"),
    ],
)
def test_what_addresses_carry_is_hidden(text: str, shown: str) -> None:
    assert redacted(text) == shown


def test_a_known_secret_is_hidden_however_it_is_written() -> None:
    assert api_key({"MINE": KEY}, "MINE") == KEY
    for written in (KEY, "planted-key%2F1%2B2%3D3", "planted-key/1%2B2%3D3", repr(KEY)):
        for shown in (without_secrets, printable, quoted, lambda text: str(StoreError(text))):
            assert "planted" not in shown(f"the key {written} is wrong")
    remember("none")
    assert without_secrets("none of it") == "none of it", "the words of local servers are no secrets"
    remember_password("postgresql://me:pass%20word-1@db/runs")
    assert without_secrets("FATAL: pass%20word-1, or pass word-1") == "FATAL: ***, or ***"
    remember_password("http://[bad")


@pytest.mark.parametrize(
    ("name", "hidden"),
    [("COHERE_API_KEY", True), ("MLFLOW_TRACKING_PASSWORD", True), ("PARTITION_KEY", False)],
)  # fmt: skip
def test_variables_whose_names_say_so_hold_secrets(name: str, hidden: bool) -> None:
    environment({name: KEY})
    assert (without_secrets(KEY) == "***") == hidden


# Display


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        ("over\rwritten\x08\x7f", r"over\rwritten\x08\x7f"),
        ("abc\u202edcba", r"abc\u202edcba"),
        ("half \ud800 pair", r"half \ud800 pair"),
        ("two\r\nlines\tand\na tab", "two\nlines\tand\na tab"),
        ("ünïcode 🤖 日本 👩‍💻", "ünïcode 🤖 日本 👩‍💻"),
    ],
)
def test_what_steers_is_made_visible_and_the_rest_stays(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert json.loads(json_text({"text": text}, indent=1)) == {"text": text}
    assert printable(json_text(text)) == json_text(text)


@pytest.mark.slow
def test_no_control_character_and_no_bidirectional_one_is_left() -> None:
    bidirectional = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    for character in map(chr, range(0x110000)):
        steers = (
            unicodedata.category(character) in ("Cc", "Cs") or unicodedata.bidirectional(character) in bidirectional
        )
        assert (printable(character) != character) >= (steers and character not in "\n\t"), ascii(character)


@pytest.mark.parametrize("value", ["x", "", 5, 1.5, None, True, [1, "a"], {"a": [1]}, ("b",), Path("a/b")])
def test_a_short_value_is_shown_as_python_writes_it(value: Any) -> None:
    assert quoted(value) == repr(value)


def test_a_long_value_is_shown_in_part() -> None:
    deep: list[Any] = []
    aliases: list[Any] = ["x"]
    for _ in range(100_000):
        deep = [deep]
    long = ["x" * 400_000, ["x" * 90] * 5_000, Path("a" * 5_000), deep]
    for _ in range(40):
        aliases = [aliases] * 10  # as YAML writes them in few bytes
    assert all(10 < len(quoted(value)) <= 201 for value in [*long, aliases])
    assert clipped("x" * 201) == "x" * 200 + "…"


def test_a_long_line_keeps_its_beginning_and_its_end() -> None:
    text = "first\n" + "a" * 1_000 + "b" * 5_000 + "c" * 1_000 + "\nlast"
    assert shortened(text) == "first\n" + "a" * 1_000 + " … (5,000 characters) … " + "c" * 1_000 + "\nlast"
    assert len(str(ConfigError("x" * 400_000 + ": do this"))) < 2_100


def test_an_indexing_error_lists_every_fault_on_its_own_line() -> None:
    error = IndexingError("two pages are broken:", ["a.md: no title", "b.md: not UTF-8"])
    assert (str(error), error.faults[1]) == (
        "two pages are broken:\n  a.md: no title\n  b.md: not UTF-8",
        "b.md: not UTF-8",
    )


@pytest.mark.parametrize(
    ("name", "known", "clause"),
    [
        ("titel", ["title", "text", "module"], "; did you mean 'title'?"),
        ("book", ["physical_handbook", "module"], "; did you mean 'physical_handbook'?"),  # contained, not alike
        ("page", [f"page{n}" for n in range(9)], "; did you mean 'page8' or 'page7' or 'page6'?"),
        ("xyz", ["title", "module"], ""),
    ],
)
def test_the_nearest_known_names_are_suggested(name: str, known: list[str], clause: str) -> None:
    assert nearest(name, iter(known)) == clause


# Character sets


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_file_is_read_by_its_mark(encoding: str) -> None:
    assert decoded("Größe €".encode(encoding)) == "Größe €"
    with pytest.raises(UnicodeDecodeError):
        decoded("Größe".encode("latin-1"))


@pytest.mark.parametrize(
    "data",
    [
        '<meta charset="iso-8859-1"><p>Größe'.encode("latin-1"),
        "<html><head>\n<META http-equiv=x content='text/html; charset=windows-1252'><p>Größe".encode("cp1252"),
        "<p>Größe".encode("cp1252"),
        "<p>Größe".encode(),
        "<meta charset=utf-16><p>Größe".encode(),
        "<meta charset=utf-7><p>Größe".encode(),
        codecs.BOM_UTF16_BE + '<meta charset="latin-1"><p>Größe'.encode("utf-16-be"),
    ],
)
def test_html_is_read_as_browsers_read_it(data: bytes) -> None:
    assert decoded_html(data).endswith("<p>Größe")
    assert decoded_html('<meta charset="utf-8">ö'.encode("latin-1")).endswith("\ufffd"), "a wrong declaration shows"


@pytest.mark.parametrize(
    ("name", "codec"), [("latin1", "cp1252"), ("rot13", "utf-8"), ("hex", "utf-8"), ("nope", "utf-8"), (None, "utf-8")]
)
def test_only_character_sets_of_pages_are_used(name: str | None, codec: str) -> None:
    assert charset(name) == codec


# Languages

ENGLISH = [
    "A topic is a named bus over which nodes exchange messages. A publisher sends messages without knowing who "
    "listens, and a subscriber receives whatever arrives while it runs.",
    "The joint limits of the arm stand in the description of the robot, together with the inertia of every link.",
]
GERMAN = [
    "Ein Topic ist ein benannter Kanal, über den Knoten Nachrichten austauschen. Ein Herausgeber sendet, ohne zu "
    "wissen, wer zuhört, und ein Abonnent empfängt, was eintrifft, solange er läuft."
]
BUS = "was ist ein bus und wozu brauche ich ihn"


@pytest.mark.parametrize(
    ("query", "language"),
    [
        ("Wie funktionieren Topics in ROS 2, und wozu brauche ich sie?", "German"),
        (BUS, "German"),
        ("Pourquoi mon robot tombe-t-il quand on le pousse par derrière ?", "French"),
        ("安全标准", "Chinese"),
        ("ROS 2のトピックはどのように動作しますか？", "Japanese"),
        ("roboter greifer rutscht ab", None),  # fewer than eight words in Latin letters tell nothing
        ("o2 sensor", None),
        ("ModuleNotFoundError: No module named 'rclpy'", None),
        ("SELECT * FROM queries WHERE id = 3", None),
    ],
)
def test_another_language_is_named_from_eight_words_on_or_by_its_letters(query: str, language: str | None) -> None:
    assert differing(query, ENGLISH) == (Languages(language, "English") if language else None)


def test_the_language_is_that_of_what_was_found() -> None:
    assert differing(BUS, GERMAN) is None
    found = differing("How do I keep a robot from tipping over when it is pushed?", GERMAN)
    assert found == Languages("English", "German")
    # A query most of whose words were found is in that language.
    assert differing(BUS, [*ENGLISH, "Was ist ein Bus, und wozu brauche ich: ein Zitat."]) is None
    assert [differing(BUS, few) for few in ([], [""], ["def f(): pass"])] == [None] * 3
    assert len({*names().values()}) == len(names())


def test_at_most_one_english_query_of_the_handbook_is_taken_for_another_language(handbook: Path) -> None:
    lines = [line for name in ("golden", "spec") for line in (handbook / f"{name}.jsonl").read_text().splitlines()]
    queries = [json.loads(line)["query"] for line in lines]
    assert len(queries) == 209
    assert sum(differing(query, ENGLISH) is not None for query in queries) <= 1

import json
import unicodedata

import pytest

from retrievers.text.printable import json_text, printable
from retrievers.text.secrets import remember

LINK = "\x1b]8;;http://evil.invalid\x07here\x1b]8;;\x07"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        (LINK, r"\x1b]8;;http://evil.invalid\x07here\x1b]8;;\x07"),
        ("\x9b31mred", r"\x9b31mred"),
        ("over\rwritten\x08\x7f", r"over\rwritten\x08\x7f"),
        ("abc\u202edcba", r"abc\u202edcba"),
        ("half \ud800 pair", r"half \ud800 pair"),
        ("two\r\nlines\tand\na tab", "two\nlines\tand\na tab"),
        ("ünïcode 🤖 日本 👩‍💻", "ünïcode 🤖 日本 👩‍💻"),
    ],
)
def test_what_steers_is_made_visible_and_the_rest_stays(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.slow
def test_no_control_character_and_no_bidirectional_one_is_left() -> None:
    bidirectional = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    for number in range(0x110000):
        character = chr(number)
        steers = (
            unicodedata.category(character) in ("Cc", "Cs") or unicodedata.bidirectional(character) in bidirectional
        )
        assert (printable(character) != character) >= (steers and character not in "\n\t"), hex(number)


def test_json_reads_back_as_the_value_and_steers_nothing() -> None:
    value = {"text": LINK + "\x9b\u202e\ud800\u2028 日本\r\n", "n": [1.5, None]}
    text = json_text(value, indent=1)
    assert json.loads(text) == value
    assert printable(text) == text and "日本" in text


def test_a_known_secret_is_not_shown() -> None:
    remember("planted-secret")
    assert printable("it is planted-secret") == "it is ***"

"""Texts as they may be shown: without secrets, without control characters, and not too long.

All keys and passwords are kept out of every text that is shown or stored. Characters that control a terminal, a page or
the direction of writing are made visible. Values that a user gave stand in messages as Python writes them, shortened.
"""

import html
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from reprlib import Repr
from threading import Lock
from typing import Any
from urllib.parse import quote, unquote, urlsplit

STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but tab and line feed: ESC, BEL, backspace, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # the direction of writing
    "\u2028\u2029\ufffe\uffff\ud800-\udfff]"  # line ends to some, non-characters, halves of surrogate pairs
)
HIDDEN = "***"
# Fewest characters of a value that is hidden. A shorter one (`none`, `EMPTY`) may be a word of any text.
SHORTEST = 8
SECRET_NAME = re.compile(r"(?:^|_)(?:API_?KEY|ACCESS_KEY|SECRET|SECRET_KEY|TOKEN|PASSWORD)$", re.IGNORECASE)
WORD = re.compile(r"[^\s'\"]+")
BEARER = re.compile(r"\b(bearer\s+)[\w.~+/=-]{6,}", re.IGNORECASE)
QUERY_VALUE = re.compile(r"([?&][\w.-]+=)[^\s&'\"]+")
AFTER_PATH = re.compile(r"([?&#](?:[\w.-]+=)?)[^&#]+")

_secrets: tuple[str, ...] = ()
_remembering = Lock()
# Most characters of a value, of a name or a formatted value, and of a line in a message.
LONGEST, LONGEST_NAME, LONGEST_LINE = 100, 200, 2_000
# Only the first items of a value are shown: by aliases, few bytes of YAML can make an endless one.
_short = Repr()
_short.maxlevel, _short.maxdict, _short.maxlist, _short.maxtuple = 4, 8, 10, 10
_short.maxstring = _short.maxlong = _short.maxother = LONGEST
_short.fillvalue = "…"


def printable(text: str) -> str:
    r"""Escape a text for display: control characters as `\x1b` and so on, known secrets as `***`."""
    return STEERING.sub(lambda found: ascii(found[0])[1:-1], without_secrets(text).replace("\r\n", "\n"))


def json_text(value: Any, indent: int | None = None) -> str:
    """Write a value as JSON for display that reads back as the same value: with JSON's own escapes.

    Raises:
        ValueError: It holds a number that JSON has no way to write.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    return STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def remember(value: str) -> None:
    """Hide a secret from now on, also in the forms in which JSON, HTML and addresses write it."""
    global _secrets  # noqa: PLW0603 - a process has one set of secrets for all its output
    if len(value) >= SHORTEST and value not in _secrets:
        forms = {value, json.dumps(value)[1:-1], html.escape(value), quote(value, safe=""), quote(value)}
        with _remembering:
            _secrets = tuple(sorted({*_secrets, *forms}, key=len, reverse=True))


def remember_environment(env: Mapping[str, str]) -> None:
    """Hide the value of every variable whose name says that it is a secret, such as `COHERE_API_KEY`."""
    for name, value in env.items():
        if SECRET_NAME.search(name):
            remember(value.strip())


def remember_password(url: str) -> None:
    """Hide the password in an address that needs one, such as the address of a database."""
    with suppress(ValueError):  # not an address
        password = urlsplit(url).password or ""
        remember(password)
        remember(unquote(password))


def without_secrets(text: str) -> str:
    """Replace every known secret in a text by `***`."""
    for secret in _secrets:
        text = text.replace(secret, HIDDEN)
    return text


def redacted(text: str) -> str:
    """Clean a text from outside for display: hide known secrets, bearer tokens, and the secrets of addresses.

    The secrets of an address may be its credentials, the values of its query, and its fragment.
    """
    text = WORD.sub(_redacted_word, without_secrets(text))
    return QUERY_VALUE.sub(rf"\1{HIDDEN}", BEARER.sub(rf"\1{HIDDEN}", text))


def _redacted_word(word: re.Match[str]) -> str:
    scheme, mark, rest = word[0].partition("://")
    credentials, at, path = rest.rpartition("@")
    return scheme + mark + (credentials and HIDDEN) + at + AFTER_PATH.sub(rf"\1{HIDDEN}", path) if mark else word[0]


def quoted(value: object) -> str:
    """Format a value for a message: its `repr` without secrets. A long one loses its middle or its end."""
    return clipped(_short.repr(without_secrets(value) if isinstance(value, str) else value))


def clipped(text: str) -> str:
    """Return a short text, such as the name of a field, as it is. Of a longer text return the start."""
    return text if len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]}…"


def shortened(text: str) -> str:
    """Shorten the lines of a message that are too long to read: each keeps its start and its end."""
    half = LONGEST_LINE // 2
    lines = (
        line if len(line) <= LONGEST_LINE else f"{line[:half]} … ({len(line) - 2 * half:,} characters) … {line[-half:]}"
        for line in text.split("\n")
    )
    return "\n".join(lines)

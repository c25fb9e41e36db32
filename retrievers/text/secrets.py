"""Keys and passwords kept out of every text that is shown or stored: one place for all of them."""

import html
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import quote, unquote, urlsplit

HIDDEN = "***"
# Fewest characters of a value that is hidden; a shorter one (`none`, `EMPTY`) is a word of other texts.
SHORTEST = 8
SECRET_NAME = re.compile(r"(?:^|_)(?:API_?KEY|ACCESS_KEY|SECRET|SECRET_KEY|TOKEN|PASSWORD)$", re.IGNORECASE)
WORD = re.compile(r"[^\s'\"]+")
BEARER = re.compile(r"\b(bearer\s+)[\w.~+/=-]+", re.IGNORECASE)
QUERY_VALUE = re.compile(r"([?&][\w.-]+=)[^\s&'\"]+")
AFTER_PATH = re.compile(r"([?&#](?:[\w.-]+=)?)[^&#]+")

_known: tuple[str, ...] = ()


def remember(value: str) -> None:
    """Hide a secret from now on, as it is and as JSON, HTML and addresses write it."""
    global _known  # noqa: PLW0603 - a process has one set of secrets for all its output
    if len(value) >= SHORTEST and value not in _known:
        forms = {value, json.dumps(value)[1:-1], html.escape(value), quote(value, safe=""), quote(value)}
        _known = tuple(sorted({*_known, *forms}, key=len, reverse=True))


def remember_environment(env: Mapping[str, str]) -> None:
    """Hide the value of every variable whose name says that it is a secret, such as `COHERE_API_KEY`."""
    for name, value in env.items():
        if SECRET_NAME.search(name):
            remember(value.strip())


def remember_password(url: str) -> None:
    """Hide the password of an address that has to carry one, such as that of a database."""
    with suppress(ValueError):  # not an address
        password = urlsplit(url).password or ""
        remember(password)
        remember(unquote(password))


def without_secrets(text: str) -> str:
    """Replace every known secret in a text by `***`."""
    for secret in _known:
        text = text.replace(secret, HIDDEN)
    return text


def redacted(text: str) -> str:
    """Clean a text from outside for display: no known secrets, bearer tokens, or credentials in addresses.

    Of an address the credentials, the values of its query and its fragment are hidden.
    """
    text = WORD.sub(_redacted_word, without_secrets(text))
    return QUERY_VALUE.sub(rf"\1{HIDDEN}", BEARER.sub(rf"\1{HIDDEN}", text))


def _redacted_word(word: re.Match[str]) -> str:
    scheme, mark, rest = word[0].partition("://")
    credentials, at, path = rest.rpartition("@")
    return scheme + mark + (credentials and HIDDEN) + at + AFTER_PATH.sub(rf"\1{HIDDEN}", path) if mark else word[0]

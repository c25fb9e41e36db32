"""Characters that steer a terminal, a page or the direction of writing, made visible where a text is shown."""

import json
import re
from typing import Any

from retrievers.text.secrets import without_secrets

STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but tab and line feed: ESC, BEL, backspace, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # the direction of writing
    "\u2028\u2029\ufffe\uffff\ud800-\udfff]"  # line ends to some, non-characters, halves of surrogate pairs
)


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

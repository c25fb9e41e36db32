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
    r"""A text as it may be shown: each character that steers as its escape, such as `\x1b`, and no known secret."""
    return STEERING.sub(_escaped, without_secrets(text).replace("\r\n", "\n"))


def json_text(value: Any, indent: int | None = None) -> str:
    """A value as JSON that may be shown, and that reads back as exactly the value: JSON's own escapes stand in it.

    Raises:
        ValueError: It holds a number that JSON has no way to write.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    return STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escaped(found: re.Match[str]) -> str:
    return ascii(found[0])[1:-1]

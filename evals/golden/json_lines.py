"""Rows as JSON Lines."""

from collections.abc import Sequence
from typing import Any

from retrievers.text.printable import json_text


def json_lines(rows: Sequence[dict[str, Any]]) -> str:
    """Return rows as JSON Lines, one object a line."""
    return "".join(json_text(row) + "\n" for row in rows)

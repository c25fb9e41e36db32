"""Texts: their words, languages and character sets, and how they are shown."""

import re


def words(text: str) -> list[str]:
    """Return the words of a text, in lower case."""
    return re.findall(r"\w+", text.lower())

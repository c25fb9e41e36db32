"""Texts: their words, language and digest, and how they are shown."""

import hashlib
import re


def words(text: str) -> list[str]:
    """Return the words of a text, in lower case."""
    return re.findall(r"\w+", text.lower())


def well_formed(text: str) -> str:
    """Replace halves of surrogate pairs by U+FFFD: a text that has them cannot be embedded, hashed, sent or stored."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def digest(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()

"""A user's own words in messages: as Python writes them, shortened."""

from reprlib import Repr

from retrievers.text.secrets import without_secrets

# Characters of a value, of a name or a formatted value, and of a line that a message shows.
LONGEST, LONGEST_NAME, LONGEST_LINE = 100, 200, 2_000


# Of the first few items: a value of few bytes may be an endless one, by aliases.
_short = Repr()
_short.maxlevel, _short.maxdict, _short.maxlist, _short.maxtuple = 4, 8, 10, 10
_short.maxstring = _short.maxlong = _short.maxother = LONGEST
_short.fillvalue = "…"


def quoted(value: object) -> str:
    """Format a value for a message: its `repr`, of which a long one loses its middle or end; no secret, nor a part."""
    return clipped(_short.repr(without_secrets(value) if isinstance(value, str) else value))


def clipped(text: str) -> str:
    """Return the start of a text that is too long to read, such as the name of a field."""
    return text if len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]}…"


def shortened(text: str) -> str:
    """Shorten a message: a line too long to read loses its middle and keeps its start and end."""
    half = LONGEST_LINE // 2
    lines = (
        line if len(line) <= LONGEST_LINE else f"{line[:half]} … ({len(line) - 2 * half:,} characters) … {line[-half:]}"
        for line in text.split("\n")
    )
    return "\n".join(lines)

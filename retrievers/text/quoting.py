"""A user's own words in messages: as Python writes them, shortened."""

from retrievers.text.secrets import without_secrets

# Characters of a name, of a value, and of a line that a message shows.
LONGEST_NAME, LONGEST_VALUE, LONGEST_LINE = 200, 100, 2_000
# Bits up to which Python writes an integer out.
LONGEST_INTEGER = 1_000


def quoted(value: object) -> str:
    """Format a value for a message: its `repr`, of which a long one loses its middle; no secret, nor a part of one."""
    if isinstance(value, int) and value.bit_length() > LONGEST_INTEGER:
        return f"an integer of {value.bit_length():,} bits"
    try:
        return _without_middle(without_secrets(repr(value)), LONGEST_VALUE, "…")
    except (ValueError, RecursionError):  # an integer too long to be written, or lists within lists
        return f"a {type(value).__name__} too long to be shown"


def clipped(text: str) -> str:
    """Return the start of a text that is too long to read, such as the name of a field."""
    return text if len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]}…"


def shortened(text: str) -> str:
    """Shorten a message: a line too long to read loses its middle and keeps its start and end."""
    return "\n".join(
        _without_middle(line, LONGEST_LINE, " … ({left_out:,} characters) … ") for line in text.split("\n")
    )


def _without_middle(text: str, most: int, mark: str) -> str:
    if len(text) <= most:
        return text
    return text[: most // 2] + mark.format(left_out=len(text) - most) + text[-(most // 2) :]

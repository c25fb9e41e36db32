"""A user's own words in messages: as Python writes them, shortened."""

from reprlib import Repr

from retrievers.text.secrets import without_secrets

# Characters of a value, of a name or a formatted value, and of a line that a message shows.
LONGEST, LONGEST_NAME, LONGEST_LINE = 100, 200, 2_000


class _Short(Repr):
    """The standard library's `repr` of the first few items: a value of few bytes may be an endless one, by aliases."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxdict, self.maxlist, self.maxtuple = 4, 8, 10, 10
        self.maxstring = self.maxlong = self.maxother = LONGEST
        self.fillvalue = "…"


_short = _Short()


def quoted(value: object) -> str:
    """Format a value for a message: its `repr`, of which a long one loses its middle or end; no secret, nor a part."""
    return clipped(_short.repr(without_secrets(value) if isinstance(value, str) else value))


def clipped(text: str) -> str:
    """Return the start of a text that is too long to read, such as the name of a field."""
    return text if len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]}…"


def shortened(text: str) -> str:
    """Shorten a message: a line too long to read loses its middle and keeps its start and end."""
    return "\n".join(map(_without_middle, text.split("\n")))


def _without_middle(line: str) -> str:
    left_out, half = len(line) - LONGEST_LINE, LONGEST_LINE // 2
    return line if left_out <= 0 else f"{line[:half]} … ({left_out:,} characters) … {line[-half:]}"

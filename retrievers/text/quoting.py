"""A user's own words in messages: as Python writes them, shortened."""

from reprlib import Repr

from retrievers.text.secrets import without_secrets

# Characters of a value that a message shows.
LONGEST = 100
# Characters of a line of a message.
LONGEST_LINE = 2_000


class _Short(Repr):
    """The shortened `repr` of the standard library, in which an integer is never written out in full."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxdict, self.maxlist, self.maxtuple = 4, 8, 10, 10
        self.maxstring = self.maxlong = self.maxother = LONGEST
        self.fillvalue = "…"

    def repr_int(self, x: int, level: int) -> str:
        return super().repr_int(x, level) if x.bit_length() < 1_000 else f"an integer of {x.bit_length():,} bits"


_short = _Short()


def quoted(value: object) -> str:
    """Format a value for a message: its `repr`, of which a long one loses its middle or end; no secret, nor a part."""
    return clipped(_short.repr(without_secrets(value) if isinstance(value, str) else value))


def clipped(text: str) -> str:
    """Return the start of a text that is too long to read, such as the name of a field."""
    return text if len(text) <= 2 * LONGEST else f"{text[: 2 * LONGEST]}…"


def shortened(text: str) -> str:
    """Shorten a message: a line too long to read loses its middle and keeps its start and end."""
    return "\n".join(map(_shortened_line, text.split("\n")))


def _shortened_line(line: str) -> str:
    if len(line) <= LONGEST_LINE:
        return line
    half = LONGEST_LINE // 2
    return f"{line[:half]} … ({len(line) - 2 * half:,} characters) … {line[-half:]}"

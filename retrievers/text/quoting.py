"""A user's own words in messages: as Python writes them, and never longer than helps."""

from reprlib import Repr

LONGEST = 100
"""Characters of a value that a message shows."""
LONGEST_LINE = 2_000
"""Characters of a line of a message."""


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
    """A value as a message shows it: its `repr`, of which the middle or the end is left out where it is long."""
    return clipped(_short.repr(value))


def clipped(text: str) -> str:
    """The beginning of a text that is too long to be read, such as the name of a field."""
    return text if len(text) <= 2 * LONGEST else f"{text[: 2 * LONGEST]}…"


def shortened(text: str) -> str:
    """A message in which a line that is too long to be read has lost its middle, so that its beginning and end stay."""
    return "\n".join(map(_shortened_line, text.split("\n")))


def _shortened_line(line: str) -> str:
    if len(line) <= LONGEST_LINE:
        return line
    half = LONGEST_LINE // 2
    return f"{line[:half]} … ({len(line) - 2 * half:,} characters) … {line[-half:]}"

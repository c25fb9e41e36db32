"""A part of an audit, as it is shown and as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# Examples of a finding that are shown; JSON has all.
SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class AuditSection:
    """A part of an audit.

    Attributes:
        name: Key in JSON.
        title: Heading.
        lines: What was found, a sentence each.
        figures: The same as numbers and lists.
        doubtful: True if somebody should look into it.
    """

    name: str
    title: str
    lines: tuple[str, ...]
    figures: Mapping[str, Any] = field(default_factory=dict)
    doubtful: bool = False


def first_few(examples: Sequence[str]) -> tuple[str, ...]:
    """Return the first examples, indented, and how many more there are."""
    rest = len(examples) - SHOWN
    more = (f"  … and {rest} more (--json has all)",) if rest > 0 else ()
    return (*(f"  {example}" for example in examples[:SHOWN]), *more)

"""A fault or a fact that an audit found in a collection."""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One finding of an audit.

    Attributes:
        check: Name of the check, `area/subject`.
        severity: error: results are wrong, or a run cannot be made; warning: recall or speed is lost; note: a fact to
            know when the figures are read.
        seen: The observation, with its numbers.
        why: Its consequence.
        fix: The remedy, as a setting or as a call of qdrant-client; empty where there is nothing to do.
    """

    check: str
    severity: Severity
    seen: str
    why: str
    fix: str = ""

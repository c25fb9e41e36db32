"""An audit as text for a person, and as JSON. Pure."""

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from retrievers.doctor.examination import Examination
from retrievers.doctor.finding import SEVERITIES, Finding
from retrievers.store import location

INDENT = " " * 9


def audit_text(read: Examination, findings: Sequence[Finding], width: int) -> str:
    """Return the audit as text: the collection, each finding with its reason and remedy, the count."""
    lines = [*_wrapped(_head(read), width, "", "  "), ""]
    for finding in findings:
        lines.append(f"{finding.severity.upper():<9}{finding.check}")
        for label, text in (("", finding.seen), ("Why  ", finding.why), ("Fix  ", finding.fix)):
            if text:
                lines += _wrapped(text, width, INDENT + label, INDENT + " " * len(label))
        lines.append("")
    return "\n".join([*lines, _count(findings)])


def audit_json(read: Examination, findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the audit as plain data: collection, points that were read, findings."""
    return {
        "collection": read.info.name,
        "location": location(read.config.store),
        "points": read.info.points,
        "points_read": len(read.points),
        "server_version": read.version or None,
        "findings": [asdict(finding) for finding in findings],
    }


def _wrapped(text: str, width: int, first: str, rest: str) -> list[str]:
    # Paths and calls are to be copied: they stay in one piece.
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


def _head(read: Examination) -> str:
    vectors = ", ".join(f"{name or 'unnamed'} ({size})" for name, size in read.info.vectors.items()) or "none"
    parts = [
        f"{read.info.points:,} points",
        f"vectors {vectors}, {read.info.distance or 'no distance'}",
        f"sparse {', '.join(read.info.sparse_vectors) or 'none'}",
        f"Qdrant {read.version}" if read.version else "",
    ]
    read_in_full = len(read.points) == read.info.points
    sample = "all points read" if read_in_full else f"{len(read.points):,} points from all over it read"
    return (
        f"Collection {read.info.name!r} at {location(read.config.store)}: {'; '.join(filter(None, parts))}; {sample}."
    )


def _count(findings: Sequence[Finding]) -> str:
    counts = Counter(finding.severity for finding in findings)
    said = [f"{counts[name]} {name}{'s' * (counts[name] != 1)}" for name in SEVERITIES]
    return (
        ", ".join(said) + "." + ("" if counts["error"] or counts["warning"] else " Nothing stands against tuning it.")
    )

"""The checks of an audit, and what they find, as text for a person and as JSON."""

import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from retrievers.doctor import index_checks, text_checks, vector_checks
from retrievers.doctor.examine import SEVERITIES, Examination, Finding
from retrievers.store import location

INDENT = " " * 9
Check = Callable[[Examination], Iterator[Finding]]
CHECKS: tuple[Check, ...] = (
    index_checks.status,
    index_checks.indexed,
    index_checks.quantization,
    vector_checks.name,
    vector_checks.single,
    vector_checks.recorded_model,
    vector_checks.embedded_again,
    vector_checks.usable,
    vector_checks.normalised,
    vector_checks.threshold,
    vector_checks.present,
    vector_checks.idf,
    vector_checks.shards,
    vector_checks.average_length,
    text_checks.readable,
    text_checks.cut,
    text_checks.duplicates,
    text_checks.keys,
    text_checks.filters,
    index_checks.version,
    index_checks.replicas,
    index_checks.peers,
    index_checks.strict_mode,
    index_checks.alias,
    index_checks.rights,
)


def diagnose(read: Examination) -> Sequence[Finding]:
    """Return the findings of all checks, the gravest first; an empty collection has this one alone."""
    if not read.info.points:
        return [
            Finding(
                check="points/none",
                severity="error",
                seen=f"collection {read.info.name!r} holds no point",
                why="there is nothing to find",
                fix="python -m retrievers index DIR",
            )
        ]
    findings = [*_incomplete(read), *(finding for check in CHECKS for finding in check(read))]
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


def _incomplete(read: Examination) -> Iterator[Finding]:
    """Find a collection whose indexing did not end, or that lost points."""
    if read.info.manifest.get("state", "complete") != "complete" or read.info.lost:
        yield Finding(
            check="points/complete",
            severity="error",
            seen=f"an indexing run was interrupted, or points are gone: {read.info.points:,} are there"
            + (f" of {read.info.points + read.info.lost:,}" if read.info.lost else ""),
            why="pages are missing, and what is missing is never found; a run refuses this collection",
            fix="index the pages again (python -m retrievers index DIR)",
        )


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

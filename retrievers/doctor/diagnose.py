"""The checks of an audit, and what they find."""

from collections.abc import Callable, Iterator, Sequence

from retrievers.doctor import index_checks, keyword_checks, payload_checks, server_checks, text_checks, vector_checks
from retrievers.doctor.examination import Examination
from retrievers.doctor.finding import SEVERITIES, Finding

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
    keyword_checks.present,
    keyword_checks.idf,
    keyword_checks.shards,
    keyword_checks.average_length,
    text_checks.readable,
    text_checks.cut,
    text_checks.duplicates,
    payload_checks.keys,
    payload_checks.filters,
    server_checks.version,
    server_checks.replicas,
    server_checks.peers,
    server_checks.strict_mode,
    server_checks.alias,
    server_checks.rights,
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

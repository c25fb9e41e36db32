"""Whether the collection was the same at the end of a run as at its beginning; where not, nothing is decided by it."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from evals.experiment.provenance import collection_facts
from evals.metrics.criteria import undecided
from evals.metrics.run_result import RunResult
from retrievers.errors import StoreError
from retrievers.retriever.protocol import Retriever

CONFIGURATION = ("dimension", "distance", "vectors", "sparse_vectors", "embedding")


def checked_at_end(result: RunResult, retriever: Retriever) -> RunResult:
    """The result with the collection as it is now; where that changed, said first, and every criterion undecided.

    Args:
        result: A run that was just measured.
        retriever: What it was measured with.
    """
    before = result.facts["collection"]
    if before is None:
        return result
    after, change = _now(before, retriever)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    known = {**result.facts, "collection_at_end": after, "collection_changed": change or None}
    if not change:
        return replace(result, facts=known)
    said = (
        f"the collection changed between {result.facts['started_at']} and {now}: {change}; the figures are of neither "
        "state, run again while nobody writes to it"
    )
    return replace(result, facts=known, gates=undecided(result.gates, said), notes=[said, *result.notes])


def _now(before: Mapping[str, Any], retriever: Retriever) -> tuple[Mapping[str, Any] | None, str]:
    """The collection as it is now, and in what it changed; a run is not lost because it cannot be read any more."""
    try:
        after = collection_facts(retriever)
    except StoreError as error:
        return None, f"it cannot be read any more ({error})"
    return after, differences(before, after) if after else ""


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """What tells two states of a collection apart, in words; empty where they are the same."""
    said = [f"{before['points']:,} → {after['points']:,} points"] if before["points"] != after["points"] else []
    said += [
        f"{name.replace('_', ' ')} {before[name]!r} → {after[name]!r}"
        for name in CONFIGURATION
        if before[name] != after[name]
    ]
    if before["sample_hash"] != after["sample_hash"]:
        said.append(f"content of the first {before['sampled_points']:,} points")
    first, second = before["server"] or {}, after["server"] or {}
    said += [
        f"{name.replace('_', ' ')} {first.get(name)!r} → {second.get(name)!r}"
        for name in {**first, **second}
        if first.get(name) != second.get(name)
    ]
    return ", ".join(said)

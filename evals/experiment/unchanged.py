"""The collection at the end of a run; if it changed since the start, the run decides nothing."""

from dataclasses import replace
from datetime import UTC, datetime

from evals.experiment.provenance import collection_facts
from evals.metrics.criteria import undecided
from evals.metrics.run_result import RunResult
from evals.report.model import CollectionFacts, Facts, ServerFacts
from retrievers.errors import StoreError
from retrievers.retriever.protocol import Retriever

# Facts of a collection that a change of its content leaves alone.
CONFIGURATION = ("dimension", "distance", "vectors", "sparse_vectors", "embedding")


def checked_at_end(result: RunResult, facts: Facts, retriever: Retriever) -> tuple[RunResult, Facts]:
    """Return the facts with the collection as it is now, and the result, undecided where that changed.

    Args:
        result: A run that was just measured.
        facts: Its facts, as they were at its beginning.
        retriever: Its retriever.
    """
    if facts.collection is None:
        return result, facts
    after, change = _now(facts.collection, retriever)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    updated = facts.model_copy(update={"collection_at_end": after, "collection_changed": change or None})
    if not change:
        return result, updated
    note = (
        f"the collection changed between {facts.started_at} and {now}: {change}; the figures are of neither "
        "state, run again while nobody writes to it"
    )
    return replace(result, gates=undecided(result.gates, note), notes=[note, *result.notes]), updated


def _now(before: CollectionFacts, retriever: Retriever) -> tuple[CollectionFacts | None, str]:
    """Return the collection as it is now, and the change; a run is not lost because it cannot be read any more."""
    try:
        after = collection_facts(retriever)
    except StoreError as error:
        return None, f"it cannot be read any more ({error})"
    return after, differences(before, after) if after else ""


def differences(before: CollectionFacts, after: CollectionFacts) -> str:
    """Return the differences of two states of a collection, in words; empty where they are the same."""
    changes = [f"{before.points:,} → {after.points:,} points"] if before.points != after.points else []
    changes += [
        f"{name.replace('_', ' ')} {getattr(before, name)!r} → {getattr(after, name)!r}"
        for name in CONFIGURATION
        if getattr(before, name) != getattr(after, name)
    ]
    if before.sample_hash != after.sample_hash:
        changes.append(f"content of the first {before.sampled_points:,} points")
    first, second = _settings(before.server), _settings(after.server)
    changes += [
        f"{name.replace('_', ' ')} {first.get(name)!r} → {second.get(name)!r}"
        for name in {**first, **second}
        if first.get(name) != second.get(name)
    ]
    return ", ".join(changes)


def _settings(server: ServerFacts | None) -> dict[str, object]:
    return server.model_dump(exclude_unset=True) if server else {}

"""Relevant chunks that the collection lacks: a few count as never retrieved, many are a fault. Pure."""

from collections.abc import Collection, Mapping, Sequence

from evals.golden.case import Case

MOST_MISSING = 0.05
SHOWN = 3


def too_many_missing(cases: Sequence[Case], known: Collection[str], places: Mapping[str, str]) -> str | None:
    """Return a fault in one line if over 5% of the chunks in `relevant_ids` are missing; else None.

    Args:
        cases: Golden queries.
        known: The chunk ids of the collection, at least those that cases name.
        places: Case id to `file:line`.
    """
    named = {key: case.id for case in reversed(cases) for key in case.relevant}
    missing = {key: case_id for key, case_id in named.items() if key not in known}
    if len(missing) <= MOST_MISSING * len(named):
        return None
    first = min(missing)
    return (
        f"{places.get(missing[first], missing[first])}: relevant_ids: the collection has no chunk {first!r}; "
        f"{len(missing):,} of {len(named):,} relevant chunks are missing, and at most {MOST_MISSING:.0%} may be; are "
        "ids written alike? metadata.map {chunk_id: KEY} names the payload key that holds them"
    )


def missing_note(missing: Mapping[str, Collection[str]], relevant: int) -> str:
    """Return a note on relevant chunks that are not in the collection; empty where all are.

    Args:
        missing: Case id to the missing chunks.
        relevant: Number of chunks that are relevant to some case.
    """
    pairs = [(key, case_id) for case_id, keys in missing.items() for key in sorted(keys)]
    count = len({key for key, _ in pairs})
    if not pairs:
        return ""
    shown = ", ".join(f"{key!r} (case {case_id})" for key, case_id in pairs[:SHOWN])
    are = "is not in the collection and counts" if count == 1 else "are not in the collection and count"
    return f"{count} of {relevant} relevant chunks {are} as not retrieved: {shown}" + (" …" if pairs[SHOWN:] else "")

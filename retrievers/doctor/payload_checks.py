"""Checks of the payload: keys that are missing, values of the wrong type, fields to filter by without an index."""

from collections import Counter
from collections.abc import Iterator

from retrievers.config.filter_expressions import comparisons
from retrievers.config.filters import parse
from retrievers.doctor.examination import Examination
from retrievers.doctor.finding import Finding
from retrievers.store.payload import payload_keys, usual_fields

# A field with this few values, each on several chunks, is one that people filter by.
FEW_VALUES, LEAST_CHUNKS = 30, 5
# Points from which a filter without an index is slow.
SLOW_FROM = 10_000
FILTERED_BY = ("module", "chapter", "tags", "source_document_id")


def keys(read: Examination) -> Iterator[Finding]:
    """Find required fields that chunks lack, and values of the wrong type."""
    named, chunks = read.config.metadata.required, [point.chunk for point in read.points]
    required = usual_fields(chunks) if named is None else named
    missing = Counter(name for chunk in chunks for name in required if getattr(chunk, name, None) is None)
    if missing:
        counts = ", ".join(f"{name} ({count} of {len(chunks)})" for name, count in missing.most_common())
        yield Finding(
            check="payload/keys",
            severity="warning",
            seen=f"chunks lack {'usual fields' if named is None else 'fields that metadata.required names'}: {counts}",
            why="every query that returns one of them passes in part only",
            fix="map the payload's own keys (python -m retrievers inspect), or require only what there is",
        )
    if named is None and chunks and not any(chunk.source_url for chunk in chunks):
        yield Finding(
            check="payload/address",
            severity="note",
            seen="no chunk says which page it is from (source_url)",
            why="an application cannot cite it, and golden data has to name chunks by their ids or documents",
            fix="if a payload key holds the address: metadata.map {source_url: KEY} (python -m retrievers inspect)",
        )
    wrong = Counter(problem.split(":")[0] for point in read.points for problem in point.chunk.problems)
    wrong.pop("text", None)
    if wrong:
        example = next(p for point in read.points for p in point.chunk.problems if not p.startswith("text:"))
        yield Finding(
            check="payload/types",
            severity="warning",
            seen=f"values of the wrong type: {', '.join(f'{name} × {count}' for name, count in wrong.items())}; "
            f"such as {example}",
            why="they are left out of results, as if the key were missing",
            fix="write them in the expected type: client.set_payload(...)",
        )


def filters(read: Examination) -> Iterator[Finding]:
    """Find fields that are filtered by, or look like it, and have no index."""
    config = read.config
    used = {condition.field for condition in comparisons(parse(config.filters))} if config.filters else set[str]()
    used |= {config.group_by} if config.group_by else set()
    likely = {name for name in FILTERED_BY if _looks_filtered(read, name)} if read.info.points >= SLOW_FROM else set()
    for names, severity in ((used, "warning"), (likely - used, "note")):
        bare = sorted(key for name in names if (key := _bare_key(read, name)))
        if not bare:
            continue
        refused = severity == "warning" and not read.info.limits.unindexed
        yield Finding(
            check="payload/index",
            severity="error" if refused else "warning" if severity == "warning" else "note",
            seen=f"no payload index on {', '.join(bare)}"
            + (", which a filter or group_by uses" if severity == "warning" else ", a field to filter by"),
            why="strict mode refuses such a filter"
            if refused
            else "the server reads every payload to filter by it, and the vector index cannot take the filter along",
            fix="; ".join(
                f"client.create_payload_index({read.call}, {key!r}, models.PayloadSchemaType.KEYWORD)" for key in bare
            ),
        )


def _bare_key(read: Examination, name: str) -> str | None:
    """Return the payload key of a field that has no index; None where it has one."""
    candidates = payload_keys(name, read.config.metadata) if name in FILTERED_BY or "." not in name else (name,)
    return None if any(key in read.info.indexed for key in candidates) else candidates[0]


def _looks_filtered(read: Examination, name: str) -> bool:
    values = Counter(str(value) for point in read.points if (value := getattr(point.chunk, name, None)))
    return 1 < len(values) <= FEW_VALUES and sum(values.values()) >= LEAST_CHUNKS * len(values)

"""Candidates against golden judgements, as arrays: what the metrics over all prefixes at once read. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evals.collect.observations import Observation
from evals.grid.selections import Found, Integers, Selections
from evals.metrics.cost import chunk_tokens
from retrievers.config import RetrieverConfig
from retrievers.records import RetrievedChunk

DEEPEST = 10
"""The deepest at which a metric looks at the ideal order."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Ranked lists and what is relevant to their queries; rows are lists.

    Attributes:
        gains: Grade of the chunk at each place, 0 where it is not relevant or the list has ended; (lists, longest).
        relevant: How many chunks are relevant in all, found or not; (lists,).
        ideal: The highest grades of all that is relevant, descending, 0 beyond the last; (lists, at least 10).
        items_found: How many evidence items the first n hold, n from 0; (lists, longest + 1). None where nobody asks.
        item_count: How many evidence items there are; (lists,).
        tokens: Tokens of the chunk at each place, 0 beyond the end; (lists, longest). None where nobody asks.
    """

    gains: Integers
    relevant: Integers
    ideal: Integers
    items_found: Integers | None = None
    item_count: Integers | None = None
    tokens: Integers | None = None


def found(observations: Sequence[Observation], settings: RetrieverConfig) -> Found:
    """What threshold, grouping and cut read of candidates.

    Args:
        observations: The queries, with their candidates at full depth.
        settings: Which score the threshold reads, and what results are grouped by.
    """
    depth = max((len(o.candidates.chunks) for o in observations), default=0)
    scores = np.full((len(observations), depth), -np.inf)
    for row, o in enumerate(observations):
        scores[row, : len(o.candidates.chunks)] = _read(o.candidates.chunks, settings)
    if settings.group_by is None:
        return Found(scores=scores)
    groups = np.zeros(scores.shape, dtype=np.int64)
    for row, o in enumerate(observations):
        groups[row, : len(o.candidates.chunks)] = _groups(o.candidates.chunks, settings.group_by)
    return Found(scores=scores, groups=groups)


def judge_lists(ranked: Sequence[Sequence[str]], grades: Sequence[Mapping[str, int]]) -> Judged:
    """Ranked lists of distinct ids against what is relevant to their queries.

    Args:
        ranked: Ids in rank order, one list a query.
        grades: To each list the relevant ids with their grades above 0.
    """
    gains = np.zeros((len(ranked), max(map(len, ranked), default=0)), dtype=np.int64)
    ideal = np.zeros((len(ranked), max(DEEPEST, *map(len, grades), 0)), dtype=np.int64)
    for row, (ids, known) in enumerate(zip(ranked, grades, strict=True)):
        gains[row, : len(ids)] = [known.get(chunk_id, 0) for chunk_id in ids]
        ideal[row, : len(known)] = sorted(known.values(), reverse=True)
    return Judged(gains=gains, relevant=np.asarray([len(known) for known in grades], dtype=np.int64), ideal=ideal)


def judged(observations: Sequence[Observation], selections: Selections) -> Judged:
    """The lists of selections against what is relevant to their queries."""
    ranked = [[c.chunk.chunk_id for c in o.candidates.chunks] for o in observations]
    known = judge_lists(ranked, [o.relevance.grades for o in observations])
    query = selections.query
    return Judged(gains=_at(known.gains, selections), relevant=known.relevant[query], ideal=known.ideal[query])


def with_items(known: Judged, observations: Sequence[Observation], selections: Selections) -> Judged:
    """The same with how many evidence items each list holds, as far as each place."""
    holders = [_holders(o) for o in observations]
    found = np.zeros((len(selections.members), selections.width), dtype=np.int64)
    for row, (query, members) in enumerate(zip(selections.query.tolist(), selections.members.tolist(), strict=True)):
        chunks, held = observations[query].candidates.chunks, holders[query]
        seen: set[int] = set()
        for place, member in enumerate(members, 1):
            new = held.get(chunks[member].chunk.chunk_id, ()) if member >= 0 else ()
            seen.update(new)
            found[row, place] = len(seen)
    counts = np.asarray([len(o.relevance.items) for o in observations], dtype=np.int64)
    return replace(known, items_found=found, item_count=counts[selections.query])


def with_tokens(known: Judged, observations: Sequence[Observation], selections: Selections) -> Judged:
    """The same with the tokens of each chunk, recorded ones or else counted."""
    tokens = np.zeros(selections.members.shape, dtype=np.int64)
    for row, query in enumerate(selections.query):
        chunks = observations[query].candidates.chunks
        places = selections.members[row]
        tokens[row] = [chunk_tokens(chunks[place].chunk) if place >= 0 else 0 for place in places]
    return replace(known, tokens=tokens)


def is_plain(observation: Observation) -> bool:
    """Whether arrays say all: no chunk id comes twice, as in a collection made elsewhere, and all relevant is known."""
    chunks = observation.candidates.chunks
    return not observation.relevance.incomplete and len({c.chunk.chunk_id for c in chunks}) == len(chunks)


def _read(chunks: Sequence[RetrievedChunk], settings: RetrieverConfig) -> list[float]:
    """The scores that the threshold reads; all alike where there is no threshold."""
    if settings.used_threshold is None:
        return [0.0] * len(chunks)
    return [c.known_score if settings.threshold_on == "final" else c.scores["semantic"] for c in chunks]


def _holders(observation: Observation) -> dict[str, list[int]]:
    """Chunk id to the evidence items it holds, by number."""
    held: dict[str, list[int]] = {}
    for number, chunk_ids in enumerate(observation.relevance.items):
        for chunk_id in chunk_ids:
            held.setdefault(chunk_id, []).append(number)
    return held


def _groups(chunks: Sequence[RetrievedChunk], field: str) -> list[int]:
    """Each chunk's group by the place of the first chunk of it; a chunk without the field is alone."""
    first: dict[object, int] = {}
    values = [found.chunk.value(field) for found in chunks]
    keys = [
        ("chunk", found.chunk.chunk_id) if value is None else ("group", value)
        for found, value in zip(chunks, values, strict=True)
    ]
    return [first.setdefault(key, place) for place, key in enumerate(keys)]


def _at(values: Integers, selections: Selections) -> Integers:
    """What holds of candidates, by place in the lists; 0 beyond their end."""
    if values.shape[1] == 0:
        return np.zeros(selections.members.shape, dtype=np.int64)
    taken = values[selections.query[:, None], selections.members]
    return np.where(selections.members < 0, 0, taken)

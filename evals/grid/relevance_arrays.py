"""Candidates against golden judgements, as arrays: what the metrics over all prefixes at once read. Pure."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from evals.collect.observations import Observation, Observed
from evals.golden.evidence import Relevance
from evals.grid.selections import Found, Selections
from evals.metrics.arrays import Floats, Integers, RelevanceArrays, Small
from evals.metrics.cost import chunk_tokens
from retrievers.config import RetrieverConfig
from retrievers.search.candidate_table import CandidateTable, Chunks

DEEPEST = 10
"""The deepest at which a metric looks at the ideal order."""
BITS = 63
"""Evidence items that one integer holds as bits."""
Item = TypeVar("Item", bound=np.generic)


def threshold_scores(observed: Observed, settings: RetrieverConfig) -> Found:
    """Return what threshold, grouping and cut read of candidates.

    Args:
        observed: The queries, with their candidates at full depth.
        settings: Which score the threshold reads, and what results are grouped by.
    """
    table = observed.table
    name = "score" if settings.threshold_on == "final" else "semantic"
    read = np.zeros(len(table.codes)) if settings.used_threshold is None else table.column(name)
    scores = table.matrix(read, -np.inf)
    if settings.threshold_on == "best":
        scores = np.where(np.isfinite(scores), scores.max(axis=1, keepdims=True, initial=-np.inf), -np.inf)
    if settings.group_by is None:
        return Found(scores=scores)
    return Found(scores=scores, groups=_groups(table, settings.group_by))


def of_candidates(observed: Observed) -> RelevanceArrays:
    """Return the relevance of the candidates of every query."""
    relevance = [observation.relevance for observation in observed.observations]
    grades = [labels.grades for labels in relevance]
    return RelevanceArrays(gains=_gains(observed.table, grades), relevant=_counts(grades), ideal=_ideal(grades))


def of_selections(observed: Observed, selections: Selections, candidates: RelevanceArrays) -> RelevanceArrays:
    """Return the relevance of the lists of selections.

    Args:
        observed: The queries.
        selections: The lists.
        candidates: Relevance arrays of the candidates of every query (see `of_candidates`).
    """
    query, relevance = selections.query, [observation.relevance for observation in observed.observations]
    return RelevanceArrays(
        gains=_at(candidates.gains, selections),
        relevant=candidates.relevant[query],
        ideal=candidates.ideal[query],
        count_items=lambda: _items_found(observed.table, relevance, selections),
        item_count=np.asarray([len(labels.items) for labels in relevance], dtype=np.int64)[query],
        count_tokens=lambda: _tokens(observed.table, selections),
        fewest=np.asarray([o.case.min_results for o in observed.observations], dtype=np.int64)[query],
        read_cosines=lambda: _cosines(observed.table, selections),
        read_judged=lambda: _judged(observed.table, relevance, selections),
        irrelevant=np.asarray([_refused(o) for o in observed.observations], dtype=np.int64)[query],
    )


def is_plain(observed: Observed) -> bool:
    """Return True if arrays say all: every list holds distinct ids, and all that is relevant is known.

    A collection made elsewhere may give several points one chunk id.
    """
    table = observed.table
    if any(observation.relevance.incomplete for observation in observed.observations):
        return False
    same: dict[str, int] = {}
    first = [same.setdefault(table.chunks.chunk_id(code), code) for code in _found_codes(table)]
    number = np.zeros(len(table.chunks), dtype=np.int64)
    number[_found_codes(table)] = first
    ids = table.matrix(number[table.codes], -1)
    ids.sort(axis=1)
    return not ((ids[:, 1:] == ids[:, :-1]) & (ids[:, 1:] >= 0)).any()


def _found_codes(table: CandidateTable) -> list[int]:
    codes: list[int] = np.unique(table.codes).tolist()
    return codes


def _counts(grades: Sequence[Mapping[str, int]]) -> Integers:
    return np.asarray([len(of_query) for of_query in grades], dtype=np.int64)


def _ideal(grades: Sequence[Mapping[str, int]]) -> Small:
    ideal = np.zeros((len(grades), max(DEEPEST, *map(len, grades), 0)), dtype=np.int32)
    for row, of_query in enumerate(grades):
        ideal[row, : len(of_query)] = sorted(of_query.values(), reverse=True)
    return ideal


def _gains(table: CandidateTable, grades: Sequence[Mapping[str, int]]) -> Small:
    """Lay the grade of every candidate out by query and place."""
    values = _lookup(table, [{key: grade for key, grade in of_query.items()} for of_query in grades])
    return table.matrix(values.astype(np.int32), 0)


def _lookup(table: CandidateTable, values: Sequence[Mapping[str, int]]) -> Integers:
    """Return the value that each candidate has for its query, 0 where it has none; shape (candidates,).

    A pair of query and chunk is one number, and so a value is looked up in a sorted array for all candidates at once.
    """
    codes = _codes_of(table, {key for of_query in values for key in of_query})
    triples = [
        (row * len(table.chunks) + code, value)
        for row, of_query in enumerate(values)
        for key, value in of_query.items()
        for code in codes.get(key, ())
    ]
    if not triples:
        return np.zeros(len(table.codes), dtype=np.int64)
    keys, held = np.asarray(sorted(triples), dtype=np.int64).T
    rows = np.repeat(np.arange(len(table)), table.lengths)
    asked = rows * len(table.chunks) + table.codes
    at = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    return np.where(keys[at] == asked, held[at], 0)


def _codes_of(table: CandidateTable, chunk_ids: set[str]) -> dict[str, list[int]]:
    """Map chunk ids to their numbers; an id that was not found has none."""
    codes: dict[str, list[int]] = {}
    for code in _found_codes(table):
        chunk_id = table.chunks.chunk_id(code)
        if chunk_id in chunk_ids:
            codes.setdefault(chunk_id, []).append(code)
    return codes


def _items_found(table: CandidateTable, relevance: Sequence[Relevance], selections: Selections) -> Small:
    """Count the evidence items that the first n places of each list hold: bits of an integer, joined place by place."""
    most = max((len(labels.items) for labels in relevance), default=0)
    counts = np.zeros((len(selections.members), selections.width), dtype=np.int32)
    for first in range(0, most, BITS):
        bits = [_bits(labels.items[first : first + BITS]) for labels in relevance]
        held = _at(table.matrix(_lookup(table, bits), 0), selections)
        counts[:, 1:] += np.bitwise_count(np.bitwise_or.accumulate(held, axis=1))
    return counts


def _bits(items: Sequence[frozenset[str]]) -> dict[str, int]:
    """Map chunk ids to the evidence items that they hold, a bit each."""
    held: dict[str, int] = {}
    for number, chunk_ids in enumerate(items):
        for chunk_id in chunk_ids:
            held[chunk_id] = held.get(chunk_id, 0) | 1 << number
    return held


def _tokens(table: CandidateTable, selections: Selections) -> Small:
    """Count the tokens of the chunk at each place, recorded ones or else counted."""
    codes = _at(table.matrix(table.codes, -1), selections, beyond=-1)
    counts = np.zeros(len(table.chunks) + 1, dtype=np.int32)  # code −1, beyond the end of a list, is the last
    for code in np.unique(codes[codes >= 0]).tolist():
        counts[code] = chunk_tokens(table.chunks[code])
    return counts[codes]


def _cosines(table: CandidateTable, selections: Selections) -> Floats:
    """Read the cosine of the chunk at each place, -1 beyond the end; NaN in lists of a retriever that has none."""
    cosines = _at(table.matrix(table.column("semantic"), -1.0), selections, beyond=-1)
    without = np.array([bool(each.no_cosine) or each.distance != "cosine" for each in table], dtype=np.bool_)
    cosines[without[selections.query]] = np.nan
    return cosines


def _judged(table: CandidateTable, relevance: Sequence[Relevance], selections: Selections) -> Small:
    """Read 1 where the chunk at a place is judged, else 0."""
    values = _lookup(table, [dict.fromkeys((*labels.grades, *labels.irrelevant), 1) for labels in relevance])
    return _at(table.matrix(values.astype(np.int32), 0), selections)


def _refused(observation: Observation) -> int:
    """Count the chunks judged not relevant to a query in scope, of which alone the metrics are that read it."""
    return len(observation.relevance.irrelevant) if observation.case.in_scope else 0


def _groups(table: CandidateTable, field: str) -> Integers:
    """Number each candidate's group within its query; a chunk without the field is alone."""
    return table.matrix(_group_numbers(table.chunks, field, _found_codes(table))[table.codes], 0)


def _group_numbers(chunks: Chunks, field: str, codes: Sequence[int]) -> Integers:
    numbers = np.zeros(len(chunks), dtype=np.int64)
    groups: dict[object, int] = {}
    for code in codes:
        value = chunks[code].value(field)
        key = ("chunk", chunks.chunk_id(code)) if value is None else ("group", value)
        numbers[code] = groups.setdefault(key, len(groups))
    return numbers


def _at(values: NDArray[Item], selections: Selections, beyond: int = 0) -> NDArray[Item]:
    """Return what holds of candidates by place in the lists."""
    if values.shape[1] == 0:
        return np.full(selections.members.shape, beyond, dtype=values.dtype)
    taken = values[selections.query[:, None], selections.members]
    return np.where(selections.members < 0, values.dtype.type(beyond), taken)

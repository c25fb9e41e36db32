"""Passes of golden queries through a retriever: candidates at full depth, timed calls, repeated queries."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from math import isnan
from typing import Any

from evals.cases.case import Case
from evals.collect.observations import Calls, Repetition
from evals.config.experiment import LatencyConfig
from retrievers.errors import RetrievalError
from retrievers.records import StageTimings
from retrievers.retriever.protocol import Retriever
from retrievers.search.candidates import Candidates, Hits, joined

Progress = Callable[[str, int, int], None]
# Largest change of a score by rounding: models on several threads give scores that differ by some 1e-7 between calls.
ROUNDING = 1e-6
# Number of calls before latency is measured.
WARMUP = 5
# Number of times that each query is asked again.
REPEATS = 2
# Most queries that are timed and repeated: 500 give a p99 of the calls, and 7 calls of each query may cost money.
MOST_QUERIES = 500
# Seconds that an interrupted run waits for running calls.
PATIENCE_S = 1.0


def collect(retriever: Retriever, cases: Sequence[Case], progress: Progress, chunks: Any = None) -> Candidates:
    """Find the candidates of every case, at full candidate depth, in the order of the cases.

    Args:
        retriever: The retriever.
        cases: Golden queries.
        progress: Called with the stage, the number of queries done, and the number of all.
        chunks: Chunks that another variant of a sweep has found, to share them.

    Raises:
        RetrievalError: A query is unusable, or embedding or search failed. The message names the case.
    """
    parts = [retriever.candidates([], chunks=chunks)]
    for start in range(0, len(cases), retriever.batch_size):
        batch = cases[start : start + retriever.batch_size]
        parts.append(_find(retriever, batch, parts[0].chunks))
        progress("retrieving", start + len(batch), len(cases))
    return joined(parts)


def asked_again(cases: Sequence[Case]) -> list[int]:
    """Return the places of the cases that are timed and repeated: all, or 500 at equal distances."""
    count = min(len(cases), MOST_QUERIES)
    return [len(cases) * number // count for number in range(count)]


def measure_latency(
    retriever: Retriever, cases: Sequence[Case], config: LatencyConfig, progress: Progress
) -> dict[int, Calls]:
    """Time single calls of `search`, as an application makes them, at each concurrency, after warm-up.

    Args:
        retriever: The retriever to measure.
        cases: Golden queries, at least one.
        config: Number of calls of every query, and the concurrencies.
        progress: Called with the stage, the number of calls done, and the number of all.

    Raises:
        RetrievalError: A call failed.
    """
    for number in range(WARMUP):
        _search(retriever, cases[number % len(cases)])
    calls = [*cases] * config.repeats
    return {level: _time(retriever, calls, level, progress) for level in config.concurrency}


def repeat(retriever: Retriever, cases: Sequence[Case], first: Iterable[Hits], progress: Progress) -> list[Repetition]:
    """Ask every case again without caches, and compare ids, their order and scores with those of the first time.

    Args:
        retriever: The retriever.
        cases: Golden queries.
        first: Their candidates of the first time, in the same order.
        progress: Called with the stage, the number of queries done, and the number of all.

    Raises:
        RetrievalError: A call failed.
    """
    repetitions, chunks = list[Repetition](), retriever.candidates([]).chunks
    for done, (case, before) in enumerate(zip(cases, first, strict=True), 1):
        for _ in range(REPEATS):
            [again] = _find(retriever, [case], chunks, use_cache=False)
            repetitions.append(Repetition(case.id, *_change(before, again)))
        progress("repeating", done, len(cases))
    return repetitions


def _change(before: Hits, after: Hits) -> tuple[bool, float | None]:
    """Return whether ids, their order or scores changed, and the largest change of a chunk's score.

    A change of scores by rounding does not count. The largest change is None if there are no scores.
    """
    is_moved = before.chunk_ids != after.chunk_ids
    first, other = (dict(zip(hits.chunk_ids, hits.column("score").tolist(), strict=True)) for hits in (before, after))
    if any(map(isnan, (*first.values(), *other.values()))):
        return is_moved, None
    changes = (abs(first.get(key, 0.0) - other.get(key, 0.0)) for key in first.keys() | other.keys())
    largest = max(changes, default=0.0)
    return is_moved or largest > ROUNDING, largest


def _find(retriever: Retriever, batch: Sequence[Case], chunks: Any, *, use_cache: bool = True) -> Candidates:
    """Return the candidates of some cases.

    Raises:
        RetrievalError: A search failed. The message names the cases.
    """
    try:
        return retriever.candidates([case.query for case in batch], use_cache=use_cache, chunks=chunks)
    except RetrievalError as error:
        cases = f"case {batch[0].id!r}" if len(batch) == 1 else f"cases {batch[0].id!r} to {batch[-1].id!r}"
        raise type(error)(f"{cases}: {error}") from error


def _time(retriever: Retriever, cases: Sequence[Case], level: int, progress: Progress) -> Calls:
    """Return the query and the timings of a call of each case, in their order, `level` of them at once."""
    stage, timings = "timing" if level == 1 else f"timing ×{level}", list[StageTimings]()
    pool = ThreadPoolExecutor(level)
    # A thread does not inherit the context, which says whether a run is patient with a provider.
    futures = [pool.submit(copy_context().run, _search, retriever, case) for case in cases]
    try:
        for future in futures:
            timings.append(future.result())
            progress(stage, len(timings), len(cases))
    finally:
        # An interrupted run makes no further call, and waits a moment for running ones.
        pool.shutdown(wait=False, cancel_futures=True)
        wait(futures, PATIENCE_S)
    return tuple(zip((case.id for case in cases), timings, strict=True))


def _search(retriever: Retriever, case: Case) -> StageTimings:
    """Search once without caches, and return the timings.

    Raises:
        RetrievalError: The search failed.
    """
    session = retriever.search(case.query, use_cache=False)
    if session.status != "success":
        raise RetrievalError(f"query {session.query!r}: {session.error}")
    return session.timings

"""Golden queries × retriever: candidates once at full depth, then the latency and determinism passes."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from math import isnan

import numpy as np

from evals.cases.case import Case
from evals.collect.observations import DeterminismPass, LatencyPass
from retrievers.errors import RetrievalError
from retrievers.records import RetrievalSession, RetrievedChunk
from retrievers.retriever.protocol import Retriever
from retrievers.search.candidates import Candidates, CandidateTable, Chunks, TableBuilder

Progress = Callable[[str, int, int], None]
Ranked = tuple[tuple[str, float | None], ...]
# Models that compute on several threads give scores that differ by some 1e-7 between calls.
ROUNDING = 1e-6
# Seconds that an interrupted run waits for calls under way.
PATIENCE_S = 1.0


def collect(
    retriever: Retriever, cases: Sequence[Case], progress: Progress, like: CandidateTable | None = None
) -> CandidateTable:
    """Find the candidates of every case, at full candidate depth, in the order of the cases.

    Args:
        retriever: The retriever.
        cases: Golden queries.
        progress: Called with the stage, the number of queries done, and that of all.
        like: What another variant of a sweep found for the same cases; its chunks, and equal vectors, are shared.

    Raises:
        RetrievalError: A query is unusable, or embedding or search failed; the case is named.
    """
    chunks = like.chunks if like else retriever.chunk_table()
    builder = TableBuilder(chunks)
    for start in range(0, len(cases), retriever.batch_size):
        batch = cases[start : start + retriever.batch_size]
        try:
            candidates = retriever.candidates([case.query for case in batch], chunks=chunks)
            builder.extend(_with_vectors_of(like, candidates, start) if like else candidates)
        except RetrievalError as error:
            named = f"case {batch[0].id!r}" if len(batch) == 1 else f"cases {batch[0].id!r} to {batch[-1].id!r}"
            raise type(error)(f"{named}: {error}") from error
        progress("retrieving", len(builder), len(cases))
    return builder.table()


def _with_vectors_of(like: CandidateTable, found: CandidateTable, start: int) -> CandidateTable:
    """Return candidates whose queries hold the vectors of another table, from a row on, where they are the same."""
    vectors = list(found.vectors)
    for place, (vector, known) in enumerate(zip(vectors, like.vectors[start:], strict=False)):
        if vector is not None and known is not None and np.array_equal(vector, known):
            vectors[place] = known
    return replace(found, vectors=vectors)


def measure_latency(
    retriever: Retriever,
    cases: Sequence[Case],
    *,
    warmup: int,
    repeats: int,
    concurrency: Sequence[int],
    progress: Progress,
) -> tuple[LatencyPass, ...]:
    """Time single calls of `search`, as an application makes them, at each concurrency, after warm-up.

    Args:
        retriever: The retriever to measure.
        cases: Whose queries are called.
        warmup: Calls before the measurement.
        repeats: Number of calls of every query at each concurrency.
        concurrency: Numbers of threads that call at once; results must equal those of the serial pass.
        progress: Called with the stage, the number of calls done, and that of all.

    Raises:
        RetrievalError: A call failed.
    """
    for number in range(warmup):
        _checked(retriever.search(cases[number % len(cases)].query, use_cache=False))
    calls = [case for _ in range(repeats) for case in cases]
    serial: dict[str, Ranked] = {}
    passes = []
    for level in concurrency:
        sessions = _call(retriever, calls, level, progress)
        results = [(case.id, ranked(session.chunks)) for case, session in zip(calls, sessions, strict=True)]
        serial = serial or dict(results)
        passes.append(
            LatencyPass(
                concurrency=level,
                query_ids=tuple(case.id for case in calls),
                timings=tuple(session.timings for session in sessions),
                differing=tuple(dict.fromkeys(case_id for case_id, result in results if result != serial[case_id])),
            )
        )
    return tuple(passes)


def repeat(
    retriever: Retriever,
    cases: Sequence[Case],
    first: CandidateTable,
    *,
    repeats: int,
    progress: Progress,
) -> DeterminismPass:
    """Ask every query again, caches bypassed, and compare ordered ids and scores exactly with the first time.

    Args:
        retriever: The retriever.
        cases: Golden queries.
        first: Their candidates, in their order.
        repeats: Number of times that each query is asked again.
        progress: Called with the stage, the number of queries done, and that of all.

    Raises:
        RetrievalError: A call failed.
    """
    calls: list[tuple[str, bool, float | None]] = []
    chunks = retriever.chunk_table()
    for done, (case, before) in enumerate(zip(cases, first, strict=True), 1):
        for _ in range(repeats):
            pair = ranked(before), ranked(_again(retriever, case, chunks))
            calls.append((case.id, not _same(*pair), _largest_change(*pair)))
        progress("repeating", done, len(cases))
    query_ids, changed, deltas = zip(*calls, strict=True)
    return DeterminismPass(query_ids=query_ids, changed=changed, score_deltas=deltas)


def ranked(chunks: Sequence[RetrievedChunk]) -> Ranked:
    """Return chunk ids with scores, in rank order."""
    if isinstance(chunks, Candidates):
        scores = (None if isnan(score) else score for score in chunks.column("score").tolist())
        return tuple(zip(chunks.chunk_ids, scores, strict=True))
    return tuple((hit.chunk.chunk_id, hit.score) for hit in chunks)


def _same(one: Sequence[tuple[object, float | None]], other: Sequence[tuple[object, float | None]]) -> bool:
    """Return True for the same names in the same order, with scores that differ by rounding at most."""
    if [name for name, _ in one] != [name for name, _ in other]:
        return False
    pairs = [(a, b) for (_, a), (_, b) in zip(one, other, strict=True) if a != b]
    return all(a is not None and b is not None and abs(a - b) <= ROUNDING for a, b in pairs)


def _again(retriever: Retriever, case: Case, chunks: Chunks) -> Candidates:
    try:
        return retriever.candidates([case.query], use_cache=False, chunks=chunks)[0]
    except RetrievalError as error:
        raise type(error)(f"case {case.id!r}: {error}") from error


def _largest_change(before: Ranked, after: Ranked) -> float | None:
    """Return the largest change of a chunk's score, None where there are no scores."""
    if any(score is None for _, score in (*before, *after)):
        return None
    first, other = dict(before), dict(after)
    return max((abs((first.get(i) or 0.0) - (other.get(i) or 0.0)) for i in first.keys() | other.keys()), default=0.0)


def _call(retriever: Retriever, calls: Sequence[Case], level: int, progress: Progress) -> list[RetrievalSession]:
    stage = "timing" if level == 1 else f"timing ×{level}"
    sessions: list[RetrievalSession] = []

    search = partial(retriever.search, use_cache=False)
    pool = ThreadPoolExecutor(level)
    # A thread has no context of its own: without it a run would not be patient there.
    futures = [pool.submit(copy_context().run, search, case.query) for case in calls]
    try:
        for future in futures:
            sessions.append(_checked(future.result()))
            progress(stage, len(sessions), len(calls))
    finally:
        # An interrupted run makes no further call, and waits a moment for those under way.
        pool.shutdown(wait=False, cancel_futures=True)
        wait(futures, PATIENCE_S)
    return sessions


def _checked(session: RetrievalSession) -> RetrievalSession:
    if session.status != "success":
        raise RetrievalError(f"query {session.query!r}: {session.error}")
    return session

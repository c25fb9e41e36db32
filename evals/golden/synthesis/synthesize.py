"""Writing all queries, concurrently, through the judge's engine: stored answers are free, each is bought once."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from evals.golden.synthesis.case_writing import Attempt, Writer
from evals.golden.synthesis.objections import Objection
from evals.golden.synthesis.passages import Passages
from evals.golden.synthesis.sampling import Assignment
from evals.judge.judge import Judge

# Assignments of all draws, each the number of queries by type.
Draw = Callable[[Sequence[Mapping[str, int]]], Sequence[Assignment]]


def synthesize(
    judge: Judge,
    passages: Passages,
    draw: Draw,
    counts: Mapping[str, int],
    *,
    language: str,
    near: float,
    redraws: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Attempt]:
    """Write and check queries, and draw further passages in place of those dropped.

    The draws follow from the answers, so that a second synthesis finds them all in the store.

    Args:
        judge: The chat model that writes and judges, with its store and budget.
        passages: The collection.
        draw: Draws passages.
        counts: Number of queries wanted, by type.
        language: Language to write in; that of the passages where it is empty.
        near: Cosine similarity of two queries from which on one repeats the other.
        redraws: Most draws in place of dropped queries; none for a type of which no query was kept.
        progress: Called with the number of queries done, and that of all drawn so far.

    Returns:
        An attempt for each assignment, in their order.

    Raises:
        JudgeError: The model refused the first request for a reason that all others would share.
    """
    done: dict[str, Attempt] = {}
    engine = judge.engine

    async def write(writer: Writer, assignments: Sequence[Assignment]) -> None:
        waiting = (assignment for assignment in assignments if assignment.id not in done)

        async def work() -> None:
            for assignment in waiting:
                attempt = await writer.write(assignment)
                if engine.fatal:
                    return
                done[assignment.id] = attempt
                progress(len(done), len(assignments))

        await asyncio.gather(*(work() for _ in range(2 * judge.config.max_concurrency)))
        if engine.fatal:
            raise engine.fatal
        checked = await without_repeats(list(done.values()), writer, near)
        done.update({attempt.assignment.id: attempt for attempt in checked})

    async def run() -> list[Attempt]:
        writer = Writer(asker=engine, passages=passages, language=language)
        draws = [counts]
        while True:
            assignments = draw(draws)
            await write(writer, assignments)
            lacking = _lacking(list(done.values()), counts)
            if not lacking or len(draws) > redraws:
                return [done[assignment.id] for assignment in assignments]
            draws.append(lacking)

    return judge.run(run())


def _lacking(attempts: Sequence[Attempt], counts: Mapping[str, int]) -> dict[str, int]:
    """Return the number of queries to draw again, by type; none where the model was not asked about all."""
    if any(attempt.unasked for attempt in attempts):
        return {}
    written = Counter(attempt.assignment.type_name for attempt in attempts if attempt.kept)
    return {name: count - written[name] for name, count in counts.items() if 0 < written[name] < count}


async def without_repeats(attempts: Sequence[Attempt], writer: Writer, near: float) -> list[Attempt]:
    """Compare each kept query with all kept before it.

    Args:
        attempts: In the order of their ids.
        writer: Mends a repeated query that was not mended before.
        near: Cosine similarity of two queries from which on one repeats the other.
    """
    if not any(attempt.kept for attempt in attempts):
        return list(attempts)
    vectors: list[NDArray[np.float64]] = []
    queries: list[str] = []
    checked: list[Attempt] = []
    embedded = iter(writer.passages.embed([_query(attempt) for attempt in attempts if attempt.kept]))
    for attempt in attempts:
        if not attempt.kept:
            checked.append(attempt)
            continue
        current, vector = attempt, next(embedded)
        repeated = _repeated(vector, vectors, queries, near)
        if repeated:
            current = replace(attempt, objection=repeated)
            if not attempt.mended:
                current = await writer.mend(current)
            if current.kept:
                vector = writer.passages.embed([_query(current)])[0]
                current = replace(current, objection=_repeated(vector, vectors, queries, near))
        if current.kept:
            vectors.append(vector)
            queries.append(_query(current))
        checked.append(current)
    return checked


def _query(attempt: Attempt) -> str:
    return attempt.draft.query if attempt.draft else ""


def _repeated(
    vector: NDArray[np.float64], vectors: Sequence[NDArray[np.float64]], queries: Sequence[str], near: float
) -> Objection | None:
    if not vectors:
        return None
    cosines = np.asarray(vectors) @ vector
    nearest = int(np.argmax(cosines))
    return Objection("duplicate", f"{queries[nearest]!r}") if cosines[nearest] >= near else None

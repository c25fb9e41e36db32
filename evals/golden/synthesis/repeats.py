"""Near-duplicates among written queries: the later one is mended once, or dropped."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from evals.golden.synthesis.case_writing import Attempt, Writer
from evals.golden.synthesis.objections import Objection


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

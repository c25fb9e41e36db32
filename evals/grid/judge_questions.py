"""Questions to the judge of which a part can be drawn: one for each chunk, or one for each distinct result. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from evals.judge.tasks import JUDGED, PRECISION
from evals.judge.verdicts import Selected
from evals.stats.corrected_mean import Bools
from evals.stats.drawn_verdicts import Questions
from evals.stats.verdict_influence import likely_worlds, precision_influence

# Likely worlds over which the influence of a verdict is averaged, and the most numbers that these take: 80 MB.
WORLDS = 2
LARGEST = 20_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class AskedQuestions:
    """Questions about what some cells return of each query.

    Attributes:
        keys: [N][questions], the ids of the chunks that a question is about.
        questions: Who depends on them, and how much.
    """

    keys: tuple[tuple[Selected, ...], ...]
    questions: Questions


def can_be_drawn(metrics: Collection[str]) -> bool:
    """Return True if a part of the questions of a run can be drawn within a query.

    They can where a run has a single judged metric, context precision or one that is asked about whole results.
    """
    judged = [name for name in metrics if name in JUDGED]
    return len(judged) == 1 and (judged[0] == PRECISION or not JUDGED[judged[0]].by_chunk)


def questions_of(
    metric: str, returned: Sequence[Sequence[Selected]], labels: Sequence[Collection[str]], seed: int
) -> AskedQuestions | None:
    """Return the questions of a metric; None where their influence would take too much memory.

    Args:
        metric: The only judged metric.
        returned: [N][cells], the ids of what each cell returns, in rank order.
        labels: [N], ids of the chunks that are relevant by the labels.
        seed: Seed of the likely worlds.
    """
    by_chunk = JUDGED[metric].by_chunk
    keys = [_keys(cells, by_chunk) for cells in returned]
    shape = len(returned), len(returned[0]), max(1, *map(len, keys))
    if np.prod(shape) * (WORLDS if by_chunk else 1) > LARGEST:
        return None
    longest = max(1, *(len(chunks) for cells in returned for chunks in cells)) if by_chunk else 1
    # Places of the questions that a cell depends on, in rank order.
    ranked = np.full((*shape[:2], longest), -1, dtype=np.int64)
    useful = np.zeros(shape[::2], dtype=np.bool_)
    for row, (cells, own) in enumerate(zip(returned, keys, strict=True)):
        place = {key: index for index, key in enumerate(own)}
        useful[row, : len(own)] = [key[0] in labels[row] for key in own]
        for column, chunks in enumerate(cells):
            parts = [(chunk,) for chunk in chunks] if by_chunk else [chunks] if chunks else []
            ranked[row, column, : len(parts)] = [place[part] for part in parts]
    asked = _asked(ranked, shape[2])
    influence = (
        np.stack([precision_influence(ranked, verdicts) for verdicts in likely_worlds(useful, WORLDS, seed)])
        if by_chunk
        else asked[None].astype(np.float32)
    )
    return AskedQuestions(keys=tuple(keys), questions=Questions(asked=asked, influence=influence))


def _keys(cells: Sequence[Selected], by_chunk: bool) -> tuple[Selected, ...]:
    """Return the distinct questions about one query."""
    if by_chunk:
        return tuple((chunk,) for chunk in sorted({chunk for chunks in cells for chunk in chunks}))
    return tuple(sorted({chunks for chunks in cells if chunks}))


def _asked(ranked: np.ndarray[tuple[int, ...], np.dtype[np.int64]], questions: int) -> Bools:
    # A last column takes what lies beyond the end of a list.
    asked = np.zeros((*ranked.shape[:2], questions + 1), dtype=np.bool_)
    np.put_along_axis(asked, ranked, True, axis=2)
    return asked[:, :, :-1]

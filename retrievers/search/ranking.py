"""The total order of candidates, known by point id: score descending, then chunk id, then point id. Pure.

A chunk's id is part of its payload, which is not read for every candidate. It is needed only where scores are equal, so
the order is made in two steps: which points does it hang on (`undecided`), and, with their chunk ids, the order itself.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from retrievers.records import ScoreScale

Scores = Mapping[str, float]
"""Point id to score."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranking:
    """What a search found for one query, before it is put into order.

    Attributes:
        scale: The scale of `scores`.
        scores: The final score of every candidate, those included that tie with the last.
        components: What candidates also carry, by name; `semantic`, the cosine, is there for all of them.
        depth: How many candidates there are at most.
    """

    scale: ScoreScale
    scores: Scores
    components: Mapping[str, Scores]
    depth: int


def undecided(scores: Scores, depth: int, *, every_place: bool) -> list[str]:
    """The points for which a chunk id decides who is among the best `depth` or, for `every_place`, where.

    Args:
        scores: Of all candidates.
        depth: How many of them count.
        every_place: Whether their places matter, and not only which they are.
    """
    tied = {score for score, count in Counter(scores.values()).items() if count > 1}
    if not tied:
        return []
    best = sorted(scores.values(), reverse=True)
    if every_place:
        tied = {score for score in tied if score >= best[min(depth, len(best)) - 1]}
    else:
        tied &= {best[depth]} if len(best) > depth and best[depth - 1] == best[depth] else set()
    return [point for point, score in scores.items() if score in tied]


def in_order(scores: Scores, depth: int, chunk_ids: Mapping[str, str]) -> list[str]:
    """The best `depth` points in the total order.

    A collection made elsewhere may give several points one chunk id; the point id then decides.

    Args:
        scores: Of all candidates.
        depth: How many to keep.
        chunk_ids: The chunk id of every point that was `undecided`.
    """
    if not chunk_ids:
        return sorted(scores, key=scores.__getitem__, reverse=True)[:depth]
    return sorted(scores, key=lambda point: (-scores[point], chunk_ids.get(point, ""), point))[:depth]

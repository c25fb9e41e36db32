"""What an annotator has done, and what comes next. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from evals.golden.labelling.labels import Label, Standing
from evals.golden.labelling.pool import PooledCase
from retrievers.records import Chunk

# Pauses beyond this are no work.
LONGEST_S = 300.0


@dataclass(frozen=True, kw_only=True)
class WorkState:
    """State of an annotator's work.

    Attributes:
        done: Number of labels that count, skipped ones among them.
        skipped: Number of skipped ones.
        total: Number of pairs of query and chunk in the pool.
        seconds_left: Expected time of the rest, by the median time of a label; None before the third.
        next: The next query and chunk, None at the end.
        place: Place of that chunk among those of its query, from 1.
    """

    done: int
    skipped: int
    total: int
    seconds_left: float | None
    next: tuple[PooledCase, Chunk] | None
    place: int


def work_state(pooled: Sequence[PooledCase], labels: Sequence[Label], kept: Standing, annotator: str) -> WorkState:
    """Return the state of an annotator's work.

    Args:
        pooled: The pool, in the order of the work.
        labels: All lines.
        kept: The labels that count.
        annotator: Name.
    """
    pairs = [(entry, chunk, rank) for entry in pooled for rank, chunk in enumerate(entry.chunks, 1)]
    mine = [kept.get((annotator, entry.case.id, chunk.chunk_id)) for entry, chunk, _ in pairs]
    done = sum(label is not None for label in mine)
    following = next((pair for pair, label in zip(pairs, mine, strict=True) if label is None), None)
    pace = _pace([label for label in labels if label.annotator == annotator])
    return WorkState(
        done=done,
        skipped=sum(label is not None and label.grade is None for label in mine),
        total=len(pairs),
        seconds_left=None if pace is None else pace * (len(pairs) - done),
        next=None if following is None else following[:2],
        place=0 if following is None else following[2],
    )


def last_label(kept: Standing, annotator: str) -> Label | None:
    """Return the label that an annotator gave last and that counts, None without any."""
    return next((label for key, label in reversed(list(kept.items())) if key[0] == annotator), None)


def _pace(labels: Sequence[Label]) -> float | None:
    """Return the median time between two labels in seconds, pauses left out; None for fewer than three labels."""
    gaps = [(after.at - before.at).total_seconds() for before, after in pairwise(labels)]
    gaps = [gap for gap in gaps if 0 <= gap <= LONGEST_S]
    return median(gaps) if len(gaps) > 1 else None

"""What an evaluation works with: retrievers, source pages, judge, progress."""

from collections.abc import Sequence
from dataclasses import dataclass

from evals.collect.passes import Progress
from evals.golden.source_pages import Sources
from evals.judge.judge import Judge
from retrievers.retriever.protocol import Retriever


@dataclass(frozen=True, kw_only=True)
class Collaborators:
    """What an evaluation works with, open.

    Attributes:
        retrievers: What is evaluated: one, or for a sweep one for each of its variants, in their order.
        progress: Told how far the work is.
        sources: The source pages, None when not known.
        judge: Who grades the metrics that need a judge; None without one.
    """

    retrievers: Sequence[Retriever]
    progress: Progress
    sources: Sources | None = None
    judge: Judge | None = None

    @property
    def retriever(self) -> Retriever:
        """The only retriever of a single run, the first of a sweep."""
        return self.retrievers[0]

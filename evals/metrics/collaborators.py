"""The open resources of an evaluation: retrievers, source pages, judge, progress."""

from collections.abc import Sequence
from dataclasses import dataclass

from evals.cases.pages import SourcePages
from evals.collect.passes import Progress
from evals.judge.judge import Judge
from retrievers.retriever.protocol import Retriever


@dataclass(frozen=True, kw_only=True)
class Collaborators:
    """Open resources of an evaluation.

    Attributes:
        retrievers: Retrievers to evaluate: one, or for a sweep one for each of its variants, in their order; none where
            what they found is in a file.
        progress: Called with the stage, the amount done and the total.
        sources: The source pages, None when not known.
        judge: Judge of the metrics that need one; None without one.
    """

    retrievers: Sequence[Retriever]
    progress: Progress
    sources: SourcePages | None = None
    judge: Judge | None = None

    @property
    def retriever(self) -> Retriever:
        """The only retriever of a single run, the first of a sweep."""
        return self.retrievers[0]

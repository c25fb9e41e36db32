"""Writing one query: a draft, its checks, and one repair."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from evals.collect.observations import Unscored
from evals.golden.synthesis.objections import Objection, first_objection
from evals.golden.synthesis.passages import Passages
from evals.golden.synthesis.prompts import (
    Answering,
    Clarity,
    DraftCase,
    Question,
    Review,
    clarity_prompt,
    repair_prompt,
    review_prompt,
    search_prompt,
    write_prompt,
)
from evals.golden.synthesis.sampling import Assignment
from evals.judge.asking import Asker, UnansweredError
from retrievers.records import Chunk

# Chunks nearest to an out-of-scope query that must not answer it, and the number of them in one question.
NEAREST, AT_ONCE = 20, 5


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """What became of an assignment.

    Attributes:
        draft: The query as it was last written; None where there is none.
        objection: Why it is not kept; None where it is.
        mended: What the first draft was not kept for; None where there was no repair.
        unasked: Reason why the model was not asked, as a spent budget; empty where it was.
    """

    assignment: Assignment
    draft: Question | None = None
    objection: Objection | None = None
    mended: Objection | None = None
    unasked: str = ""

    @property
    def kept(self) -> bool:
        """True if the query passed every check."""
        return self.draft is not None and self.objection is None and not self.unasked


@dataclass(frozen=True, kw_only=True)
class Writer:
    """Writes queries: a chat model, the passages, and the language."""

    asker: Asker
    passages: Passages
    language: str

    async def write(self, assignment: Assignment) -> Attempt:
        """Write a query, check it, and have it mended once where it fails."""
        if len(assignment.passages) < assignment.type.passages:
            return Attempt(assignment=assignment, objection=Objection("no passage", ""))
        attempt = await self._attempt(assignment, write_prompt(assignment, self.language))
        return await self.mend(attempt) if attempt.draft and attempt.objection else attempt

    async def mend(self, attempt: Attempt) -> Attempt:
        """Write a query again, in view of the objection to it."""
        if attempt.draft is None or attempt.objection is None:
            return attempt
        prompt = write_prompt(attempt.assignment, self.language)
        prompt = repair_prompt(prompt, attempt.draft, str(attempt.objection))
        return replace(await self._attempt(attempt.assignment, prompt), mended=attempt.objection)

    async def _attempt(self, assignment: Assignment, prompt: str) -> Attempt:
        attempt = Attempt(assignment=assignment)
        try:
            draft = await self.asker.ask(prompt, DraftCase if assignment.type.in_scope else Question)
        except UnansweredError as error:
            return _unanswered(attempt, error, "no answer")
        attempt = replace(attempt, draft=draft)
        answered = draft if isinstance(draft, DraftCase) else None
        objection = first_objection(
            draft.query, answered, assignment.passages, assignment.type.passages, self.language
        )  # fmt: skip
        try:
            return replace(attempt, objection=objection or await self._judged(draft))
        except UnansweredError as error:
            return _unanswered(attempt, error, "unchecked")

    async def _judged(self, draft: Question) -> Objection | None:
        """Return the judge's objection to a query."""
        if not isinstance(draft, DraftCase):
            clarity = await self.asker.ask(clarity_prompt(draft.query), Clarity)
            if not clarity.standalone:
                return Objection("not standalone", clarity.reason.strip())
            # Embedding and search are no coroutines.
            chunks = await asyncio.to_thread(self.passages.nearest, draft.query, NEAREST)
            return await self._answered(draft.query, chunks)
        review = await self.asker.ask(review_prompt(draft), Review)
        if not review.follows:
            return Objection("unsupported", review.reason.strip())
        return None if review.standalone else Objection("not standalone", review.reason.strip())

    async def _answered(self, query: str, chunks: Sequence[Chunk]) -> Objection | None:
        """Look for a chunk that answers a query, the nearest first."""
        for start in range(0, len(chunks), AT_ONCE):
            asked = chunks[start : start + AT_ONCE]
            said = await self.asker.ask(search_prompt(query, asked), Answering)
            numbers = [number for number in said.answering if 1 <= number <= len(asked)]
            if numbers:
                return Objection("answered", asked[numbers[0] - 1].source)
        return None


def _unanswered(attempt: Attempt, error: UnansweredError, kind: str) -> Attempt:
    if isinstance(error.outcome, Unscored):
        return replace(attempt, unasked=error.outcome.reason)
    return replace(attempt, objection=Objection(kind, f"{error.outcome.type}: {error.outcome.message}"))

"""`--plan` of a synthesis: its calls, tokens and price, without a call."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeVar

from pydantic import BaseModel

from evals.collect.observations import Unscored
from evals.golden.synthesis.case_writing import AT_ONCE, NEAREST, Writer
from evals.golden.synthesis.passages import Passages
from evals.golden.synthesis.prompts import (
    Answering,
    Clarity,
    DraftCase,
    Question,
    Review,
    clarity_prompt,
    review_prompt,
    search_prompt,
)
from evals.golden.synthesis.sampling import Assignment
from evals.judge.asking import USUAL_ANSWER, UnansweredError
from evals.judge.judge import Judge
from evals.judge.plan import JudgePlan, Share, priced
from retrievers.embedding.tokens import count_tokens

Schema = TypeVar("Schema", bound=BaseModel)
# What each kind of answer is asked for, as the plan calls it.
STAGES: Mapping[type[BaseModel], str] = {
    DraftCase: "write",
    Question: "write out of scope",
    Review: "check",
    Clarity: "check out of scope",
    Answering: "check out of scope",
}
REPAIRS = "repairs, at most"
# Words of a usual query, answer and quote, in place of those that are not written yet.
USUAL = "word " * 20


def count_calls(judge: Judge, passages: Passages, assignments: Sequence[Assignment], language: str) -> JudgePlan:
    """Count the calls that writing the queries takes, at most. No call is made.

    What the store holds is read, so that the plan of a synthesis that was interrupted counts the rest. What depends on
    an answer that is not there yet is counted as if it were of usual length, and with one repair.
    """
    counter = _Counter(judge)
    writer = Writer(asker=counter, passages=passages, language=language)

    async def count() -> None:
        for assignment in assignments:
            attempt = await writer.write(assignment)
            if attempt.unasked:
                counter.add_rest(assignment, written=attempt.draft is not None)

    asyncio.run(count())
    return priced(judge, counter.shares, measured=counter.measured)


class _Counter:
    """Answers from the store alone, and counts what it lacks."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._store = judge.store if not judge.config.refresh else None
        self._counts = {stage: Counter[str]() for stage in dict.fromkeys((*STAGES.values(), REPAIRS))}
        self._means = {kind: self._mean(kind) for kind in STAGES}

    @property
    def measured(self) -> bool:
        """True if the length of every kind of answer is known."""
        return all(self._means.values())

    @property
    def shares(self) -> tuple[Share, ...]:
        """The share of each stage."""
        fields = ("questions", "cached", "tokens_in", "tokens_out")
        return tuple(
            Share(metric=stage, **{field: counts[field] for field in fields}) for stage, counts in self._counts.items()
        )

    async def ask(self, prompt: str, schema: type[Schema]) -> Schema:
        """Return the stored answer.

        Raises:
            UnansweredError: There is none; the prompt is counted.
        """
        stored = self._store.get(self._judge.chat.key(prompt, schema), schema) if self._store else None
        if stored:
            self._counts[STAGES[schema]] += Counter(questions=1, cached=1)
            return schema.model_validate_json(stored)
        self._add(STAGES[schema], prompt, schema)
        raise UnansweredError(Unscored(reason="not asked", missing=True))

    def add_rest(self, assignment: Assignment, *, written: bool) -> None:
        """Count what follows on a question that was not asked: its checks, and a repair with checks again."""
        passages, inside = assignment.passages, assignment.type.in_scope
        schema: type[BaseModel] = Review if inside else Answering
        if inside:
            checks = 1
            prompt = review_prompt(DraftCase(query=USUAL, reference_answer=USUAL, quotes=[USUAL] * len(passages)))
        else:
            checks = -(-NEAREST // AT_ONCE)
            # All passages are of about one size.
            prompt = search_prompt(USUAL, passages[:1] * AT_ONCE)
        # Of a written query the question that was not asked is counted already.
        asked = [(clarity_prompt(USUAL), Clarity)] * (not inside) + [(prompt, schema)] * checks
        for text, kind in asked[written:]:
            self._add(STAGES[kind], text, kind)
        shown = USUAL + "\n".join(chunk.text for chunk in passages)
        self._add(REPAIRS, f"{prompt}{shown}", DraftCase if inside else Question)
        for text, kind in asked:
            self._add(REPAIRS, text, kind)

    def _add(self, stage: str, prompt: str, schema: type[BaseModel]) -> None:
        mean = self._means[schema]
        tokens_out = USUAL_ANSWER if mean is None else round(mean)
        self._counts[stage] += Counter(questions=1, tokens_in=count_tokens(prompt), tokens_out=tokens_out)

    def _mean(self, schema: type[BaseModel]) -> float | None:
        store = self._judge.store
        return store.mean_tokens_out(self._judge.model, schema.__name__) if store else None

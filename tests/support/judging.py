"""A judge that knows: answers ragas' prompts from golden labels, so that the right score is known exactly.

It can be biased: the same question always gets the same wrong answer. Nothing of ragas is imported to read its prompts:
what counts is what a prompt says, and one that says something else is not read.
"""

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evals.cases.case import Case
from evals.cases.relevance import resolve
from retrievers.records import Chunk

SCHEMA = "complies with the following schema as specified in JSON Schema:"
INPUT = "Now perform the same with the following input\ninput:"
END = re.compile(r"(?<=[.!?])\s+")
HIGHEST_RATING = 2
PRECISION, RECALL = "ContextPrecisionOutput", "ContextRecallOutput"
RELEVANCE, ENTITIES = "ContextRelevanceOutput", "EntitiesList"
FIELDS: Mapping[str, Collection[str]] = {
    PRECISION: {"question", "context", "answer"},
    RECALL: {"question", "context", "answer"},
    RELEVANCE: {"user_input", "context"},
    ENTITIES: {"text"},
}
"""What each asks about, by the title of the schema that it wants its answer in."""
FIRST_JUDGE = "You are a world class expert"


@dataclass(frozen=True, kw_only=True)
class Question:
    """A prompt as a model reads it; `judge` is one of the two of context relevance."""

    schema: str
    context: str
    query: str
    reference: str
    judge: int


def read_prompt(text: str) -> Question | None:
    """Return the question of a prompt within an adapter's text; None if it is not from ragas."""
    schema, given = str(_json_after(text, SCHEMA).get("title")), _json_after(text, INPUT)
    if schema not in FIELDS or given.keys() != FIELDS[schema]:
        return None
    return Question(
        schema=schema,
        context=given.get("context") or given.get("text", ""),
        query=given.get("question") or given.get("user_input", ""),
        reference=given.get("answer", ""),
        judge=1 if FIRST_JUDGE in text.partition(SCHEMA)[0] else 2,
    )


def _json_after(text: str, mark: str) -> Mapping[str, Any]:
    _, found, rest = text.partition(mark)
    try:
        value, _ = json.JSONDecoder().raw_decode(rest.lstrip()) if found else ({}, 0)
    except json.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


@dataclass(frozen=True, kw_only=True)
class Labels:
    """The texts of a query's relevant chunks, and the statements of its reference, each with texts that support it."""

    useful: Collection[str] = ()
    claims: Mapping[str, Collection[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Oracle:
    """Answers from labels by query, but for a share of what is useless, which it takes for useful, and the other way.

    Where it errs, is drawn from a hash of what is asked.
    """

    labels: Mapping[str, Labels] = field(default_factory=dict)
    entities: Collection[str] = ()
    false_useful: float = 0.0
    false_useless: float = 0.0
    seed: int = 0

    def answer(self, prompt: str) -> str | None:
        question = read_prompt(prompt)
        return None if question is None else json.dumps(self._reply(question))

    def _reply(self, question: Question) -> dict[str, Any]:
        query, context = question.query, question.context
        labels = self.labels.get(query, Labels())
        if question.schema == PRECISION:
            verdict = self.verdict(query, context)
            reason = f"The context is {'useful' if verdict else 'of no use'} for {query!r}."
            return {"reason": reason, "verdict": verdict}
        if question.schema == RECALL:
            return {"classifications": [self._classified(question, one) for one in _claims(question, labels)]}
        if question.schema == RELEVANCE:
            return {"rating": self._rating(question, labels)}
        named = sorted((one for one in self.entities if one in context), key=context.index)
        return {"entities": [one for one in named if self._erring(True, "entity", context, one)]}

    def verdict(self, query: str, text: str) -> int:
        return self._erring(text in self.labels.get(query, Labels()).useful, "useful", query, text)

    def attributed(self, query: str, context: str, statement: str) -> int:
        held = any(text in context for text in self.labels[query].claims[statement])
        return self._erring(held, "attributed", query, context, statement)

    def _classified(self, question: Question, statement: str) -> dict[str, Any]:
        attributed = self.attributed(question.query, question.context, statement)
        reason = f"The context {'states' if attributed else 'does not state'} it."
        return {"statement": statement, "reason": reason, "attributed": attributed}

    def _rating(self, question: Question, labels: Labels) -> int:
        """Return 2 if the context holds all useful texts of the query, 1 if some, 0 if none.

        A flaw takes 0 for 2, and anything else for 0; the two judges err on different questions.
        """
        held = sum(text in question.context for text in labels.useful)
        true = 0 if held == 0 else 1 if held < len(labels.useful) else HIGHEST_RATING
        erring = self._erring(true > 0, "rating", question.query, question.context, str(question.judge))
        return true if erring == (true > 0) else HIGHEST_RATING * erring

    def _erring(self, true: bool, *asked: str) -> int:
        share = self.false_useless if true else self.false_useful
        return int(true != (drawn(self.seed, "bias", *asked) < share))


def _claims(question: Question, labels: Labels) -> list[str]:
    """Return the statements, in their order, without those that occur within another."""
    held = [one for one in labels.claims if one in question.reference]
    whole = [one for one in held if not any(one != other and one in other for other in held)]
    return sorted(whole, key=question.reference.index)


def drawn(seed: int, *words: str) -> float:
    digest = hashlib.sha256(json.dumps([seed, *words]).encode()).digest()
    return int.from_bytes(digest[:7]) / 2**56


def sentences(text: str) -> list[str]:
    return [part for part in END.split(text.strip()) if part]


def golden_labels(cases: Sequence[Case], chunks: Sequence[Chunk]) -> dict[str, Labels]:
    """Return labels by query: the first item of evidence supports the first sentence of the answer, and so on."""
    texts, relevance, made = {chunk.chunk_id: chunk.text for chunk in chunks}, resolve(cases, chunks, {}), {}
    for case in cases:
        items = [[texts[key] for key in item] for item in relevance[case.id].items] or [[]]
        said = enumerate(sentences(case.reference_answer or ""))
        claims = {one: items[place % len(items)] for place, one in said}
        made[case.query] = Labels(useful={texts[key] for key in relevance[case.id].grades}, claims=claims)
    return made

"""A judge that knows: answers ragas' prompts from golden labels, so that the right score is known exactly.

It can be biased: the same question always gets the same wrong answer. Nothing of ragas is imported to read its prompts:
what counts is what a prompt says, and one that says something else is not read.
"""

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from evals.cases.case import Case
from evals.cases.relevance import Relevance, resolve
from retrievers.records import Chunk

SCHEMA = "complies with the following schema as specified in JSON Schema:"
INPUT = "Now perform the same with the following input\ninput:"
END = re.compile(r"(?<=[.!?])\s+")
HIGHEST_RATING = 2


class Metric(Enum):
    """The question of a prompt, by the title of the schema that it wants its answer in."""

    PRECISION = "ContextPrecisionOutput"
    RECALL = "ContextRecallOutput"
    RELEVANCE = "ContextRelevanceOutput"
    ENTITIES = "EntitiesList"


@dataclass(frozen=True, kw_only=True)
class Question:
    """A prompt as a model reads it, with what its metric asks about; `judge` is one of the two of context relevance."""

    metric: Metric
    context: str
    query: str = ""
    reference: str = ""
    judge: int = 0


FIELDS: Mapping[Metric, Mapping[str, str]] = {
    Metric.PRECISION: {"question": "query", "context": "context", "answer": "reference"},
    Metric.RECALL: {"question": "query", "context": "context", "answer": "reference"},
    Metric.RELEVANCE: {"user_input": "query", "context": "context"},
    Metric.ENTITIES: {"text": "context"},
}
JUDGES = {1: "You are a world class expert", 2: "As a specially designed expert"}


def read_prompt(text: str) -> Question | None:
    """Return the question of a prompt within an adapter's text; None if it is not from ragas."""
    title, given = _json_after(text, SCHEMA).get("title"), _json_after(text, INPUT)
    metric = next((one for one in Metric if one.value == title), None)
    if metric is None or set(given) != set(FIELDS[metric]):
        return None
    instruction = text.partition(SCHEMA)[0] if metric is Metric.RELEVANCE else ""
    judge = next((number for number, opening in JUDGES.items() if opening in instruction), 0)
    return Question(metric=metric, judge=judge, **{FIELDS[metric][name]: value for name, value in given.items()})


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


@dataclass(frozen=True, kw_only=True)
class Flaws:
    """Errors of a judge: the share of what is useless that it takes for useful, and the other way."""

    false_useful: float = 0.0
    false_useless: float = 0.0
    seed: int = 0


NONE = Flaws()


class Oracle:
    """Answers from labels by query; where it errs, is drawn from a hash of what is asked."""

    def __init__(self, labels: Mapping[str, Labels], *, entities: Collection[str] = (), flaws: Flaws = NONE) -> None:
        self.labels = labels
        self.entities = tuple(entities)
        self.flaws = flaws

    def answer(self, prompt: str) -> str | None:
        question = read_prompt(prompt)
        return None if question is None else json.dumps(self._reply(question))

    def _reply(self, question: Question) -> dict[str, Any]:
        query, context = question.query, question.context
        match question.metric:
            case Metric.PRECISION:
                verdict = self.verdict(query, context)
                reason = f"The context is {'useful' if verdict else 'of no use'} for {query!r}."
                return {"reason": reason, "verdict": verdict}
            case Metric.RECALL:
                return {"classifications": [self._classified(question, claim) for claim in self._claims(question)]}
            case Metric.RELEVANCE:
                return {"rating": self._rating(query, context, question.judge)}
            case Metric.ENTITIES:
                named = sorted((one for one in self.entities if one in context), key=context.index)
                return {"entities": [one for one in named if self._erring(True, "entity", context, one)]}

    def verdict(self, query: str, text: str) -> int:
        return self._erring(text in self._of(query).useful, "useful", query, text)

    def attributed(self, query: str, context: str, statement: str) -> int:
        texts = self._of(query).claims.get(statement, ())
        return self._erring(any(text in context for text in texts), "attributed", query, context, statement)

    def _of(self, query: str) -> Labels:
        return self.labels.get(query, Labels())

    def _claims(self, question: Question) -> list[str]:
        """Return the statements, in their order, without those that occur within another."""
        held = [one for one in self._of(question.query).claims if one in question.reference]
        whole = [one for one in held if not any(one != other and one in other for other in held)]
        return sorted(whole, key=question.reference.index)

    def _classified(self, question: Question, statement: str) -> dict[str, Any]:
        attributed = self.attributed(question.query, question.context, statement)
        reason = f"The context {'states' if attributed else 'does not state'} it."
        return {"statement": statement, "reason": reason, "attributed": attributed}

    def _rating(self, query: str, context: str, judge: int) -> int:
        """Return 2 if the context holds all useful texts of the query, 1 if some, 0 if none.

        A flaw takes 0 for 2, and anything else for 0; the two judges err on different questions.
        """
        useful = self._of(query).useful
        held = sum(text in context for text in useful)
        true = 0 if held == 0 else 1 if held < len(useful) else HIGHEST_RATING
        erring = self._erring(true > 0, "rating", query, context, str(judge))
        return true if erring == (true > 0) else HIGHEST_RATING * erring

    def _erring(self, true: bool, *asked: str) -> int:
        share = self.flaws.false_useless if true else self.flaws.false_useful
        return int(true != (drawn(self.flaws.seed, "bias", *asked) < share))


def drawn(seed: int, *words: str) -> float:
    """Return a number of [0, 1) that is as good as random, the same for the same words."""
    digest = hashlib.sha256(json.dumps([seed, *words]).encode()).digest()
    return int.from_bytes(digest[:7]) / 2**56


def golden_labels(cases: Sequence[Case], chunks: Sequence[Chunk]) -> dict[str, Labels]:
    """Return labels by query: the first item of evidence supports the first sentence of the answer, and so on."""
    texts = {chunk.chunk_id: chunk.text for chunk in chunks}
    relevance = resolve(cases, chunks, {})
    return {case.query: _labels(case, relevance[case.id], texts) for case in cases}


def sentences(text: str) -> list[str]:
    return [part for part in END.split(text.strip()) if part]


def _labels(case: Case, relevance: Relevance, texts: Mapping[str, str]) -> Labels:
    items = relevance.items
    said = sentences(case.reference_answer or "")
    claims = {one: [texts[key] for key in items[place % len(items)]] if items else [] for place, one in enumerate(said)}
    return Labels(useful={texts[key] for key in relevance.grades}, claims=claims)

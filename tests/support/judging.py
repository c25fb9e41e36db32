"""A judge that knows: answers ragas' prompts from golden labels, so that the right score is known exactly.

It can be biased (the same question always gets the same wrong answer) and noisy (a repeat of it may get another).
"""

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from tests.support.ragas_prompts import Metric, Question, read_prompt

HIGHEST_RATING = 2


@dataclass(frozen=True, kw_only=True)
class Labels:
    """Truth about one query.

    Attributes:
        useful: The texts of its relevant chunks, verbatim.
        claims: Each statement of its reference answer, verbatim and in any order, with the texts that support it: any
            one of them does. A statement that the reference does not hold is not asked for.
    """

    useful: Collection[str] = ()
    claims: Mapping[str, Collection[str]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Flaws:
    """Errors of a judge, as shares of 0 … 1.

    Attributes:
        false_useful: Share of the useless texts that it takes for useful (of the unsupported statements for supported).
        false_useless: Share of the useful texts that it takes for useless; of the entities those it overlooks.
        noise: Share of the answers that it turns round, drawn anew for every repeat of a question.
        seed: Another seed, other errors.
    """

    false_useful: float = 0.0
    false_useless: float = 0.0
    noise: float = 0.0
    seed: int = 0


NONE = Flaws()


class Oracle:
    """Answers from labels; the same for any number of threads, in whatever order they ask.

    Whether a question is answered wrongly is drawn from a hash of what it asks, and for noise also of how often it was
    asked before. `verdict`, `attributed`, `rating` and `entities_of` tell what the n-th repeat is answered (0: the
    first time), without counting as one.

    Args:
        labels: By query. A query without labels has no useful text.
        entities: All that are entities; a text holds those it names verbatim.
        flaws: How it errs.
    """

    def __init__(self, labels: Mapping[str, Labels], *, entities: Collection[str] = (), flaws: Flaws = NONE) -> None:
        self.labels = labels
        self.entities = tuple(entities)
        self.flaws = flaws
        self._asked: Counter[float] = Counter()
        self._lock = Lock()

    def answer(self, prompt: str) -> str | None:
        """Return the answer as JSON of the prompt's own schema; None if it is no prompt of ragas' context metrics."""
        question = read_prompt(prompt)
        return None if question is None else json.dumps(self.reply(question))

    def reply(self, question: Question) -> dict[str, Any]:
        """Return the answer, which counts as one more repeat of the question."""
        repeat = self._repeat(question)
        match question.metric:
            case Metric.PRECISION:
                return self._precision(question, repeat)
            case Metric.RECALL:
                return {"classifications": [self._classified(question, one, repeat) for one in self.claims(question)]}
            case Metric.RELEVANCE:
                return {"rating": self.rating(question.query, question.context, question.judge, repeat)}
            case Metric.ENTITIES:
                return {"entities": self.entities_of(question.context, repeat)}

    def claims(self, question: Question) -> list[str]:
        """Return the statements of the reference, in its order, without those that occur within another."""
        known = self._of(question.query).claims
        held = [one for one in known if one in question.reference]
        whole = [one for one in held if not any(one != other and one in other for other in held)]
        return sorted(whole, key=question.reference.index)

    def verdict(self, query: str, text: str, repeat: int = 0) -> int:
        """Return 1 if the text is useful for the query, else 0; with the judge's flaws."""
        return self._erring(text in self._of(query).useful, repeat, "useful", query, text)

    def attributed(self, query: str, context: str, statement: str, repeat: int = 0) -> int:
        """Return 1 if the context holds a text that supports the statement, else 0; with the judge's flaws."""
        texts = self._of(query).claims.get(statement, ())
        return self._erring(any(text in context for text in texts), repeat, "attributed", query, context, statement)

    def rating(self, query: str, context: str, judge: int, repeat: int = 0) -> int:
        """Return 2 if the context holds all useful texts of the query, 1 if some, 0 if none.

        A flaw takes 0 for 2, and anything else for 0; the two judges err on different questions.
        """
        useful = self._of(query).useful
        held = sum(text in context for text in useful)
        true = 0 if held == 0 else 1 if held < len(useful) else HIGHEST_RATING
        erring = self._erring(true > 0, repeat, "rating", query, context, str(judge))
        return true if erring == (true > 0) else HIGHEST_RATING * erring

    def entities_of(self, text: str, repeat: int = 0) -> list[str]:
        """Return the entities that the text names, in its order, without those that the judge overlooks."""
        named = sorted((one for one in self.entities if one in text), key=text.index)
        return [one for one in named if self._erring(True, repeat, "entity", text, one)]

    def _repeat(self, question: Question) -> int:
        if not self.flaws.noise:
            return 0  # then it makes no difference, and nothing is to be remembered
        key = drawn(0, repr(question))
        with self._lock:
            self._asked[key] += 1
            return self._asked[key] - 1

    def _of(self, query: str) -> Labels:
        return self.labels.get(query, Labels())

    def _precision(self, question: Question, repeat: int) -> dict[str, Any]:
        verdict = self.verdict(question.query, question.context, repeat)
        reason = f"The context is {'useful' if verdict else 'of no use'} for {question.query!r}."
        return {"reason": reason, "verdict": verdict}

    def _classified(self, question: Question, statement: str, repeat: int) -> dict[str, Any]:
        attributed = self.attributed(question.query, question.context, statement, repeat)
        reason = f"The context {'states' if attributed else 'does not state'} it."
        return {"statement": statement, "reason": reason, "attributed": attributed}

    def _erring(self, true: bool, repeat: int, *asked: str) -> int:
        flaws = self.flaws
        said = true
        if drawn(flaws.seed, "bias", *asked) < (flaws.false_useless if true else flaws.false_useful):
            said = not said
        if drawn(flaws.seed, "noise", str(repeat), *asked) < flaws.noise:
            said = not said
        return int(said)


def drawn(seed: int, *words: str) -> float:
    """Return a number of [0, 1) that is as good as random, the same for the same words."""
    digest = hashlib.sha256(json.dumps([seed, *words]).encode()).digest()
    return int.from_bytes(digest[:7]) / 2**56


def average_precision(verdicts: Iterable[int]) -> float:
    """Return the mean over the useful places of the share of useful ones up to there; 0 if none is useful."""
    given = list(verdicts)
    shares = [sum(given[: place + 1]) / (place + 1) for place, verdict in enumerate(given) if verdict]
    return sum(shares) / len(shares) if shares else 0.0

"""Scores that cost nothing and go with a judge's, whose mean over a sample of the queries they correct. Pure.

Where golden data have labels, these say what a judge would. Without, what a result has in common with the reference
answer goes with its verdicts:

- context precision: a chunk counts as useful where it is labelled relevant, or, of a query without labels, where it
  holds at least a third of the distinct words of the reference answer. Both are verdicts on chunks, under one formula,
  so queries with labels and queries without stand in one column.
- all other metrics: the share of the evidence items that were returned; without labels the share of the sentences of
  the reference answer of which the result holds at least three quarters of the distinct words; without a reference
  answer either, the highest cosine. These are of different scales, and so one of them, the first that all queries have,
  serves for all.

How well each foretells a judge: docs/sampling.md, by `benchmarks/proxies.py`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from evals.collect.observations import Observation, Score, Unscored
from evals.golden.case import Case
from evals.judge.claims import sentences
from evals.judge.precision import average_precision
from evals.judge.tasks import selected
from evals.metrics.base import Context, QueryMetric
from evals.metrics.ranking import evidence_recall
from retrievers.config.languages import words

# Share of the words of the reference answer from which on a chunk without labels counts as useful.
USEFUL = 1 / 3
# Share of the words of a sentence of it from which on a result without labels counts as supporting the sentence.
SUPPORTED = 3 / 4
NO_REFERENCE = Unscored(reason="the case has no reference answer")
NO_COSINE = Unscored(reason="the case has neither labels nor a reference answer, and the retriever gives no cosine")


class Foretelling(NamedTuple):
    """One way to foretell a judge's score, and the queries for which there is it."""

    name: str
    score: Callable[[Observation, "SharedWords"], Score]
    fits: Callable[[Case], bool]


class SharedWords:
    """Words that a chunk has in common with a reference answer, each pair of the two compared once."""

    def __init__(self) -> None:
        self._asked: dict[str, list[frozenset[str]]] = {}
        self._held: dict[str, frozenset[str]] = {}
        self._shared: dict[tuple[str, str], frozenset[str]] = {}

    def of(self, case: Case) -> frozenset[str]:
        """Return the distinct words of a reference answer."""
        return frozenset[str]().union(*self.sentences(case))

    def sentences(self, case: Case) -> list[frozenset[str]]:
        """Return the distinct words of each sentence of a reference answer."""
        if case.id not in self._asked:
            distinct = (frozenset(words(sentence)) for sentence in sentences(case.reference_answer or ""))
            self._asked[case.id] = list(filter(None, distinct))
        return self._asked[case.id]

    def shared(self, observation: Observation) -> list[frozenset[str]]:
        """Return for each returned chunk the words of the reference answer that it holds."""
        case = observation.case
        pairs = [(case.id, chunk.text) for chunk in observation.selection.chunks]
        for pair in pairs:
            if pair not in self._shared:
                if pair[1] not in self._held:
                    self._held[pair[1]] = frozenset(words(pair[1]))
                self._shared[pair] = self.of(case) & self._held[pair[1]]
        return [self._shared[pair] for pair in pairs]


def serving(proxy: QueryMetric, cases: Sequence[Case]) -> str:
    """Return what serves as a proxy for these queries.

    Args:
        proxy: Proxy of a judged metric.
        cases: Queries in scope; those that the metric's judge cannot score have no part in it.
    """
    if proxy.name == RELEVANCE_PROXY.name:
        return _for_all(cases).name
    cases = [case for case in cases if _is_answered(case)]
    if proxy.name == RECALL_PROXY.name:
        return _for_all(cases).name
    worded = sum(not case.is_labelled for case in cases)
    if 0 < worded < len(cases):
        return f"{PRECISION_PROXY.name}, of {worded} queries {WORDED_PRECISION}"
    return WORDED_PRECISION if worded else PRECISION_PROXY.name


def useful_chunks(observations: Sequence[Observation]) -> list[frozenset[str]]:
    """Return for each result the ids of its chunks that count as useful; labelled ones also where it lacks them."""
    texts = SharedWords()
    return [
        frozenset(result.relevance.grades) if result.case.is_labelled else frozenset(_by_words(result, texts))
        for result in observations
    ]


def _by_words(result: Observation, texts: SharedWords) -> Iterator[str]:
    """Yield the ids of chunks that hold enough of the words of the reference answer."""
    asked = len(texts.of(result.case))
    for chunk_id, shared in zip(selected(result), texts.shared(result), strict=True):
        if shared and len(shared) >= USEFUL * asked:
            yield chunk_id


def _precision(observations: Sequence[Observation], _: Context) -> list[Score]:
    """Return context precision by the labels, or by the words of the reference answer, in place of verdicts.

    0 where nothing was returned.
    """
    return [
        average_precision([int(chunk_id in useful) for chunk_id in selected(result)])
        if result.case.is_labelled or _is_answered(result.case)
        else NO_REFERENCE
        for result, useful in zip(observations, useful_chunks(observations), strict=True)
    ]


def _recall(observations: Sequence[Observation], _: Context) -> list[Score]:
    """Return what foretells how complete a result is, by the one way that all queries with a reference answer have."""
    answered = [observation for observation in observations if _is_answered(observation.case)]
    scores = iter(_completeness(answered, _))
    return [next(scores) if _is_answered(observation.case) else NO_REFERENCE for observation in observations]


def _completeness(observations: Sequence[Observation], _: Context) -> list[Score]:
    """Return what foretells how complete a result is, by the one way that all these queries have."""
    texts = SharedWords()
    way = _for_all([observation.case for observation in observations])
    return [way.score(observation, texts) for observation in observations]


def _for_all(cases: Sequence[Case]) -> Foretelling:
    return next((way for way in WAYS[:-1] if all(map(way.fits, cases))), WAYS[-1])


def _items_found(observation: Observation, _: SharedWords) -> Score:
    ranked, items = observation.ranked_ids, observation.relevance.items
    return evidence_recall(ranked, items, len(ranked)) if items else Unscored(reason="the case names no evidence")


def _sentences_found(observation: Observation, texts: SharedWords) -> Score:
    held = frozenset[str]().union(*texts.shared(observation))
    asked = texts.sentences(observation.case)
    return sum(len(sentence & held) >= SUPPORTED * len(sentence) for sentence in asked) / len(asked)


def _highest_cosine(observation: Observation, _: SharedWords) -> Score:
    cosines = observation.selection.column("semantic")
    if not len(cosines):
        return 0.0
    return NO_COSINE if np.isnan(cosines).any() else float(np.clip(cosines, 0, 1).max())


def _is_answered(case: Case) -> bool:
    return bool(words(case.reference_answer or ""))


WORDED_PRECISION = "words/context_precision"
WAYS = (
    Foretelling("labels/evidence_recall", _items_found, lambda case: case.is_labelled),
    Foretelling("words/sentence_recall", _sentences_found, _is_answered),
    Foretelling("similarity/highest_cosine", _highest_cosine, lambda case: True),
)
PRECISION_PROXY = QueryMetric(
    name="labels/context_precision",
    scope="in_scope",
    interval="mean",
    about="context precision by the golden labels, or else by the words of the reference answer",
    score=_precision,
)
RECALL_PROXY = QueryMetric(
    name="labels/evidence_recall",
    scope="in_scope",
    interval="mean",
    about="share of the evidence items found, or else of the sentences of the reference answer",
    score=_recall,
)
# Of a metric that needs no reference answer.
RELEVANCE_PROXY = QueryMetric(
    name="labels/evidence_recall of all queries",
    scope="in_scope",
    interval="mean",
    about="share of the evidence items found, or else of the sentences of the reference answer, or the highest cosine",
    score=_completeness,
)

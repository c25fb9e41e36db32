"""Scores that go with a judge's and that all queries have, whose mean over a sample of the queries they correct. Pure.

A cheaper judge's scores, where there is one. Else scores that cost nothing:

where golden data have labels, these say what a judge would. Without, what a result has in common with the reference
answer goes with its verdicts:

- context precision: a chunk counts as useful where it is labelled relevant, or, of a query without labels, where it
  holds at least a third of the distinct words of the reference answer. Both are verdicts on chunks, under one formula,
  so queries with labels and queries without stand in one column.
- all other metrics: the share of the evidence items that were returned; without labels the share of the sentences of
  the reference answer of which the result holds at least three quarters of the distinct words; without a reference
  answer either, the highest cosine. These are of different scales, and so one of them, the first that all queries have,
  serves for all.

How well each foretells a judge: docs/method.md, by `benchmarks/proxies.py`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from evals.cases.case import Case
from evals.collect.observations import Unscored
from evals.collect.pool import BITS, Integers
from evals.judge.verdicts import Judging, sentences
from evals.metrics.declaration import Context, QueryMetric
from evals.metrics.ranking import evidence_recall
from evals.metrics.results import Results, Values
from evals.metrics.texts import average_precision
from retrievers.config.languages import words
from retrievers.records import Chunk

# Share of the words of the reference answer from which on a chunk without labels counts as useful.
USEFUL = 1 / 3
# Share of the words of a sentence of it from which on a result without labels counts as supporting the sentence.
SUPPORTED = 3 / 4
NO_REFERENCE = Unscored(reason="the case has no reference answer")
NO_COSINE = Unscored(reason="the case has neither labels nor a reference answer, and the retriever gives no cosine")


class Foretelling(NamedTuple):
    """One way to foretell a judge's score, and the queries for which there is it."""

    name: str
    score: Callable[[Results], Values]
    fits: Callable[[Case], bool]


def foretelling(metric: QueryMetric, below: Judging | None) -> QueryMetric:
    """Return what foretells the scores of a judged metric: a cheap judge where there is one, else its proxy.

    Args:
        metric: Metric that a judge grades.
        below: Verdicts of the cheap judge on all results; where it failed, the metric's proxy stands in.
    """
    proxy = metric.proxy
    assert proxy is not None
    if below is None:
        return proxy

    def score(r: Results, context: Context) -> Values:
        by_judge, without = metric.values(r, replace(context, judging=below)), proxy.values(r, context)
        lacking = np.isnan(by_judge.values)
        values = np.where(lacking, without.values, by_judge.values)
        issue = None if without.issue is None else np.where(lacking, without.issue, -1)
        return Values(values=values, issue=issue, issues=without.issues)

    return replace(proxy, name=f"{metric.name} by {below.model}", score=score)


def serving(proxy: QueryMetric, cases: Sequence[Case]) -> str:
    """Return what serves as a proxy for these queries.

    Args:
        proxy: Proxy of a judged metric (`foretelling`).
        cases: Queries in scope; those that the metric's judge cannot score have no part in it.
    """
    if proxy.name == RELEVANCE_PROXY.name:
        return _for_all(cases).name
    if proxy.name not in (RECALL_PROXY.name, PRECISION_PROXY.name):
        return proxy.name
    cases = [case for case in cases if _is_answered(case)]
    if proxy.name == RECALL_PROXY.name:
        return _for_all(cases).name
    worded = sum(not case.is_labelled for case in cases)
    if 0 < worded < len(cases):
        return f"{PRECISION_PROXY.name}, of {worded} queries {WORDED_PRECISION}"
    return WORDED_PRECISION if worded else PRECISION_PROXY.name


def _precision(r: Results, _: Context) -> Values:
    """Return context precision by the labels, or by the words of the reference answer, in place of verdicts.

    0 where nothing was returned.
    """

    def useful(number: int, chunks: list[Chunk]) -> Iterable[float]:
        asked = frozenset[str]().union(*_sentences(r.lists.case(number)))
        shared = (len(asked & frozenset(words(chunk.text))) for chunk in chunks)
        return [float(count > 0 and count >= USEFUL * len(asked)) for count in shared]

    without = r.by_case(lambda case: not (case.is_labelled or _is_answered(case)))
    worded = np.flatnonzero(r.by_case(lambda case: not case.is_labelled))
    verdicts = (r.grades > 0).astype(float)
    verdicts[worded] = r.at(worded).by_pair(useful)
    return Values.of(average_precision(verdicts), (without, NO_REFERENCE))


def _recall(r: Results, _: Context) -> Values:
    """Return what foretells how complete a result is, by the one way that all queries with a reference answer have."""
    answered = r.by_case(_is_answered)
    rows = np.flatnonzero(answered)
    way = _for_all([case for case in r.lists.pool.cases if case.in_scope and _is_answered(case)])
    return way.score(r.at(rows)).within(rows, len(r), (~answered, NO_REFERENCE))


def _completeness(r: Results, _: Context) -> Values:
    """Return what foretells how complete a result is, by the one way that all queries have."""
    return _for_all([case for case in r.lists.pool.cases if case.in_scope]).score(r)


def _for_all(cases: Sequence[Case]) -> Foretelling:
    return next((way for way in WAYS[:-1] if all(map(way.fits, cases))), WAYS[-1])


def _items_found(r: Results) -> Values:
    values = evidence_recall(r)
    return Values.of(values, (np.isnan(values), Unscored(reason="the case names no evidence")))


def _sentences_found(r: Results) -> Values:
    """Return the share of the sentences of the reference answer of which the chunks together hold enough words."""
    asked = {number: _sentences(r.lists.case(number)) for number in np.unique(r.list_of).tolist()}
    numbers = {number: {w: place for place, w in enumerate(sorted(frozenset[str]().union(*each)))}
               for number, each in asked.items()}  # fmt: skip

    def held(number: int, chunks: list[Chunk]) -> Iterable[list[int]]:
        places = numbers[number]
        return [[places[word] for word in places.keys() & frozenset(words(chunk.text))] for chunk in chunks]

    bits = r.items(held, max(map(len, numbers.values()), default=0))
    joined = np.bitwise_or.reduce(bits, axis=1)
    return Values.of(
        np.asarray(
            [
                sum(_count(joined[row], each, numbers[n]) >= SUPPORTED * len(each) for each in asked[n]) / len(asked[n])
                for row, n in enumerate(r.list_of.tolist())
            ]
        )
    )


def _count(held: Integers, sentence: frozenset[str], places: dict[str, int]) -> int:
    """Return how many of the words of a sentence are among those that are held, as bits."""
    return sum(int(held[places[word] // BITS]) >> places[word] % BITS & 1 for word in sentence)


def _highest_cosine(r: Results) -> Values:
    cosines = r.column("semantic")
    highest = np.clip(np.nan_to_num(cosines), 0, 1).max(axis=1)
    return Values.of(highest, ((np.isnan(cosines) & r.found).any(axis=1), NO_COSINE))


def _sentences(case: Case) -> list[frozenset[str]]:
    """Return the distinct words of each sentence of a reference answer."""
    distinct = (frozenset(words(sentence)) for sentence in sentences(case.reference_answer or ""))
    return list(filter(None, distinct))


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

"""Scores that go with a judge's and that all queries have, whose mean over a sample of the queries they correct. Pure.

A cheaper judge's scores, where there is one. Else scores that cost nothing: where golden data have labels, these say
what a judge would; without, what a result has in common with the reference answer goes with its verdicts.

- Context precision: a chunk counts as useful where it is labelled relevant, or, of a query without labels, where it
  holds at least a third of the distinct words of the reference answer. Both are verdicts on chunks, under one formula,
  so queries with labels and queries without stand in one column.
- All other metrics: the share of the evidence items that were returned; without labels the share of the sentences of
  the reference answer of which the result holds at least three quarters of the distinct words. These are of different
  scales, and so the first that all queries have serves for all; where there is none, nothing is corrected.

How well each foretells a judge: docs/method.md, by `benchmarks/handbook.py`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from evals.cases.case import Case
from evals.collect.observations import Unscored
from evals.collect.pool import Floats, Integers
from evals.judge.verdicts import Judging, average_precision, sentences
from evals.metrics.declaration import Context, QueryMetric
from evals.metrics.ranking import evidence_recall
from evals.metrics.results import Results, Values, as_bits
from retrievers.records import Chunk
from retrievers.text import words

# Share of the words of the reference answer from which on a chunk without labels counts as useful.
USEFUL = 1 / 3
# Share of the words of a sentence of it from which on a result without labels counts as supporting the sentence.
SUPPORTED = 3 / 4
NO_REFERENCE = Unscored(reason="the case has no reference answer")


def foretelling(metric: QueryMetric, below: Judging | None) -> QueryMetric:
    """Return the proxy of a judged metric.

    That is the same metric by the cheaper judge's verdicts, and the metric's own proxy where that judge is missing or
    failed.

    Args:
        metric: Metric that a judge grades.
        below: Verdicts of the cheap judge on all results; where it failed, the metric's proxy stands in.
    """
    proxy = metric.proxy
    assert proxy is not None
    if below is None:
        return proxy

    def score(r: Results, context: Context) -> Floats:
        by_judge = metric.values(r, replace(context, judging=below)).values
        return np.where(np.isnan(by_judge), proxy.values(r, context).values, by_judge)

    return replace(proxy, name=f"{metric.name} by {below.model}", score=score)


def _precision(r: Results, _: Context) -> Values:
    """Return context precision by the labels, or by the words of the reference answer, in place of verdicts."""

    def useful(number: int, chunks: list[Chunk]) -> Iterable[float]:
        asked = frozenset[str]().union(*_sentences(r.lists.case(number)))
        shared = (len(asked & frozenset(words(chunk.text))) for chunk in chunks)
        return [float(count > 0 and count >= USEFUL * len(asked)) for count in shared]

    without = r.by_case(lambda case: not (case.is_labelled or _is_answered(case)))
    worded = np.flatnonzero(r.by_case(lambda case: not case.is_labelled))
    verdicts = (r.grades > 0).astype(float)
    verdicts[worded] = r.at(worded).by_pair(useful)[0]
    return Values.of(average_precision(verdicts), (without, NO_REFERENCE))


def _recall(r: Results, _: Context) -> Values:
    """Return what foretells how complete a result is, by the one way that all queries with a reference answer have."""
    answered = r.by_case(_is_answered).astype(np.bool_)
    rows = np.flatnonzero(answered)
    recall = _for_all([case for case in r.lists.pool.cases if case.in_scope and _is_answered(case)])
    values = np.full(len(r), np.nan)
    values[rows] = recall(r.at(rows))
    return Values.of(values, (~answered, NO_REFERENCE))


def _for_all(cases: Sequence[Case]) -> Callable[[Results], Floats]:
    if all(case.is_labelled for case in cases):
        return evidence_recall
    return _sentences_found if all(map(_is_answered, cases)) else lambda r: np.full(len(r), np.nan)


def _sentences_found(r: Results) -> Floats:
    """Return the share of the sentences of the reference answer of which the chunks together hold enough words."""
    asked = {number: _sentences(r.lists.case(number)) for number in np.unique(r.list_of).tolist()}
    places = {n: {word: at for at, word in enumerate(frozenset[str]().union(*each))} for n, each in asked.items()}
    most = max(map(len, places.values()), default=0)
    wanted = {n: as_bits([[places[n][w] for w in s] for s in each], most)[:-1] for n, each in asked.items()}

    def held(number: int, chunks: list[Chunk]) -> Iterable[list[int]]:
        place = places[number]
        return ([place[word] for word in place.keys() & frozenset(words(chunk.text))] for chunk in chunks)

    def share(joined: Integers, sentences: Integers) -> float:
        counts, sizes = (np.bitwise_count(bits).sum(axis=1) for bits in (joined & sentences, sentences))
        return float((counts >= SUPPORTED * sizes).mean())

    joined = np.bitwise_or.reduce(r.items(held, most), axis=1)
    return np.asarray([share(row, wanted[n]) for row, n in zip(joined, r.list_of.tolist(), strict=True)], dtype=float)


def _sentences(case: Case) -> list[frozenset[str]]:
    """Return the distinct words of each sentence of a reference answer."""
    return list(filter(None, (frozenset(words(sentence)) for sentence in sentences(case.reference_answer or ""))))


def _is_answered(case: Case) -> bool:
    return bool(words(case.reference_answer or ""))


PRECISION_PROXY = QueryMetric(
    name="labels or words/context_precision", score=_precision,
    about="context precision by the golden labels, or else by the words of the reference answer",
)  # fmt: skip
RECALL_PROXY = QueryMetric(
    name="labels or words/recall", score=_recall,
    about="share of the evidence items found, or else of the sentences of the reference answer",
)  # fmt: skip
# Of a metric that needs no reference answer: by the one way that all queries have.
RELEVANCE_PROXY = QueryMetric(
    name="labels or words/recall of all queries", about=RECALL_PROXY.about,
    score=lambda r, _: _for_all([case for case in r.lists.pool.cases if case.in_scope])(r),
)  # fmt: skip

"""Proxies: scores of all queries that correlate with a judge's, and correct the mean of a judged sample. Pure.

If there is a cheaper judge, its scores are the proxy. Else the proxy costs nothing: golden labels, or without labels
the words that a result shares with the reference answer.

- Context precision: a chunk counts as useful if it is labelled relevant. If the query has no labels, a chunk counts as
  useful if it holds at least a third of the distinct words of the reference answer. Both are verdicts on chunks under
  one formula, so queries with and without labels share one column.
- All other metrics: the share of the evidence items that were returned. Without labels it is the share of the sentences
  of the reference answer of which the result holds at least three quarters of the distinct words. The two shares have
  different scales. So the first that all queries have serves for all queries; if there is none, nothing is corrected.

docs/method.md says how well each proxy predicts a judge, as `benchmarks/handbook.py` measures it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from evals.cases.case import Case
from evals.collect.observations import Unscored
from evals.judge.verdicts import Judging, average_precision, sentences
from evals.metrics.declaration import Context, QueryMetric
from evals.metrics.ranking import evidence_recall
from evals.metrics.results import Results, Values, as_bits
from evals.stats.intervals import Floats, Integers
from retrievers.records import Chunk
from retrievers.text import words

# Share of the words of the reference answer from which on a chunk without labels counts as useful.
USEFUL = 1 / 3
# Share of the words of a sentence of that answer from which on a result without labels counts as supporting it.
SUPPORTED = 3 / 4
NO_REFERENCE = Unscored(reason="the case has no reference answer")


def foretelling(metric: QueryMetric, below: Judging | None) -> QueryMetric:
    """Return the proxy of a judged metric.

    Args:
        metric: A metric that a judge grades.
        below: Verdicts of the cheaper judge on all results; None without a cheaper judge. If they are incomplete, they
            foretell nothing: those queries that they lack would be foretold by another measure than the rest.

    Returns:
        The same metric by the cheaper judge's verdicts. Where such a verdict failed, the metric's own proxy stands in.
    """
    proxy = metric.proxy
    assert proxy is not None
    if below is None or below.incomplete:
        return proxy

    def score(r: Results, context: Context) -> Floats:
        by_judge = metric.values(r, replace(context, judging=below)).values
        return np.where(np.isnan(by_judge), proxy.values(r, context).values, by_judge)

    return replace(proxy, name=f"{metric.name} by {below.model}", score=score)


def _precision(r: Results, _: Context) -> Values:
    """Return context precision by labels, or else by the words of the reference answer, in place of verdicts."""

    def useful(number: int, chunks: list[Chunk]) -> Iterable[float]:
        of_answer = frozenset[str]().union(*_sentences(r.lists.case(number)))
        shared = (len(of_answer & frozenset(words(chunk.text))) for chunk in chunks)
        return [float(count > 0 and count >= USEFUL * len(of_answer)) for count in shared]

    has_none = r.by_case(lambda case: not (case.is_labelled or _is_answered(case)))
    by_words = np.flatnonzero(r.by_case(lambda case: not case.is_labelled))
    verdicts = (r.grades > 0).astype(float)
    verdicts[by_words] = r.at(by_words).by_pair(useful)[0]
    return Values.of(average_precision(verdicts), (has_none, NO_REFERENCE))


def _recall(r: Results, _: Context) -> Values:
    """Return the share of evidence items or sentences found, by the measure that all queries with an answer have."""
    is_answered = r.by_case(_is_answered).astype(np.bool_)
    rows = np.flatnonzero(is_answered)
    recall = _recall_of_all([case for case in r.lists.pool.cases if case.in_scope and _is_answered(case)])
    values = np.full(len(r), np.nan)
    values[rows] = recall(r.at(rows))
    return Values.of(values, (~is_answered, NO_REFERENCE))


def _recall_of_all(cases: Sequence[Case]) -> Callable[[Results], Floats]:
    """Return the first measure of recall that all cases have; NaN for every row if there is none."""
    if all(case.is_labelled for case in cases):
        return evidence_recall
    return _sentences_found if all(map(_is_answered, cases)) else lambda r: np.full(len(r), np.nan)


def _sentences_found(r: Results) -> Floats:
    """Return the share of the sentences of the reference answer of which the chunks together hold enough words."""
    # By list: the sentences of the answer, and a number for each of their distinct words.
    sentences_of = {number: _sentences(r.lists.case(number)) for number in np.unique(r.list_of).tolist()}
    numbers_of = {n: {word: i for i, word in enumerate(frozenset[str]().union(*s))} for n, s in sentences_of.items()}
    most = max(map(len, numbers_of.values()), default=0)

    def held(number: int, chunks: list[Chunk]) -> Iterable[list[int]]:
        numbers = numbers_of[number]
        return ([numbers[word] for word in numbers.keys() & frozenset(words(chunk.text))] for chunk in chunks)

    bits_of = dict[int, Integers]()
    for number, word_sets in sentences_of.items():
        bits_of[number] = as_bits([[numbers_of[number][w] for w in words_of] for words_of in word_sets], most)[:-1]

    def share(found: Integers, of_sentences: Integers) -> float:
        counts, sizes = (np.bitwise_count(bits).sum(axis=1) for bits in (found & of_sentences, of_sentences))
        return float((counts >= SUPPORTED * sizes).mean())

    found = np.bitwise_or.reduce(r.items(held, most), axis=1)
    return np.asarray([share(row, bits_of[n]) for row, n in zip(found, r.list_of.tolist(), strict=True)], dtype=float)


def _sentences(case: Case) -> list[frozenset[str]]:
    """Return the distinct words of each sentence of a reference answer."""
    return list(filter(None, (frozenset(words(sentence)) for sentence in sentences(case.reference_answer or ""))))


def _is_answered(case: Case) -> bool:
    """Return True if the case has a reference answer with words."""
    return bool(words(case.reference_answer or ""))


PRECISION_PROXY = QueryMetric(
    name="labels or words/context_precision", score=_precision,
    about="context precision by the golden labels, or else by the words of the reference answer",
)  # fmt: skip
RECALL_PROXY = QueryMetric(
    name="labels or words/recall", score=_recall,
    about="share of the evidence items found, or else of the sentences of the reference answer",
)  # fmt: skip
# The proxy of a metric that needs no reference answer: by the measure that all in-scope queries have.
RELEVANCE_PROXY = QueryMetric(
    name="labels or words/recall of all queries", about=RECALL_PROXY.about,
    score=lambda r, _: _recall_of_all([case for case in r.lists.pool.cases if case.in_scope])(r),
)  # fmt: skip

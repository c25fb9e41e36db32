"""Metrics of a judge: the LLM-graded context metrics of ragas, what judging costs, and how far to trust the judge.

An empty result of an in-scope query scores 0 and needs no call. If a verdict could not be obtained, the query's score
is a failure, not a zero. Source: ragas 0.4.3, `ragas.metrics.collections`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from evals.cases.case import Case
from evals.collect.observations import Observed, Score, Summary, Unscored
from evals.judge.budget import Usage
from evals.judge.tasks import ENTITY_RECALL, JUDGED, PRECISION, RECALL, RELEVANCE
from evals.judge.trust import CORRECTED, NO_VERDICT, summaries
from evals.judge.verdicts import NOT_JUDGED, ChunkVerdict, Judging, average_precision
from evals.metrics.declaration import Context, QueryMetric, Scorer, figure
from evals.metrics.proxies import NO_REFERENCE, PRECISION_PROXY, RECALL_PROXY, RELEVANCE_PROXY
from evals.metrics.results import Results, Values
from evals.sampling.order import NOT_DRAWN, judging_order
from evals.stats.intervals import Bools
from retrievers.records import Chunk

NO_PEOPLE = f"no case has human_verdicts, or {PRECISION} is not among the metrics"
NO_JUDGE = "there is no judge (judge.model)"
Judged = Callable[[Results, Judging], Values]
Tell = Callable[[Observed, Context], Summary]


def context_precision(r: Results, judging: Judging) -> Values:
    """Return the average precision of results by the judge's verdicts, 0 to 1 (ragas' perfect score is 1 − 1e-10).

    It is Σ over ranks k of (useful among the first k / k) · verdict k, divided by (useful chunks + 1e-10). A result has
    no score if the verdict on one of its chunks is missing.
    """

    def verdicts_on(number: int, chunks: list[Chunk]) -> Iterable[Score]:
        case_id = r.lists.case(number).id
        for chunk in chunks:
            verdict = judging.verdicts.get((case_id, chunk.chunk_id), NOT_JUDGED)
            yield float(verdict.verdict) if isinstance(verdict, ChunkVerdict) else verdict

    verdicts, missing = r.by_pair(verdicts_on)
    return Values.of(average_precision(verdicts), missing)


def _by_result(metric: str) -> Judged:
    """Return a function that looks up the judge's scores of whole results."""
    return lambda r, judging: Values.joined(
        [judging.scores.get((metric, o.case.id, o.selection.chunk_ids), NOT_JUDGED) for o in r.observations()]
    )


def can_be_judged(metric: str, case: Case) -> bool:
    """Return True if a judge can score a query's results by a metric, which may need a reference answer."""
    return case.in_scope and (bool((case.reference_answer or "").strip()) or not JUDGED[metric].needs_reference)


def _grade(name: str, score: Judged) -> Scorer:
    """Return the scores of a judged metric, with the reasons why rows were not judged.

    Args:
        name: Name of the metric.
        score: Scores the rows that were judged and are not empty.
    """

    def scores(r: Results, context: Context) -> Values:
        judging = context.judging
        if judging is None:
            return Values.of(np.zeros(len(r)), (True, Unscored(reason=NO_JUDGE)))
        empty, missing = r.lengths == 0, Unscored(reason=judging.incomplete, missing=True)
        no_reference = r.by_case(lambda case: not can_be_judged(name, case))
        not_drawn = r.by_case(lambda case: judging.drawn is not None and case.id not in judging.drawn)
        rows = np.flatnonzero(~(no_reference | not_drawn | empty))
        graded = score(r.at(rows), judging).within(rows, len(r))
        is_beyond = _is_beyond(r, graded, missing, context.seed)
        values = np.where(empty, 0.0, graded.values)
        return Values.of(values, (no_reference, NO_REFERENCE), (not_drawn, NOT_DRAWN), (is_beyond, missing), graded)

    return scores


def _is_beyond(r: Results, values: Values, missing: Unscored, seed: int) -> Bools:
    """Return which empty results are of queries that judging did not reach.

    They are missing as well: of the queries beyond the last judged one, only empty results would have a score, all 0.
    """
    if missing not in values.issues:
        return np.zeros(len(r), dtype=np.bool_)
    order = {case_id: rank for rank, case_id in enumerate(judging_order(r.lists.pool.cases, seed))}
    places = r.by_case(lambda case: order.get(case.id, len(order)))
    reached = places[values.issue == values.issues.index(missing)].min(initial=len(order))
    return np.asarray((r.lengths == 0) & (places >= reached))


def respent(summaries: Sequence[Summary], judging: Judging) -> list[Summary]:
    """Return the summaries of a run, with the cost of judging by the present usage."""
    return [replace(_total(s.metric, judging), metric=s.metric) if s.metric in SPENT else s for s in summaries]


def _total(name: str, judging: Judging) -> Summary:
    """Return one cost of judging over the whole run."""
    value = SPENT[name](judging.whole_usage)
    if value is None:
        unpriced = " and ".join(tier.model for tier in judging.tiers if tier.usage.usd is None)
        return figure(None, f"no price for {unpriced} in judge.prices")
    return figure(value, "a total has no interval", n=1)


def _spent(name: str) -> Tell:
    return lambda _, context: _total(name, context.judging) if context.judging else figure(None, NO_JUDGE)


def _trust(name: str, missing: str = NO_VERDICT) -> Tell:
    """Return a function that looks up one figure of the judge's quality; `missing` is the reason if there is none."""

    def tell(_: Observed, context: Context) -> Summary:
        by_name = {summary.metric: summary for summary in summaries(context.trust)} if context.trust else {}
        return by_name.get(name) or figure(None, missing if context.trust else NO_JUDGE)

    return tell


SPENT: Mapping[str, Callable[[Usage], float | None]] = {
    "cost/judge_calls": lambda usage: float(usage.calls),
    "cost/judge_cache_hits": lambda usage: float(usage.hits),
    "cost/judge_tokens": lambda usage: float(usage.tokens_in + usage.tokens_out),
    "cost/judge_usd": lambda usage: usage.usd,
}
PROXIES: Mapping[str, QueryMetric] = {
    PRECISION: PRECISION_PROXY,
    RECALL: RECALL_PROXY,
    RELEVANCE: RELEVANCE_PROXY,
    ENTITY_RECALL: RECALL_PROXY,
}
SCORES: Mapping[str, Scorer] = {
    name: _grade(name, context_precision if name == PRECISION else _by_result(name)) for name in PROXIES
}
FIGURES: Mapping[str, Tell] = {
    **{name: _spent(name) for name in SPENT},
    **{name: _trust(name) for name in ("judge/agreement", "judge/kappa")},
    "judge/self_agreement": _trust("judge/self_agreement", f"not judged twice (judge.rejudge, {PRECISION})"),
    CORRECTED: _trust(CORRECTED, NO_PEOPLE),
}

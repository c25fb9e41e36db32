"""What a judge says: the LLM-graded context metrics of ragas, what they cost, and how far to trust the judge.

An empty result of an in-scope query scores 0 and needs no call. A verdict that could not be had makes the query's score
a failure, not a zero. Source: ragas 0.4.3, `ragas.metrics.collections`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from evals.cases.case import Case
from evals.collect.observations import Observed, Score, Summary, Unscored
from evals.collect.pool import Bools
from evals.judge.budget import Usage
from evals.judge.tasks import ENTITY_RECALL, JUDGED, PRECISION, RECALL, RELEVANCE, selected
from evals.judge.trust import summaries
from evals.judge.verdicts import NOT_JUDGED, ChunkVerdict, Judging
from evals.metrics.declaration import AMOUNT, Context, Metric, QueryMetric, RunMetric
from evals.metrics.proxies import NO_REFERENCE, PRECISION_PROXY, RECALL_PROXY, RELEVANCE_PROXY
from evals.metrics.results import Results, Values
from evals.metrics.texts import average_precision
from evals.sampling.order import NOT_DRAWN, judging_order
from retrievers.records import Chunk

NO_JUDGE = "there is no judge (judge.model)"
NO_VERDICT = "no verdict on a labelled chunk"
Judged = Callable[[Results, Judging], Values]


def context_precision(r: Results, judging: Judging) -> Values:
    """Return the average precision of results by the judge's verdicts, 0 to 1 (ragas' perfect score is 1 − 1e-10).

    Σ over ranks k of (useful among the first k / k) · verdict k, divided by (useful chunks + 1e-10). Where the verdict
    on a chunk is missing there is no score.
    """

    def said(number: int, chunks: list[Chunk]) -> Iterable[Score]:
        case_id = r.lists.case(number).id
        for chunk in chunks:
            verdict = judging.verdicts.get((case_id, chunk.chunk_id), NOT_JUDGED)
            yield float(verdict.verdict) if isinstance(verdict, ChunkVerdict) else verdict

    verdicts, missing = r.by_pair(said)
    return Values.of(average_precision(verdicts), missing)


def _by_result(metric: str) -> Judged:
    return lambda r, judging: Values.joined(
        [judging.scores.get((metric, o.case.id, selected(o)), NOT_JUDGED) for o in r.observations()]
    )


def can_be_judged(metric: str, case: Case) -> bool:
    """Return True if the judge can be asked about a query's results for a metric."""
    return case.in_scope and (bool((case.reference_answer or "").strip()) or not JUDGED[metric].needs_reference)


def respent(summaries: Sequence[Summary], judging: Judging) -> list[Summary]:
    """Return the summaries of a run, those of what judging cost by the usage that there is now."""
    return [_total(summary.metric, judging) if summary.metric in SPENT else summary for summary in summaries]


def _graded(name: str, about: str, score: Judged, proxy: QueryMetric = RECALL_PROXY) -> QueryMetric:
    """Declare a metric that the judge grades, which leaves out what no judge was asked about."""

    def of(r: Results, context: Context) -> Values:
        judging = context.judging
        if judging is None:
            return Values.of(np.zeros(len(r)), (True, Unscored(reason=NO_JUDGE)))
        no_reference = r.by_case(lambda case: not can_be_judged(name, case))
        not_drawn = r.by_case(lambda case: judging.drawn is not None and case.id not in judging.drawn)
        rows = np.flatnonzero(~(no_reference | not_drawn | (r.lengths == 0)))
        given, missing = (
            score(r.at(rows), judging).within(rows, len(r)),
            Unscored(reason=judging.incomplete, missing=True),
        )
        beyond = (_beyond(r, given, missing, context.seed), missing)
        values = np.where(r.lengths == 0, 0.0, given.values)
        return Values.of(values, (no_reference, NO_REFERENCE), (not_drawn, NOT_DRAWN), beyond, given)

    return QueryMetric(
        name=name, about=about, source=f"ragas 0.4.3, `{JUDGED[name].class_name}`", needs=frozenset({"judge"}),
        score=of, proxy=proxy,
    )  # fmt: skip


def _beyond(r: Results, values: Values, missing: Unscored, seed: int) -> Bools:
    """Return which empty results are of queries whose turn had not come: they alone would be there, all 0."""
    if values.issue is None or missing not in values.issues:
        return np.zeros(len(r), dtype=np.bool_)
    order = {case_id: rank for rank, case_id in enumerate(judging_order(r.lists.pool.cases, seed))}
    places = r.by_case(lambda case: order.get(case.id, len(order)))
    reached = places[values.issue == values.issues.index(missing)].min(initial=len(order))
    return np.asarray((r.lengths == 0) & (places >= reached))


def _total(name: str, judging: Judging) -> Summary:
    value = SPENT[name](judging.whole_usage)
    unpriced = " and ".join(tier.model for tier in judging.tiers if tier.usage.usd is None)
    note = f"no price for {unpriced} in judge.prices" if value is None else "a total has no interval"
    return Summary(metric=name, value=value, n=int(value is not None), note=note)


def _of_judge(name: str, about: str, tell: Callable[[Context], Summary | None], **fields: Any) -> RunMetric:
    """Declare a statistic of the judge."""

    def summarise(_: Observed, context: Context) -> Summary:
        return tell(context) or Summary(metric=name, value=None, note=NO_JUDGE)

    return RunMetric(name=name, about=about, summarise=summarise, **fields)


def _spent(name: str, about: str, unit: str, direction: str = "lower") -> RunMetric:
    return _of_judge(
        name, about, lambda context: _total(name, context.judging) if context.judging else None,
        unit=unit, direction=direction, range=AMOUNT, needs=frozenset({"judge usage"}),
    )  # fmt: skip


def _trust(name: str, about: str, missing: str = NO_VERDICT, **fields: Any) -> RunMetric:
    def tell(context: Context) -> Summary | None:
        given = summaries(context.trust) if context.trust else []
        lacking = Summary(metric=name, value=None, note=missing) if context.trust else None
        return next((summary for summary in given if summary.metric == name), lacking)

    return _of_judge(name, about, tell, needs=frozenset({"judge"}), **fields)


SPENT: Mapping[str, Callable[[Usage], float | None]] = {
    "cost/judge_calls": lambda usage: float(usage.calls),
    "cost/judge_cache_hits": lambda usage: float(usage.hits),
    "cost/judge_tokens": lambda usage: float(usage.tokens),
    "cost/judge_usd": lambda usage: usage.usd,
}
METRICS: tuple[Metric, ...] = (
    _graded(PRECISION, "average precision of the returned chunks by the judge's verdicts", context_precision,
            PRECISION_PROXY),
    _graded(RECALL, "share of the reference's statements that the returned chunks support", _by_result(RECALL)),
    _graded(RELEVANCE, "how relevant the returned chunks are to the question, by two prompts", _by_result(RELEVANCE),
            RELEVANCE_PROXY),
    _graded(ENTITY_RECALL, "share of the reference's entities that the returned chunks name",
            _by_result(ENTITY_RECALL)),
    _spent("cost/judge_calls", "calls of the judge, every attempt counted", "calls"),
    _spent("cost/judge_cache_hits", "verdicts that needed no call", "calls", "neither"),
    _spent("cost/judge_tokens", "tokens that the judge read and wrote", "total tokens"),
    _spent("cost/judge_usd", "what the judge cost in US dollars, by judge.prices", "USD"),
)  # fmt: skip
TRUST: tuple[RunMetric, ...] = (
    _trust("judge/agreement", "share of the judge's verdicts that equal the golden label"),
    _trust("judge/kappa", "Cohen's kappa of verdicts and golden labels: agreement beyond chance", unit="score",
           range=(-1.0, 1.0), source="Cohen (1960)"),
    _trust("judge/self_agreement", "share of verdicts that come out the same when given again (judge.rejudge)",
           "not asked for (judge.rejudge)"),
    _trust(f"{PRECISION}_corrected", "context precision by people, estimated from human verdicts on a sample, "
           "corrected by the judge", "no case has human_verdicts",
           source="Cochran (1977, chapter 12); Angelopoulos et al. (2023), prediction-powered inference"),
)  # fmt: skip

"""What a judge says: the LLM-graded context metrics of ragas, what they cost, and how far to trust the judge.

An empty result of an in-scope query scores 0 and needs no call. A verdict that could not be had makes the query's score
a failure, not a zero. Source: ragas 0.4.3, `ragas.metrics.collections`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from evals.cases.case import Case
from evals.collect.observations import Observed, Summary, Unscored
from evals.collect.pool import Bools
from evals.judge.budget import Usage
from evals.judge.tasks import ENTITY_RECALL, JUDGED, PRECISION, RECALL, RELEVANCE, selected
from evals.judge.trust import summaries
from evals.judge.verdicts import NOT_JUDGED, ChunkVerdict, Judging
from evals.metrics.declaration import AMOUNT, SHARE, Context, Direction, Metric, Need, QueryMetric, RunMetric
from evals.metrics.proxies import NO_REFERENCE, PRECISION_PROXY, RECALL_PROXY, RELEVANCE_PROXY
from evals.metrics.results import Issue, Results, Values
from evals.metrics.texts import average_precision
from evals.sampling.order import NOT_DRAWN, judging_order
from retrievers.records import Chunk

NO_VERDICT = "no verdict on a labelled chunk"
NOT_REJUDGED = "not asked for (judge.rejudge)"


def context_precision(r: Results, context: Context) -> Values:
    """Return the average precision of results by the judge's verdicts, 0 to 1 (ragas' perfect score is 1 − 1e-10).

    Σ over ranks k of (useful among the first k / k) · verdict k, divided by (useful chunks + 1e-10). Where the verdict
    on a chunk is missing there is no score.
    """
    assert context.judging is not None
    verdicts, missing = context.judging.verdicts, dict[Issue, int]()

    def told(number: int, chunks: list[Chunk]) -> Iterable[float]:
        case_id = r.lists.case(number).id
        for chunk in chunks:
            verdict = verdicts.get((case_id, chunk.chunk_id), NOT_JUDGED)
            # A reason why there is none is its number, below 0.
            yield (
                verdict.verdict if isinstance(verdict, ChunkVerdict) else -1 - missing.setdefault(verdict, len(missing))
            )

    said = r.by_pair(told)
    lacking, issue = said < 0, np.full(len(r), -1)
    rows = np.flatnonzero(lacking.any(axis=1))
    if len(rows):
        issue[rows] = -1 - said[rows, lacking[rows].argmax(axis=1)].astype(np.int64)
    return Values.of(
        average_precision(said), Values(values=said[:, :0].sum(axis=1), issue=issue, issues=tuple(missing))
    )


def _by_result(metric: str) -> Callable[[Results, Context], Values]:
    def score(r: Results, context: Context) -> Values:
        assert context.judging is not None
        scores = context.judging.scores
        return Values.joined([scores.get((metric, o.case.id, selected(o)), NOT_JUDGED) for o in r.observations()])

    return score


def _scorer(metric: str, score: Callable[[Results, Context], Values]) -> Callable[[Results, Context], Values]:
    """Return a scorer by verdicts that leaves out what no judge was asked about."""

    def of(r: Results, context: Context) -> Values:
        judging = context.judging
        if judging is None:
            return Values.of(np.zeros(len(r)), (True, Unscored(reason="there is no judge (judge.model)")))
        no_reference = r.by_case(lambda case: not can_be_judged(metric, case))
        not_drawn = r.by_case(lambda case: judging.drawn is not None and case.id not in judging.drawn)
        empty = r.lengths == 0
        rows = np.flatnonzero(~(no_reference | not_drawn | empty))
        values = score(r.at(rows), context).within(rows, len(r))
        zero = Values(values=np.where(empty, 0.0, values.values), issue=values.issue, issues=values.issues)
        reasons = [(no_reference, NO_REFERENCE), (not_drawn, NOT_DRAWN)]
        if judging.incomplete:
            reasons.append((_beyond(r, zero, judging.incomplete, context.seed), _missing(judging.incomplete)))
        return Values.of(zero.values, *reasons, zero)

    return of


def _missing(incomplete: str) -> Unscored:
    return Unscored(reason=incomplete, missing=True)


def _beyond(r: Results, values: Values, incomplete: str, seed: int) -> Bools:
    """Return which empty results are of queries whose turn had not come: they alone would be there, all 0."""
    order = {case_id: rank for rank, case_id in enumerate(judging_order(r.lists.pool.cases, seed))}
    places = r.by_case(lambda case: order.get(case.id, len(order)))
    reason = _missing(incomplete)
    lacking = [number for number, issue in enumerate(values.issues) if issue == reason]
    unbought = np.isin(values.issue, lacking) if values.issue is not None else np.zeros(len(r), dtype=np.bool_)
    end = places[unbought].min(initial=len(order))
    beyond: Bools = (r.lengths == 0) & (places >= end)
    return beyond


def can_be_judged(metric: str, case: Case) -> bool:
    """Return True if the judge can be asked about a query's results for a metric."""
    return case.in_scope and (bool((case.reference_answer or "").strip()) or not JUDGED[metric].needs_reference)


def respent(summaries: Sequence[Summary], judging: Judging) -> list[Summary]:
    """Return the summaries of a run, those of what judging cost by the usage that there is now."""
    return [_total(summary.metric, judging) if summary.metric in SPENT else summary for summary in summaries]


def _total(name: str, judging: Judging) -> Summary:
    value = SPENT[name](judging.whole_usage)
    unpriced = " and ".join(tier.model for tier in judging.tiers if tier.usage.usd is None)
    note = f"no price for {unpriced} in judge.prices" if value is None else "a total has no interval"
    return Summary(metric=name, value=value, n=int(value is not None), note=note)


def _spent(name: str, about: str, unit: str, direction: Direction = "lower") -> RunMetric:
    """Declare a total of the judge's calls, tokens or time."""

    def summarise(_: Observed, context: Context) -> Summary:
        if context.judging is None:
            return Summary(metric=name, value=None, note="there is no judge (judge.model)")
        return _total(name, context.judging)

    return RunMetric(
        name=name, about=about, direction=direction, unit=unit, range=AMOUNT, needs=USAGE, summarise=summarise
    )


def _graded(
    name: str,
    about: str,
    score: Callable[[Results, Context], Values],
    *,
    proxy: QueryMetric = RECALL_PROXY,
) -> QueryMetric:
    """Declare a metric that the judge grades."""
    return QueryMetric(
        name=name,
        scope="in_scope",
        interval="mean",
        about=about,
        source=f"ragas 0.4.3, `{JUDGED[name].class_name}`",
        needs=frozenset({"judge"}),
        score=_scorer(name, score),
        proxy=proxy,
    )


def _trust(
    name: str,
    about: str,
    missing: str,
    *,
    direction: Direction = "higher",
    unit: str = "share",
    range: tuple[float, float] = SHARE,
    source: str = "this project",
) -> RunMetric:
    """Declare a statistic of the judge; `missing` is the reason where there is none."""

    def summarise(_: Observed, context: Context) -> Summary:
        if context.trust is None:
            return Summary(metric=name, value=None, note="there is no judge (judge.model)")
        summary = next((item for item in summaries(context.trust) if item.metric == name), None)
        return summary or Summary(metric=name, value=None, note=missing)

    return RunMetric(
        name=name,
        about=about,
        source=source,
        direction=direction,
        unit=unit,
        range=range,
        needs=frozenset({"judge"}),
        summarise=summarise,
    )


USAGE: frozenset[Need] = frozenset({"judge usage"})
SPENT: Mapping[str, Callable[[Usage], float | None]] = {
    "cost/judge_calls": lambda usage: float(usage.calls),
    "cost/judge_cache_hits": lambda usage: float(usage.hits),
    "cost/judge_tokens": lambda usage: float(usage.tokens),
    "cost/judge_usd": lambda usage: usage.usd,
}
METRICS: tuple[Metric, ...] = (
    _graded(
        PRECISION,
        "average precision of the returned chunks by the judge's verdicts",
        context_precision,
        proxy=PRECISION_PROXY,
    ),
    _graded(RECALL, "share of the reference's statements that the returned chunks support", _by_result(RECALL)),
    _graded(
        RELEVANCE,
        "how relevant the returned chunks are to the question, by two prompts",
        _by_result(RELEVANCE),
        proxy=RELEVANCE_PROXY,
    ),
    _graded(
        ENTITY_RECALL,
        "share of the reference's entities that the returned chunks name",
        _by_result(ENTITY_RECALL),
    ),
    _spent("cost/judge_calls", "calls of the judge, every attempt counted", "calls"),
    _spent("cost/judge_cache_hits", "verdicts that needed no call", "calls", "neither"),
    _spent("cost/judge_tokens", "tokens that the judge read and wrote", "total tokens"),
    _spent("cost/judge_usd", "what the judge cost in US dollars, by judge.prices", "USD"),
)
TRUST: tuple[RunMetric, ...] = (
    _trust("judge/agreement", "share of the judge's verdicts that equal the golden label", NO_VERDICT),
    _trust(
        "judge/kappa",
        "Cohen's kappa of verdicts and golden labels: agreement beyond chance",
        NO_VERDICT,
        unit="score",
        range=(-1.0, 1.0),
        source="Cohen (1960)",
    ),
    _trust(
        "judge/false_useful",
        "share of verdict useful among chunks that are not labelled relevant",
        NO_VERDICT,
        direction="lower",
    ),
    _trust(
        "judge/false_useless",
        "share of verdict useless among chunks that are labelled relevant",
        NO_VERDICT,
        direction="lower",
    ),
    _trust(
        "judge/self_agreement",
        "share of verdicts that come out the same when given again (judge.rejudge)",
        NOT_REJUDGED,
    ),
    _trust(
        f"{PRECISION}_corrected",
        "context precision by people, estimated from human verdicts on a sample, corrected by the judge",
        "no case has human_verdicts",
        source="Cochran (1977, chapter 12); Angelopoulos et al. (2023), prediction-powered inference",
    ),
)

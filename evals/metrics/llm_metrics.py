"""The LLM-graded context metrics of ragas: arithmetic on the judge's verdicts, with our denominators.

An empty result of an in-scope query scores 0 and needs no call. A verdict that could not be had makes the query's score
a failure, not a zero. Source: ragas 0.4.3, `ragas.metrics.collections`.
"""

from collections.abc import Callable, Mapping, Sequence

from evals.collect.observations import Observation, Observed, Score, Summary, Unscored
from evals.judge.ask.budget import Usage
from evals.judge.precision import NOT_JUDGED, context_precision
from evals.judge.sampling import NOT_DRAWN, judging_order
from evals.judge.tasks import ENTITY_RECALL, JUDGED, PRECISION, RECALL, RELEVANCE, selected, why_not
from evals.judge.verdicts import Judging
from evals.metrics.base import Context, Metric, QueryMetric, RunMetric
from evals.metrics.declaration import AMOUNT, Direction, Need, Unit
from evals.metrics.proxies import PRECISION_PROXY, RECALL_PROXY, RELEVANCE_PROXY


def _by_selection(metric: str) -> Callable[[Observation, Judging], Score]:
    def score(observation: Observation, judging: Judging) -> Score:
        return judging.scores.get((metric, observation.case.id, selected(observation)), NOT_JUDGED)

    return score


def _scorer(
    metric: str, score: Callable[[Observation, Judging], Score]
) -> Callable[[Sequence[Observation], Context], list[Score]]:
    def of(observation: Observation, context: Context) -> Score:
        if context.judging is None:
            return Unscored(reason="there is no judge (judge.model)")
        known, drawn = why_not(metric, observation), context.judging.drawn
        if drawn is not None and observation.case.id not in drawn and not isinstance(known, Unscored):
            return NOT_DRAWN
        return score(observation, context.judging) if known is None else known

    def score_all(observations: Sequence[Observation], context: Context) -> list[Score]:
        scores = [of(observation, context) for observation in observations]
        incomplete = context.judging.incomplete if context.judging else ""
        return _as_far_as_judged(scores, observations, incomplete, context.seed) if incomplete else scores

    return score_all


def _as_far_as_judged(
    scores: Sequence[Score], observations: Sequence[Observation], incomplete: str, seed: int
) -> list[Score]:
    """Return the scores, but for empty results of queries whose turn had not come: they alone would be there, all 0."""
    unscored = Unscored(reason=incomplete, missing=True)
    order = {case_id: rank for rank, case_id in enumerate(judging_order((o.case for o in observations), seed))}
    places = [order[observation.case.id] for observation in observations]
    end = min((rank for rank, score in zip(places, scores, strict=True) if score == unscored), default=None)
    return [
        score if end is None or rank < end or observation.selection or score == NOT_DRAWN else unscored
        for rank, score, observation in zip(places, scores, observations, strict=True)
    ]


def respent(summaries: Sequence[Summary], judging: Judging) -> list[Summary]:
    """Return the summaries of a run, those of what judging cost by the usage that there is now."""
    return [_total(summary.metric, judging) if summary.metric in SPENT else summary for summary in summaries]


def _total(name: str, judging: Judging) -> Summary:
    value = SPENT[name](judging.whole_usage)
    unpriced = " and ".join(tier.model for tier in judging.tiers if tier.usage.usd is None)
    note = f"no price for {unpriced} in judge.prices" if value is None else "a total has no interval"
    return Summary(metric=name, value=value, n=int(value is not None), note=note)


def _spent(name: str, about: str, unit: Unit, direction: Direction = "lower") -> RunMetric:
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
    score: Callable[[Observation, Judging], Score],
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
    _graded(RECALL, "share of the reference's statements that the returned chunks support", _by_selection(RECALL)),
    _graded(
        RELEVANCE,
        "how relevant the returned chunks are to the question, by two prompts",
        _by_selection(RELEVANCE),
        proxy=RELEVANCE_PROXY,
    ),
    _graded(
        ENTITY_RECALL,
        "share of the reference's entities that the returned chunks name",
        _by_selection(ENTITY_RECALL),
    ),
    _spent("cost/judge_calls", "calls of the judge, every attempt counted", "calls"),
    _spent("cost/judge_cache_hits", "verdicts that needed no call", "calls", "neither"),
    _spent("cost/judge_tokens", "tokens that the judge read and wrote", "total tokens"),
    _spent("cost/judge_usd", "what the judge cost in US dollars, by judge.prices", "USD"),
)

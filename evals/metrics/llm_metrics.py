"""The LLM-graded context metrics of ragas: arithmetic on what the judge said, with our denominators.

An empty result of an in-scope query scores 0 and needs no call. A verdict that could not be had makes the query's score
a failure, not a zero. Source: ragas 0.4.3, `ragas.metrics.collections`.
"""

from collections.abc import Callable, Mapping, Sequence

from evals.collect.observations import Observation, Observed, Score, Summary, Unscored
from evals.judge.ask.budget import Usage
from evals.judge.claim_recall import claim_recall
from evals.judge.precision import NOT_JUDGED, context_precision
from evals.judge.tasks import CLAIM_RECALL, ENTITY_RECALL, PRECISION, RECALL, RELEVANCE, selected, turn, why_not
from evals.judge.verdicts import Judging
from evals.metrics.base import Context, Metric, QueryMetric, RunMetric

SAVED = "cost/judge_calls_saved"


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
        known = why_not(metric, observation)
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
    turns = [turn(observation.case.id, seed) for observation in observations]
    end = min((at for at, score in zip(turns, scores, strict=True) if score == unscored), default=None)
    return [
        score if end is None or at < end or observation.selection else unscored
        for at, score, observation in zip(turns, scores, observations, strict=True)
    ]


def _spent(name: str, about: str) -> RunMetric:
    def summarise(_: Observed, context: Context) -> Summary:
        if context.judging is None:
            return Summary(metric=name, value=None, note="there is no judge (judge.model)")
        return _total(name, context.judging)

    return RunMetric(name=name, about=about, summarise=summarise)


def _total(name: str, judging: Judging) -> Summary:
    value = _SPENT[name](judging.usage)
    note = f"no price for {judging.model} in judge.prices" if value is None else "a total has no interval"
    return Summary(metric=name, value=value, n=int(value is not None), note=note)


def respent(summaries: Sequence[Summary], judging: Judging) -> list[Summary]:
    """The summaries of a run, those of what judging cost by the usage that there is now."""
    return [_total(one.metric, judging) if one.metric in _SPENT else one for one in summaries]


def _saved(_: Observed, context: Context) -> Summary:
    bisected = context.judging.bisected if context.judging else None
    if bisected is None:
        why = "there is no judge (judge.model)" if context.judging is None else "not asked for (judge.recall: bisect)"
        return Summary(metric=SAVED, value=None, note=why)
    return Summary(metric=SAVED, value=float(bisected.saved), n=1, note="a total has no interval")


_SPENT: Mapping[str, Callable[[Usage], float | None]] = {
    "cost/judge_calls": lambda usage: float(usage.calls),
    "cost/judge_cache_hits": lambda usage: float(usage.hits),
    "cost/judge_tokens": lambda usage: float(usage.tokens),
    "cost/judge_usd": lambda usage: usage.usd,
}
_ABOUT = (
    (PRECISION, context_precision, "average precision of the returned chunks by the judge's verdicts"),
    (RECALL, _by_selection(RECALL), "share of the reference's statements that the returned chunks support"),
    (CLAIM_RECALL, claim_recall, "share of the reference's sentences that some returned chunk supports (by name only)"),
    (RELEVANCE, _by_selection(RELEVANCE), "how relevant the returned chunks are to the question, by two prompts"),
    (ENTITY_RECALL, _by_selection(ENTITY_RECALL), "share of the reference's entities that the returned chunks name"),
)
METRICS: tuple[Metric, ...] = (
    *(
        QueryMetric(name=name, scope="in_scope", interval="mean", about=about, score=_scorer(name, score))
        for name, score, about in _ABOUT
    ),
    _spent("cost/judge_calls", "calls of the judge, every attempt counted"),
    _spent("cost/judge_cache_hits", "verdicts that needed no call"),
    _spent("cost/judge_tokens", "tokens that the judge read and wrote"),
    RunMetric(name=SAVED, about="calls on recall that bisection saved (judge.recall: bisect)", summarise=_saved),
    _spent("cost/judge_usd", "what the judge cost in US dollars, by judge.prices"),
)
NAMES = frozenset(metric.name for metric in METRICS)
"""What needs a judge."""
BY_NAME_ONLY = frozenset({CLAIM_RECALL})
"""What no pattern chooses: it buys verdicts that answer a question which another metric answers already."""

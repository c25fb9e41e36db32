"""Quality of recall by bisection: the number of skipped questions, and the audit of them. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from evals.collect.observations import Failure, Observation, Summary, Unscored
from evals.judge.tasks import RECALL, selected
from evals.judge.trust.estimate import Estimate
from evals.judge.verdicts import Bisected
from evals.stats import intervals as stats

# The note of a value that holds scores which nobody asked the judge for begins with it.
APPROXIMATION = "approximation"


def error_rate(bisected: Bisected) -> Estimate:
    """Return the share of audited results that differ from the skipped answer, with Wilson's interval.

    They are a simple random sample of what was skipped, so that results which hang together do not narrow the interval.
    """
    compared, answers = bisected.compared, list(bisected.audited.values())
    n, wrong, failed = len(compared), sum(compared), sum(isinstance(answer, Failure) for answer in answers)
    note = "nothing was skipped" if not bisected.implied else "none of the skipped results was asked about"
    return Estimate(
        value=wrong / n if n else None,
        interval=stats.wilson(wrong, n) if n else stats.Interval(),
        n=n,
        n_queries=len({case for (case, _), answer in bisected.audited.items() if isinstance(answer, float)}),
        n_unscored=sum(isinstance(answer, Unscored) for answer in answers),
        n_failed=failed,
        bound_low=wrong / (n + failed) if failed else None,
        bound_high=(wrong + failed) / (n + failed) if failed else None,
        note="" if n else note,
    )


def taken_over(bisected: Bisected, observations: Sequence[Observation]) -> int:
    """Count the results that take recall from two others that agree, without an answer of their own."""
    implied = [key for o in observations if (key := (o.case.id, selected(o))) in bisected.implied]
    return sum(not isinstance(bisected.audited.get(key), float) for key in implied)


def marked(
    summaries: Sequence[Summary], bisected: Bisected | None, observations: Sequence[Observation]
) -> list[Summary]:
    """Return the summaries, that of recall with the number of values taken over from others.

    Args:
        summaries: Summaries of a run.
        bisected: None where all was asked for.
        observations: The run's.
    """
    count = taken_over(bisected, observations) if bisected else 0
    return [_marked(summary, count) if count and summary.metric == RECALL else summary for summary in summaries]


def _marked(summary: Summary, count: int) -> Summary:
    note = f"{APPROXIMATION}: {count} of {summary.n} by bisection (judge.recall)"
    return replace(summary, note=f"{note}; {summary.note}" if summary.note else note)


def describe(bisected: Bisected) -> str:
    """Describe the recall questions that were skipped, and the audit of them."""
    if not bisected.implied:
        return "judge.recall bisect: every result was asked about, nothing was skipped"
    note = (
        f"{RECALL} is an approximation (judge.recall bisect): {bisected.saved} of "
        f"{bisected.selections} calls saved, as more chunks are taken never to lower it"
    )
    rate = error_rate(bisected)
    missing = rate.n_failed + rate.n_unscored
    also = f" ({missing} without an answer)" if missing else ""
    if rate.value is None:
        return f"{note}; not checked: none of the skipped results was asked about{also}"
    return (
        f"{note}; of {rate.n} skipped results that were asked nevertheless, {sum(bisected.compared)} differ"
        f"{also}: {rate.value:.3f}, 95% interval {rate.interval.low:.3f} … {rate.interval.high:.3f}"
    )

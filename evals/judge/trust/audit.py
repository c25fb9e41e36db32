"""What recall by bisection is worth: how much of it nobody was asked about, and what the audit says of that. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from evals.collect.observations import Failure, Observation, Summary, Unscored
from evals.judge.tasks import RECALL, selected
from evals.judge.trust.estimate import Estimate
from evals.judge.verdicts import Bisected
from evals.stats import intervals as stats


def error_rate(bisected: Bisected) -> Estimate:
    """The share of the skipped results that differ, of those that were asked all the same, with Wilson's interval.

    They are a simple random sample of what was skipped, so that results which hang together do not narrow the interval.
    """
    compared, said = bisected.compared, list(bisected.audited.values())
    n, wrong, failed = len(compared), sum(compared), sum(isinstance(one, Failure) for one in said)
    note = "nothing was skipped" if not bisected.implied else "none of the skipped results was asked about"
    return Estimate(
        value=wrong / n if n else None,
        interval=stats.wilson(wrong, n) if n else stats.Interval(),
        n=n,
        n_queries=len({case for (case, _), one in bisected.audited.items() if isinstance(one, float)}),
        n_unscored=sum(isinstance(one, Unscored) for one in said),
        n_failed=failed,
        bound_low=wrong / (n + failed) if failed else None,
        bound_high=(wrong + failed) / (n + failed) if failed else None,
        note="" if n else note,
    )


def taken_over(bisected: Bisected, observations: Sequence[Observation]) -> int:
    """How many of these results have the recall of two others that agree, and no answer of their own."""
    known = [key for o in observations if (key := (o.case.id, selected(o))) in bisected.implied]
    return sum(not isinstance(bisected.audited.get(key), float) for key in known)


def marked(
    summaries: Sequence[Summary], bisected: Bisected | None, observations: Sequence[Observation]
) -> list[Summary]:
    """The summaries, that of recall with how many of its values were taken over.

    Args:
        summaries: Of a run.
        bisected: None where all was asked for.
        observations: The run's.
    """
    count = taken_over(bisected, observations) if bisected else 0
    return [_marked(one, count) if count and one.metric == RECALL else one for one in summaries]


def _marked(summary: Summary, count: int) -> Summary:
    said = f"approximation: {count} of {summary.n} by bisection (judge.recall)"
    return replace(summary, note=f"{said}; {summary.note}" if summary.note else said)


def describe(bisected: Bisected) -> str:
    """What was not asked about recall, and what the audit of it says."""
    if not bisected.implied:
        return "judge.recall bisect: every result was asked about, nothing was skipped"
    said = (
        f"{RECALL} is an approximation (judge.recall bisect): {bisected.saved} of "
        f"{bisected.selections} calls saved, as more chunks are taken never to lower it"
    )
    found = error_rate(bisected)
    missing = found.n_failed + found.n_unscored
    also = f" ({missing} without an answer)" if missing else ""
    if found.value is None:
        return f"{said}; not checked: none of the skipped results was asked about{also}"
    return (
        f"{said}; of {found.n} skipped results that were asked all the same, {sum(bisected.compared)} differ"
        f"{also}: {found.value:.3f}, 95% interval {found.interval.low:.3f} … {found.interval.high:.3f}"
    )

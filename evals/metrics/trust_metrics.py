"""How far to trust the judge, as metrics of the run."""

from evals.collect.observations import Observed, Summary
from evals.judge.tasks import PRECISION
from evals.judge.trust.trust import summaries
from evals.metrics.base import Context, RunMetric

_ABOUT = {
    "judge/agreement": "share of the judge's verdicts that equal the golden label",
    "judge/kappa": "Cohen's kappa of verdicts and golden labels: agreement beyond chance",
    "judge/false_useful": "share of verdict useful among chunks that are not labelled relevant",
    "judge/false_useless": "share of verdict useless among chunks that are labelled relevant",
    "judge/self_agreement": "share of verdicts that come out the same when given again (judge.rejudge)",
    "judge/noise_share": "share of context precision's variance across queries that is judge noise (judge.rejudge)",
    "judge/bisection_error": "share of skipped recall that differs where asked all the same (judge.recall: bisect)",
    f"{PRECISION}_corrected": "context precision corrected by human verdicts on at least 100 queries",
}
_MISSING = {
    "judge/self_agreement": "not asked for (judge.rejudge)",
    "judge/noise_share": "not asked for (judge.rejudge)",
    "judge/bisection_error": "not asked for (judge.recall: bisect)",
    f"{PRECISION}_corrected": "no case has human_verdicts",
}


def _metric(name: str) -> RunMetric:
    def summarise(_: Observed, context: Context) -> Summary:
        if context.trust is None:
            return Summary(metric=name, value=None, note="there is no judge (judge.model)")
        found = next((one for one in summaries(context.trust) if one.metric == name), None)
        return found or Summary(metric=name, value=None, note=_MISSING.get(name, "no verdict on a labelled chunk"))

    return RunMetric(name=name, about=_ABOUT[name], summarise=summarise)


METRICS: tuple[RunMetric, ...] = tuple(_metric(name) for name in _ABOUT)
NAMES = frozenset(_ABOUT)
"""What needs a judge."""

"""Trust in the judge, as metrics of the run."""

from evals.collect.observations import Observed, Summary
from evals.judge.tasks import PRECISION
from evals.judge.trust.trust import summaries
from evals.metrics.base import Context, RunMetric
from evals.metrics.declaration import SHARE, Direction, Unit

NO_VERDICT = "no verdict on a labelled chunk"
NOT_REJUDGED = "not asked for (judge.rejudge)"


def _metric(
    name: str,
    about: str,
    missing: str,
    *,
    direction: Direction = "higher",
    unit: Unit = "share",
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


METRICS: tuple[RunMetric, ...] = (
    _metric("judge/agreement", "share of the judge's verdicts that equal the golden label", NO_VERDICT),
    _metric(
        "judge/kappa",
        "Cohen's kappa of verdicts and golden labels: agreement beyond chance",
        NO_VERDICT,
        unit="score",
        range=(-1.0, 1.0),
        source="Cohen (1960)",
    ),
    _metric(
        "judge/false_useful",
        "share of verdict useful among chunks that are not labelled relevant",
        NO_VERDICT,
        direction="lower",
    ),
    _metric(
        "judge/false_useless",
        "share of verdict useless among chunks that are labelled relevant",
        NO_VERDICT,
        direction="lower",
    ),
    _metric(
        "judge/self_agreement",
        "share of verdicts that come out the same when given again (judge.rejudge)",
        NOT_REJUDGED,
    ),
    _metric(
        f"{PRECISION}_corrected",
        "context precision by people, estimated from human verdicts on a sample, judges and labels",
        "no case has human_verdicts",
        source="Cochran (1977, chapter 12); Angelopoulos et al. (2023), prediction-powered inference",
    ),
)

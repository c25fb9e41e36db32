"""The judge, as a part of the report."""

from pydantic import Field

from evals.report.model.base import Section
from evals.report.model.trust import TrustSection


class JudgeUsage(Section):
    """Cost of judging."""

    calls: int = Field(ge=0, description="requests to the model, every attempt counted")
    hits: int = Field(ge=0, description="verdicts that needed no request")
    failed: int = Field(ge=0, description="verdicts that could not be had")
    unanswered: int = Field(
        0, ge=0, description="requests without an answer that may have been billed; not in the tokens"
    )
    tokens_in: int = Field(ge=0, description="tokens that the model read")
    tokens_out: int = Field(ge=0, description="tokens that it wrote")
    usd: float | None = Field(description="their price in US dollars; null without an entry in judge.prices")
    stopped: str = Field(description="reason why no further request was made; empty when none was held back")


class Bisection(Section):
    """Recall that was not asked for (judge.recall bisect), and the audit of it.

    A result between two nested ones of the same recall is taken to have it too, so the metric is an approximation. The
    audit asks about some of the skipped results, drawn at random; their answers replace the implied ones.
    """

    metric: str = Field(description="the metric that is an approximation")
    selections: int = Field(ge=0, description="distinct results of the grid, each a call if all were asked about")
    skipped: int = Field(ge=0, description="of them, those that bisection skipped")
    calls_saved: int = Field(ge=0, description="of those, the ones that the audit did not ask about either")
    audited: int = Field(ge=0, description="skipped results that the audit asked about")
    compared: int = Field(ge=0, description="of them, those that have an answer")
    differing: int = Field(ge=0, description="of those, the ones whose answer is not what was taken over")
    error_rate: float | None = Field(description="differing over compared; null when there is none to compare")
    ci_low: float | None = Field(description="lower end of the 95% interval (Wilson); null without a value")
    ci_high: float | None = Field(description="upper end of the 95% interval (Wilson); null without a value")
    note: str = Field(description="reason why there is no error rate; empty when there is one")
    statement: str = Field("", description="the same in a sentence")


class JudgeSample(Section):
    """Random sample of the queries that was judged (judge.sample)."""

    drawn: int = Field(ge=0, description="number of queries in the sample")
    queries: int = Field(ge=0, description="number of in-scope queries")


class TierEntry(Section):
    """A judge of a cascade (judge.tiers), or people, whose verdicts are its last tier (human_verdicts)."""

    model: str = Field(description="provider:model, or people")
    queries: int = Field(ge=0, description="number of queries that it judged")
    queries_in_all: int = Field(ge=0, description="number of in-scope queries")
    usage: JudgeUsage | None = Field(description="cost of this judge; null for people")
    verdicts: int = Field(ge=0, description="number of chunks that the next tier gave a verdict on as well")
    agreement: float | None = Field(
        description="share of those on which both say the same; null for the last tier, or where there are none"
    )
    kappa: float | None = Field(description="Cohen's kappa of the two; null likewise, or where all verdicts are equal")
    weights: dict[str, float] = Field(
        description="by metric, weight of its scores in the mean of the last tier, 0 to 1; empty for the last"
    )
    label_weights: dict[str, float] = Field(
        {}, description="by metric, weight of the golden labels' scores in its own mean; 0 where it judged all queries"
    )


class JudgeSection(Section):
    """The judge of a run."""

    model: str = Field(description="provider:model, of a cascade the strongest")
    usage: JudgeUsage = Field(description="cost of judging, by all judges")
    incomplete: str = Field(description="reason why not everything was judged; empty when it was")
    sample: JudgeSample | None = Field(None, description="the sample that was judged; null where all queries were")
    tiers: list[TierEntry] = Field(
        [], description="the judges of a cascade, the cheapest first, then people; empty where a judge judged alone"
    )
    bisection: Bisection | None = Field(
        None, description="recall that was not asked for; null unless judge.recall is bisect"
    )
    trust: TrustSection | None = Field(description="trust in the judge; null where nothing is known")

"""What the judge said, as a part of the report's schema."""

from pydantic import ConfigDict, Field

from evals.report.schema_model import Section
from evals.report.trust_schema import TrustSection


class UnscoredValue(Section):
    """A score that cannot be computed."""

    model_config = ConfigDict(extra="forbid")
    unscored: str = Field(description="why it cannot be computed")


class FailedValue(Section):
    """A score whose computation failed."""

    model_config = ConfigDict(extra="forbid")
    failed: str = Field(description="type and message of what happened")


ScoreValue = float | UnscoredValue | FailedValue


class Verdict(Section):
    """What the judge said of a returned chunk: a verdict with its reason, or why there is none."""

    verdict: int | None = Field(None, ge=0, le=1, description="1 when the chunk is useful for the reference answer")
    reason: str | None = Field(None, description="the judge's reason")
    unscored: str | None = Field(None, description="why it was not judged")
    failed: str | None = Field(None, description="why judging it failed")


class Claim(Section):
    """A statement of the reference answer, as the judge sees it."""

    statement: str = Field(description="the statement")
    attributed: int = Field(ge=0, le=1, description="1 when what was returned supports it")
    reason: str = Field(description="the judge's reason")


class JudgeUsage(Section):
    """What judging cost."""

    calls: int = Field(ge=0, description="requests to the model, every attempt counted")
    hits: int = Field(ge=0, description="verdicts that needed no request")
    failed: int = Field(ge=0, description="verdicts that could not be had")
    unanswered: int = Field(
        0, ge=0, description="requests without an answer that may have been billed; not in the tokens"
    )
    tokens_in: int = Field(ge=0, description="tokens that the model read")
    tokens_out: int = Field(ge=0, description="tokens that it wrote")
    usd: float | None = Field(description="their price in US dollars; null without an entry in judge.prices")
    stopped: str = Field(description="why no further request was made; empty when none was held back")


class Bisection(Section):
    """Recall that was not asked for (judge.recall bisect), and the audit of it.

    A result between two nested ones of the same recall is taken to have it too, so the metric is an approximation. The
    audit asks about some of the skipped results all the same, drawn at random; their answers replace what was taken.
    """

    metric: str = Field(description="the metric that is an approximation")
    selections: int = Field(ge=0, description="distinct results of the grid, each a call if all were asked about")
    skipped: int = Field(ge=0, description="of them, those that bisection skipped")
    calls_saved: int = Field(ge=0, description="of those, the ones that the audit did not ask about either")
    audited: int = Field(ge=0, description="skipped results that the audit asked about")
    compared: int = Field(ge=0, description="of them, those that have an answer")
    differing: int = Field(ge=0, description="of those, the ones whose answer is not what was taken over")
    error_rate: float | None = Field(description="differing over compared; null when there is none to compare")
    ci_low: float | None = Field(description="lower end of its 95% interval (Wilson); null without a value")
    ci_high: float | None = Field(description="upper end of its 95% interval (Wilson); null without a value")
    note: str = Field(description="why there is no error rate; empty when there is one")


class JudgeSection(Section):
    """The judge of a run."""

    model: str = Field(description="provider:model")
    usage: JudgeUsage = Field(description="what it cost")
    incomplete: str = Field(description="why not everything was judged; empty when it was")
    bisection: Bisection | None = Field(
        None, description="recall that was not asked for; null unless judge.recall is bisect"
    )
    trust: TrustSection | None = Field(description="how far to trust it; null where nothing is known")

"""The judge and how far it can be trusted, as a part of the report."""

from typing import Literal

from pydantic import Field

from evals.report.model.base import MetricEntry, Section


class TrustEntry(MetricEntry):
    """A statistic of the judge, with an interval that draws whole queries."""

    n_queries: int = Field(ge=0, description="number of queries that the values are of")


class Disagreement(Section):
    """A verdict that differs from the label: an error of the judge, or a hole in the labels."""

    query_id: str = Field(description="the query")
    chunk_id: str = Field(description="the chunk")
    verdict: int = Field(ge=0, le=1, description="1 when the judge finds the chunk useful")
    label: int = Field(ge=0, le=1, description="1 when it is relevant by the golden data")
    kind: Literal["false_useful", "false_useless"] = Field(description="useful though not relevant, or the reverse")
    reason: str = Field(description="the judge's reason")


class AgreementSection(Section):
    """Verdicts on returned chunks against the golden labels."""

    n_queries: int = Field(ge=0, description="number of queries")
    n_verdicts: int = Field(ge=0, description="number of verdicts")
    accuracy: TrustEntry = Field(description="share of the verdicts that equal the label")
    kappa: TrustEntry = Field(description="Cohen's kappa: agreement beyond chance, -1 to 1")
    false_useful: TrustEntry = Field(description="share of verdict 1 among label 0")
    false_useless: TrustEntry = Field(description="share of verdict 0 among label 1")
    disagreements: list[Disagreement] = Field(description="verdicts that differ from the label, the most telling first")


class CorrectionEntry(Section):
    """A judged mean, and what human verdicts on a random sample of queries make of it."""

    metric: str = Field(description="the metric")
    raw: TrustEntry = Field(description="the mean as judged")
    labels_alone: TrustEntry = Field(description="the mean of the human verdicts alone")
    corrected: TrustEntry = Field(description="the mean that people would have given all queries, estimated")
    tuning: float | None = Field(
        description="weight of judges and labels together, 0 to 1; null when it was not computed"
    )


class TrustSection(Section):
    """Trust in the judge; null where nothing is known."""

    agreement: AgreementSection | None = Field(description="agreement with the golden labels")
    self_agreement: TrustEntry | None = Field(description="share of the verdicts that it repeats (judge.rejudge)")
    corrections: list[CorrectionEntry] = Field(description="judged means corrected by human verdicts")


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


class JudgeSample(Section):
    """Random sample of the queries that was judged (judge.sample)."""

    drawn: int = Field(ge=0, description="number of queries in the sample")
    queries: int = Field(ge=0, description="number of in-scope queries")


class TierEntry(Section):
    """A judge beside another (judge.second), or people, whose verdicts are its last tier (human_verdicts)."""

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


class JudgeSection(Section):
    """The judge of a run."""

    model: str = Field(description="provider:model; with judge.second the stronger one")
    usage: JudgeUsage = Field(description="cost of judging, by all judges")
    incomplete: str = Field(description="reason why not everything was judged; empty when it was")
    sample: JudgeSample | None = Field(None, description="the sample that was judged; null where all queries were")
    tiers: list[TierEntry] = Field(
        [], description="both judges, the cheaper first, then people; empty where one judged alone"
    )
    trust: TrustSection | None = Field(description="trust in the judge; null where nothing is known")

"""Trust in the judge, as a part of the report."""

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

"""Abstention, as a part of the report."""

from pydantic import Field

from evals.report.model.base import IntervalEntry, Section
from evals.stats.abstention import Separation


class OperatingEntry(Section):
    """Rates of a threshold."""

    threshold: float = Field(description="the threshold")
    false_answer: float | None = Field(description="share of the out-of-scope queries answered; null without any")
    false_abstention: float | None = Field(description="share of the in-scope queries not answered; null without any")
    recall: float | None = Field(description="mean recall in scope at the cut; null where it is not known")


class Separability(Section):
    """Separation of in-scope from out-of-scope queries by their best scores."""

    in_scope: int = Field(ge=0, description="in-scope queries")
    out_of_scope: int = Field(ge=0, description="out-of-scope queries")
    auroc: float | None = Field(description="area under the ROC curve; null without both kinds of query")
    auroc_interval: IntervalEntry = Field(description="95% interval of the AUROC")
    separation: Separation = Field(description="entire, partial or none: how well a threshold separates the two")
    statement: str = Field(description="the same in a sentence")
    curve: list[OperatingEntry] = Field(description="every observed best score as a threshold, ascending")


class WantedEntry(Section):
    """The threshold for a wanted rate of false answers."""

    rate: float = Field(description="largest wanted rate of false answers")
    threshold: float | None = Field(description="least threshold that meets it; null where none does")
    at: OperatingEntry | None = Field(description="rates of that threshold; null without one")
    false_answer_interval: IntervalEntry = Field(description="95% interval of its rate of false answers")
    false_abstention_interval: IntervalEntry = Field(description="95% interval of its rate of false abstentions")
    statement: str = Field(description="the same in a sentence")


class RiskEntry(Section):
    """A point of the risk-coverage curve."""

    threshold: float = Field(description="the threshold")
    coverage: float = Field(description="share of all queries that are answered")
    risk: float = Field(description="mean loss among them")


class AbstentionSection(Section):
    """Abstention under the chosen configuration, at its cut."""

    configuration: str = Field(description="name of the configuration")
    top_k: int = Field(ge=1, description="the cut")
    known: Separability = Field(description="separation of the queries, for any threshold")
    by_threshold: list[OperatingEntry] = Field(description="rates of the thresholds of the grid")
    wanted: list[WantedEntry] = Field(description="thresholds for wanted rates; empty without out-of-scope queries")
    risk_coverage: list[RiskEntry] = Field(description="the curve; empty where relevance is not known in full")
    aurc: float | None = Field(description="the area under it; null without one")

"""The report as one pydantic model, a file a section."""

from evals.report.model.base import IntervalEntry, MetricEntry, SampledEntry, Section
from evals.report.model.facts import CollectionFacts, Facts, JudgeFacts, SavedRetrievalFacts, ServerFacts
from evals.report.model.grid import GridSection
from evals.report.model.judge import JudgeSection
from evals.report.model.queries import ClaimEntry, FailedValue, Hit, QueryRow, ScoreValue, Verdict
from evals.report.model.report import SCHEMA_VERSION, Criterion, Report, Validation

__all__ = [
    "SCHEMA_VERSION",
    "ClaimEntry",
    "CollectionFacts",
    "Criterion",
    "Facts",
    "FailedValue",
    "GridSection",
    "Hit",
    "IntervalEntry",
    "JudgeFacts",
    "JudgeSection",
    "MetricEntry",
    "QueryRow",
    "Report",
    "SampledEntry",
    "SavedRetrievalFacts",
    "ScoreValue",
    "Section",
    "ServerFacts",
    "Validation",
    "Verdict",
]

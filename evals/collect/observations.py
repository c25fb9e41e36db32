"""Records of an evaluation: scores, observations of queries, summaries, verdicts. All are frozen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from evals.cases.case import Case
from evals.cases.relevance import Relevance
from retrievers.records import StageTimings
from retrievers.search.candidates import Hits


@dataclass(frozen=True, kw_only=True, slots=True)
class Unscored:
    """A score that cannot be computed."""

    # The report holds it as {"unscored": reason}.
    __pydantic_config__: ClassVar = ConfigDict(extra="forbid", serialize_by_alias=True)
    reason: Annotated[str, Field(alias="unscored", description="reason why it cannot be computed")]
    missing: Annotated[
        SkipJsonSchema[bool],
        Field(exclude=True, description="true for a score that was not obtained, as when the budget is spent"),
    ] = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """A score, or a verdict of the judge, whose computation failed."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")
    failed: Annotated[str, Field(description="type and message of the failure")]


Score = float | Unscored | Failure
"""A finite number, or the reason for none. It is never NaN, and never a silent 0."""
MAX_FAILED_SHARE = 0.05
VERDICT_METRIC = "queries/pass_rate"
"""The share of the queries whose outcome is SUCCESS."""
Calls = tuple[tuple[str, StageTimings], ...]
"""The query of each call, and the times of its stages."""
Outcome = Literal["SUCCESS", "PARTIAL_SUCCESS", "FAILURE", "UNLABELLED"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """One golden query with the candidates and the result of the retriever.

    Attributes:
        case: The golden query.
        relevance: The chunks that are relevant to the query.
        candidates: The candidates that the search found, at full depth.
        selection: The candidates that threshold and cut left, ranked from 1.
    """

    case: Case
    relevance: Relevance
    candidates: Hits
    selection: Hits

    @property
    def ranked_ids(self) -> tuple[str, ...]:
        """The ids of the returned chunks in rank order; a repeated id counts once."""
        return tuple(dict.fromkeys(self.selection.chunk_ids))

    @property
    def first_relevant(self) -> int | None:
        """The rank of the first relevant candidate, before threshold and cut; None if none is relevant."""
        # Only the ids are read: making a hit of every candidate takes long.
        ranks = enumerate(self.candidates.chunk_ids if self.relevance.grades else (), 1)
        return next((rank for rank, chunk_id in ranks if chunk_id in self.relevance.grades), None)

    @property
    def top_score(self) -> float | None:
        """The best cosine before the threshold; 0 if nothing was found, None if the retriever gives no cosine."""
        if self.candidates.facts.no_cosine:
            return None
        return float(self.candidates.column("semantic").max(initial=0.0))


class Repetition(NamedTuple):
    """A repeated call, compared with the first result of its query.

    Attributes:
        query_id: The query.
        changed: False if the ids are the same in the same order, with scores within 1e-6.
        score_delta: The largest change of a chunk's score; None for a retriever without scores.
    """

    query_id: str
    changed: bool
    score_delta: float | None


@dataclass(frozen=True, kw_only=True)
class Observed:
    """All observations of a run. Every metric is computed from them.

    Attributes:
        observations: One observation for each golden query.
        latency: Number of calls at once to timed single calls, in the order in which they were started; empty if none
            were timed.
        repetitions: Repeated calls, in the order in which they were made; empty if determinism was not measured.
        retriever_notes: Notes of the retriever for the reader of its results.
        unmeasured: Reason why latency and determinism cannot be measured; empty if they can.
        n_lost: Number of queries that were to be timed and repeated when a call failed; else 0.
    """

    observations: tuple[Observation, ...]
    latency: Mapping[int, Calls] = field(default_factory=dict)
    repetitions: Sequence[Repetition] = ()
    retriever_notes: tuple[str, ...] = ()
    unmeasured: str = ""
    n_lost: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledMean:
    """Correction of a mean of judged scores of a sample by the proxy scores of all queries.

    Attributes:
        queries: Number of queries that the mean stands for, judged or not.
        proxy: What the mean was corrected by: a cheaper judge, golden labels, or what serves without
            (`evals.metrics.proxies`).
        weight: Weight of the correction, 0 (judging alone) to 1.
    """

    queries: int
    proxy: str
    weight: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """A metric over a run, over a slice of it, or over a way to retrieve of a grid.

    Attributes:
        metric: Name of the metric.
        value: The mean (or other statistic) over the scored, None when there is none.
        ci_low: Lower end of the 95% interval, None when it is not computable.
        ci_high: Upper end, likewise.
        n: Number of scored values.
        n_unscored: Number of values that could not be scored.
        n_failed: Number of values that failed.
        n_missing: Number of the unscored that have a score which was not obtained (see `Unscored.missing`).
        bound_low: The value if everything that failed or is missing had scored the least that the metric can; None
            without any, and where its range has no such end.
        bound_high: The value if that had scored the most, likewise.
        note: Why there is no value or no interval.
        sampled: How the mean was corrected, where a sample of the queries was judged; else None. `bound_low` and
            `bound_high` are then the 95% bounds of what judging them all would give.
    """

    metric: str
    value: float | None
    ci_low: float | None = None
    ci_high: float | None = None
    n: int = 0
    n_unscored: int = 0
    n_failed: int = 0
    n_missing: int = 0
    bound_low: float | None = None
    bound_high: float | None = None
    note: str = ""
    sampled: SampledMean | None = None

    @property
    def usable(self) -> bool:
        """True if at most 5% of the scores failed, so that the value stands for the run."""
        return self.n_failed <= MAX_FAILED_SHARE * (self.n + self.n_failed)


@dataclass(frozen=True, kw_only=True, slots=True)
class Gate:
    """A criterion and whether the run met it.

    Attributes:
        metric: Name of the metric.
        condition: Such as >= 0.8, or `no worse` for a baseline's.
        figure: Value that was compared; the worse bound where scores failed or are missing and no sample was judged.
        passed: False for an undecided criterion, too.
        reason: Why it is not met; empty when it is.
        undecided: True where the scores that are missing could turn the answer.
    """

    metric: str
    condition: str
    figure: float | None
    passed: bool
    reason: str
    undecided: bool = False

    @property
    def answer(self) -> Literal["pass", "FAIL", "undecided"]:
        """Whether it is met, in one word."""
        return "pass" if self.passed else "undecided" if self.undecided else "FAIL"


class Validation(NamedTuple):
    """Totals of the queries' outcomes: those that pass, those that fail, and those in scope without labels."""

    passed: int
    failed: int
    unlabelled: int

    @classmethod
    def of(cls, outcomes: Sequence[Outcome]) -> "Validation":
        """Return the totals of outcomes; a partial success fails."""
        passed, unlabelled = outcomes.count("SUCCESS"), outcomes.count("UNLABELLED")
        return cls(passed, len(outcomes) - passed - unlabelled, unlabelled)

    @property
    def pass_rate(self) -> float | None:
        """Passed over passed and failed; None where there are none."""
        decided = self.passed + self.failed
        return self.passed / decided if decided else None


@dataclass(frozen=True, kw_only=True)
class ValidationReport:
    """Outcomes of queries, as columns in the order of the queries, named as the fields of a report's query.

    Attributes:
        outcome: The outcomes.
        reasons: Of each, why it is not SUCCESS.
        metadata_accuracy: Share of metadata fields that are right, None when not checked or nothing was returned.
        content_relevance: Share of the first five results that are relevant; out of scope, 1 when abstained; None for
            a query without labels.
        accuracy_score: Mean of the two that are known, None where none is.
        time_ms: Mean wall time of the query's serial calls.
    """

    outcome: tuple[Outcome, ...]
    reasons: tuple[tuple[str, ...], ...]
    metadata_accuracy: tuple[float | None, ...]
    content_relevance: tuple[float | None, ...]
    accuracy_score: tuple[float | None, ...]
    time_ms: tuple[float, ...]

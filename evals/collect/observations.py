"""What an evaluation deals in: scores, what was observed of a query, summaries, verdicts. All frozen."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from evals.golden.case import Case
from evals.golden.evidence import Relevance
from retrievers.records import Candidates, RetrievedChunk


@dataclass(frozen=True, kw_only=True, slots=True)
class Unscored:
    """A value that cannot be computed, and why (an empty result, no sources, no reference).

    Attributes:
        missing: True for a value that exists and was not obtained, such as a verdict that the budget did not buy.
    """

    reason: str
    missing: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """A value whose computation failed: the type and message of what happened."""

    type: str
    message: str


Score = float | Unscored | Failure
"""A finite number, or why there is none. Never NaN, never a silent 0."""
MAX_FAILED_SHARE = 0.05
VERDICT_METRIC = "queries/pass_rate"
"""The share of the queries whose outcome is SUCCESS."""
Outcome = Literal["SUCCESS", "PARTIAL_SUCCESS", "FAILURE"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """One golden query and what the retriever did with it.

    Attributes:
        candidates: What the search found, at full depth.
        selection: What threshold and cut left, in rank order.
    """

    case: Case
    relevance: Relevance
    candidates: Candidates
    selection: tuple[RetrievedChunk, ...]

    @property
    def ranked_ids(self) -> tuple[str, ...]:
        """The ids of the returned chunks in rank order, a repeated one counted once."""
        return tuple(dict.fromkeys(found.chunk.chunk_id for found in self.selection))

    @property
    def candidate_ids(self) -> tuple[str, ...]:
        """The ids of the candidates in rank order, a repeated one counted once."""
        return tuple(dict.fromkeys(found.chunk.chunk_id for found in self.candidates.chunks))

    @property
    def top_score(self) -> float | None:
        """The highest cosine before the threshold, 0 where the search found nothing; None for a retriever without."""
        if self.candidates.no_cosine:
            return None
        return max((c.scores["semantic"] for c in self.candidates.chunks), default=0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One timed search. Stage times in milliseconds; a stage that did not run is absent."""

    query_id: str
    stages: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class LatencyPass:
    """Timed single calls at one concurrency, in the order they were started.

    Attributes:
        differing: Ids of queries whose result differed from the serial one.
    """

    concurrency: int
    calls: tuple[Call, ...]
    differing: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Repetition:
    """A query asked again: whether ids and scores came out the same, by how much scores moved, and what explains it.

    Attributes:
        max_score_delta: None for a retriever without scores.
        cause: `unknown` for one that cannot search again with the first vector.
    """

    query_id: str
    identical: bool
    max_score_delta: float | None
    cause: Literal["", "ties", "index", "embedding", "unknown"] = ""


@dataclass(frozen=True, kw_only=True)
class Observed:
    """All that was observed in a run, from which every metric is computed.

    Attributes:
        listed: Whether relevance is that of all chunks of a collection; else that of the chunks which came back.
        retriever_notes: What a reader must know of the retriever.
    """

    observations: tuple[Observation, ...]
    latency: tuple[LatencyPass, ...] = ()
    repetitions: tuple[Repetition, ...] = ()
    listed: bool = True
    retriever_notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """A metric over a run.

    Attributes:
        value: The mean (or other statistic) over the scored, None when there is none.
        ci_low: Lower end of the 95% interval, None when it is not computable.
        n: How many values it is over.
        n_unscored: How many could not be scored; `n_failed`, how many failed.
        n_missing: Number of the unscored that have a score which was not obtained (see `Unscored.missing`).
        bound_low: The value if everything that failed or is missing had scored 0, `bound_high` 1; None without any.
        note: Why there is no value or no interval.
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

    @property
    def usable(self) -> bool:
        """Whether few enough failed, at most 5%, for the value to stand for the run."""
        return self.n_failed <= MAX_FAILED_SHARE * (self.n + self.n_failed)


@dataclass(frozen=True, kw_only=True, slots=True)
class Gate:
    """A criterion and whether the run met it.

    Attributes:
        figure: Value that was compared; the worse bound where scores failed or are missing.
        passed: False for an undecided criterion, too.
        undecided: True where the scores that are missing could turn the answer.
    """

    metric: str
    condition: str
    figure: float | None
    passed: bool
    reason: str
    undecided: bool = False

    @property
    def verdict(self) -> Literal["pass", "FAIL", "undecided"]:
        """The answer in one word."""
        return "pass" if self.passed else "undecided" if self.undecided else "FAIL"


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryVerdict:
    """Whether one query was answered as it should be, and why not.

    Attributes:
        metadata_accuracy: Share of metadata fields that are right, None when not checked or nothing was returned.
        content_relevance: Share of the first five results that are relevant; out of scope, 1 when abstained.
        accuracy_score: Mean of the two that are known.
        time_ms: Wall time of the query.
    """

    query_id: str
    outcome: Outcome
    reasons: tuple[str, ...]
    metadata_accuracy: float | None
    content_relevance: float
    accuracy_score: float
    time_ms: float


@dataclass(frozen=True, kw_only=True)
class ValidationReport:
    """The verdicts of a run and their totals; partial successes count as failed."""

    total: int
    passed: int
    failed: int
    pass_rate: float
    average_latency_ms: float | None
    p95_latency_ms: float | None
    verdicts: tuple[QueryVerdict, ...]

"""The report of a run: one model, from which JSON, schema, field tables, terminal, page and MLflow follow."""

from typing import Any, Final, Literal

from pydantic import Field

from evals.metrics.declaration import Declaration, Direction
from evals.report.model.base import MetricEntry, Section
from evals.report.model.facts import Facts
from evals.report.model.grid import GridSection
from evals.report.model.judge import JudgeSection
from evals.report.model.queries import Hit, QueryRow

SCHEMA_VERSION: Final = 1


class DifferenceEntry(Section):
    """A metric of this run beside that of the other one, over the queries scored in both."""

    metric: str = Field(description="name of the metric")
    other: float | None = Field(description="mean of the other run, or its statistic of all queries")
    this: float | None = Field(description="mean of this run, or its statistic of all queries")
    difference: float | None = Field(description="this minus other")
    ci_low: float | None = Field(description="lower end of the difference's 95% interval; null: not computable")
    ci_high: float | None = Field(description="upper end of the difference's 95% interval; null: not computable")
    p_adjusted: float | None = Field(description="p value adjusted by Holm over all metrics; null: not paired by query")
    n: int = Field(ge=0, description="queries scored in both; 0 for a statistic of the whole run")
    wins: int = Field(ge=0, description="queries on which this run is better")
    ties: int = Field(ge=0, description="queries on which both are equal")
    losses: int = Field(ge=0, description="queries on which this run is worse")
    verdict: Literal["better", "worse", ""] = Field(description="this run, where the difference is proved; else empty")


class FlipEntry(Section):
    """A query whose score by a metric changed, with both results."""

    id: str = Field(description="id of the query")
    query: str = Field(description="the query")
    metric: str = Field(description="the metric")
    other: float = Field(description="its score in the other run")
    this: float = Field(description="its score in this run")
    other_retrieved: list[Hit] = Field(description="first chunks that the other run returned")
    this_retrieved: list[Hit] = Field(description="first chunks that this run returned")


class ComparedSection(Section):
    """This run beside another one of the same queries."""

    name: str = Field(description="name of the other run, or the file of its report")
    settings: str = Field(description="its most important settings, in a line")
    started_at: str = Field(description="when it was measured")
    commit: str = Field(description="commit that it was measured with")
    changed: list[str] = Field(description="settings that differ, from the other run to this one")
    differences: list[DifferenceEntry] = Field(description="every metric that both have")
    flipped: list[FlipEntry] = Field(
        description="queries that changed, those whose change is in the direction of the mean first; at most 20"
    )
    by_query: dict[str, dict[str, float]] = Field(
        {}, description="the leading ranking metric: query id to this minus other, of every query that changed"
    )


class HeadSection(Section):
    """What a reader must know first."""

    verdict: str = Field(description="pass rate, hit rate, recall, false answers, main cause of failure, in a sentence")
    tone: Literal["good", "mixed", "bad"] = Field(
        description="good: all criteria are met and most queries pass; bad: one is not met, or something is missing"
    )
    criteria: str = Field(description="the criteria in a sentence")
    index: str = Field("", description="that the index, not the model, loses near chunks; empty where it does not")
    causes: dict[str, int] = Field(description="cause of failure to its number of queries, the most frequent first")
    next_flags: str = Field(description="flags of evals.run for the run that may say how to mend the main cause")


class SliceMetric(Section):
    """A metric over the queries of a slice."""

    value: float = Field(description="mean over the scored queries")
    ci_low: float | None = Field(description="lower end of the 95% interval; null when it cannot be computed")
    ci_high: float | None = Field(description="upper end of the 95% interval; null when it cannot be computed")
    n: int = Field(ge=1, description="number of scored queries")
    n_failed: int = Field(0, ge=0, description="number of scores that failed")


class SliceEntry(Section):
    """The queries of one type, or with one tag."""

    by: Literal["query_type", "tag"] = Field(description="what the queries have in common")
    name: str = Field(description="the type or the tag")
    n: int = Field(ge=1, description="number of queries")
    metrics: dict[str, SliceMetric] = Field(description="every metric that scores any of them, by name")


class CacheEntry(Section):
    """Look-ups of a cache during a run."""

    hits: int = Field(ge=0, description="look-ups that found what they looked for")
    lookups: int = Field(ge=0, description="all look-ups; 0 where the cache is off or is not asked")
    rate: float | None = Field(description="hits over look-ups; null without any")


class Criterion(Section):
    """A criterion of the experiment, and the run's answer to it."""

    metric: str = Field(description="name of the metric")
    condition: str = Field(description="such as >= 0.8")
    figure: float | None = Field(description="what was compared: the value, or the worse bound where scores failed")
    passed: bool = Field(description="true if the condition is met")
    reason: str = Field(description="why not; empty when it is met")
    undecided: bool = Field(False, description="true where scores that failed or are missing could turn the answer")

    @property
    def verdict(self) -> Literal["pass", "FAIL", "undecided"]:
        """The answer in one word."""
        return "pass" if self.passed else "undecided" if self.undecided else "FAIL"


class Validation(Section):
    """Totals of the queries' verdicts."""

    total: int = Field(ge=0, description="queries")
    passed: int = Field(ge=0, description="queries whose outcome is SUCCESS")
    failed: int = Field(ge=0, description="the others that have labels or are out of scope")
    unlabelled: int = Field(0, ge=0, description="queries in scope without labels: neither passed nor failed")
    pass_rate: float | None = Field(ge=0, le=1, description="passed over passed and failed; null: there are none")
    average_latency_ms: float | None = Field(description="mean time of the serial calls; null when not measured")
    p95_latency_ms: float | None = Field(description="95th percentile of the serial calls; null when not measured")


class OwnMetric(Section):
    """A metric of the user's own."""

    name: str = Field(description="its name")
    about: str = Field(description="one line about it")
    unit: str = Field(description="unit of its values")
    direction: Direction = Field(description="which values are better")

    @property
    def declaration(self) -> Declaration:
        """The metric, without its computation."""
        return Declaration(name=self.name, about=self.about, unit=self.unit, direction=self.direction)


class RagasDifference(Section):
    """A score that ragas' own class gives otherwise."""

    metric: str = Field(description="name of the metric")
    id: str = Field(description="id of the query")
    here: float = Field(description="score in this report")
    ragas: float = Field(description="score by ragas' class")


class RagasCheck(Section):
    """What ragas' own classes say of the results that are shown."""

    status: Literal["pending", "equal", "differs", "unchecked"] = Field(
        description="pending: ragas has not scored them yet; unchecked: it could not"
    )
    version: str = Field(description="version of ragas")
    metrics: list[str] = Field(description="the metrics that it scored")
    scores: int = Field(0, ge=0, description="scores that were compared, of results that have a chunk")
    n_differing: int = Field(0, ge=0, description="scores that differ by more than 1e-9")
    differing: list[RagasDifference] = Field([], description="the first of these, at most 20")
    reason: str = Field("", description="why scores were not compared; empty when all were")

    @property
    def line(self) -> str:
        """The outcome in a sentence; empty while it is pending."""
        if self.status == "pending":
            return ""
        if self.status == "unchecked":
            return f"ragas {self.version} compared nothing: {self.reason or 'no result has a chunk'}"
        rest = f"; {self.reason}" if self.reason else ""
        if not self.n_differing:
            return f"ragas {self.version}: equal ({self.scores:,} scores by its {len(self.metrics)} classes){rest}"
        named = [f"{one.metric} of {one.id} is {one.here:.6g} here, {one.ragas:.6g} by ragas" for one in self.differing]
        more = f", and {self.n_differing - 3:,} more" if self.n_differing > 3 else ""
        differ = f"ragas {self.version} scores {self.n_differing:,} of {self.scores:,} otherwise"
        return f"{differ}: {', '.join(named[:3])}{more}{rest}"

    @property
    def problem(self) -> str:
        """The outcome where a figure is not that of ragas; else empty."""
        return self.line if self.status == "differs" else ""


class Report(Section):
    """A run of evals.run. Fields may be added without a new schema_version: readers must ignore unknown ones."""

    schema_version: Literal[1] = Field(description="rises when a field goes, or changes its name, type or meaning")
    name: str = Field(description="name of the experiment")
    run: str = Field("", description="name of the run; empty in reports of older versions")
    passed: bool = Field(description="true if every criterion is met and nothing is missing")
    incomplete: str = Field("", description="why it cannot pass: what is missing or failed too often; else empty")
    settings: str = Field("", description="the retriever's most important settings, in a line")
    facts: Facts = Field(description="facts that make runs comparable")
    config: dict[str, Any] = Field(description="the resolved configuration")
    metrics: dict[str, MetricEntry] = Field(description="every metric of the run, by name")
    ragas_check: RagasCheck | None = Field(
        None, description="the same scores by ragas itself; absent where no metric is one of ragas'"
    )
    own_metrics: list[OwnMetric] = Field([], description="those of the user's own; absent without any")
    headline: list[str] = Field([], description="the metrics that the terminal shows without --verbose")
    head: HeadSection | None = Field(None, description="the run in a sentence; null in reports of older versions")
    criteria: list[Criterion] = Field(description="what the experiment demands")
    reference: ComparedSection | None = Field(
        None, description="this run beside the experiment's reference, measured in the same run; null without one"
    )
    baseline: ComparedSection | None = Field(
        None, description="this run beside the baseline, against which nothing may be worse; null without one"
    )
    slices: list[SliceEntry] = Field([], description="the metrics by query type and by tag")
    validation: Validation = Field(description="totals of the verdicts")
    notes: list[str] = Field(description="what a reader must know beside the figures")
    caches: dict[str, CacheEntry] = Field({}, description="look-ups of the caches: embedding, result, judge")
    judge: JudgeSection | None = Field(None, description="the LLM judge; null without one")
    grid: GridSection | None = Field(None, description="the grid whose chosen cell this run is; absent without one")
    texts: dict[str, str] = Field({}, description="chunk id to the whole text of every returned chunk, once")
    queries: list[QueryRow] = Field(description="one entry a query, in the order of the golden data")

    def plain(self) -> dict[str, Any]:
        """Return the report as plain JSON values, as its file holds them: without the fields that were not set."""
        return self.model_dump(mode="json", exclude_unset=True)

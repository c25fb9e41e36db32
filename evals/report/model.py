"""The model of a report. JSON, its schema, the tables of its fields, terminal, page and MLflow follow from it.

Records of the evaluation are sections of the report as they are. This file defines all other sections. A report stores
scores by metric in the order of the queries, and each chunk once. When it is made or read, each row gets its scores,
and each hit its chunk.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from math import inf, isinf
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, field_validator
from pydantic.json_schema import SkipJsonSchema

from evals.collect.observations import Failure, Gate, Outcome, Summary, Unscored, Validation
from evals.config.experiment import ExperimentConfig
from evals.grid.choice import Choice, HeldOut
from evals.grid.decision import Decision
from evals.judge.budget import Usage
from evals.judge.trust import Differing
from evals.judge.verdicts import ChunkVerdict, Claim
from evals.metrics import declared
from evals.metrics.declaration import Declaration, Direction
from evals.stats.abstention import Signal
from retrievers.config.settings import Settings

SCHEMA_VERSION: Final = 2
# Condition that a baseline sets for a metric: it is not proved worse.
NO_WORSE: Final = "no worse"
Count = Annotated[int, Field(ge=0)]
# An end of a range. JSON lacks infinity, so that an infinite end is null.
End = Annotated[float | None, BeforeValidator(lambda end: None if end is None or isinf(end) else end)]
Setting = str | bool | int | float | None
# Most characters of a chunk's text that a line or a card shows.
PREVIEW = 200
# Causes of an outcome in scope, then the causes out of scope that differ.
Cause = Literal[
    "right",
    "rightly nothing",
    "not labelled",
    "details wrong",
    "ranked too low",
    "cut by the threshold",
    "not a candidate",
    "nothing returned",
    "too few returned",
    "wrongly answered",
]


class Part(BaseModel):
    """A part of the report. Unknown fields are ignored, so that a later version may add fields."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)

    @classmethod
    def of(cls, record: object) -> Self:
        """Return the part whose fields a record has, as attributes or keys. Further ones are ignored."""
        return cls.model_validate(record, strict=False, from_attributes=True)


class CollectionFacts(Part):
    """The collection that was searched.

    Attributes:
        name: Name of the collection.
        points: Number of points.
        fingerprint: SHA-256 over points and content.
        content: Dimension, distance, vectors and sparse_vectors by name, and the recorded embedding model. sample_hash
            is the SHA-256 over the content of sampled_points points, at most 256.
    """

    name: str
    points: Count
    fingerprint: str
    content: dict[str, Any] = {}


class JudgeFacts(Part):
    """Everything besides the question that the verdicts of the judge depend on.

    Attributes:
        provider: Provider of the model.
        model: Name of the model, as the provider knows it.
        parameters: Temperature, seed and the like.
        fingerprint: SHA-256 over these fields and the version of ragas, which has the prompts.
    """

    provider: str
    model: str
    parameters: dict[str, Any]
    fingerprint: str


class Facts(Part):
    """Fingerprints, versions, commit, seed, times.

    Attributes:
        started_at: Start of the run, ISO 8601 with time zone.
        duration_s: Duration of the run, in seconds.
        dataset: Source of the golden queries: a path or a hub id.
        dataset_fingerprint: SHA-256 over the content of the chosen cases.
        retriever: Class of the retriever.
        collection: The searched collection; null if the chunks of the retriever cannot be listed. Relevant chunks were
            then looked for among the returned ones.
        collection_changed: What changed in the collection during the run. A change leaves every criterion undecided.
        saved_retrieval: File of the saved retrieval that the run started from, and when it was saved.
        embedding: Provider:model of the embedding, or its class; null if not known.
        judge: The LLM judge; absent without one.
        versions: Versions of Python and of the libraries that scores depend on.
        commit: Commit of the working directory, with -dirty if files differ; or unknown.
    """

    started_at: str
    duration_s: float | None = Field(None, ge=0)
    dataset: str
    dataset_fingerprint: str
    retriever: str | None = None
    collection: CollectionFacts | None = None
    collection_changed: str | None = None
    saved_retrieval: str | None = None
    embedding: str | None = None
    judge: JudgeFacts | None = None
    versions: dict[str, str]
    commit: str


ScoreValue = float | Unscored | Failure


class ChunkEntry(Part):
    """A chunk that some query returned, or that was among its best candidates.

    Attributes:
        source: Path:start-end of the chunk in its source.
        breadcrumb: Module, chapter and heading.
        text: Whole text of the chunk.
    """

    source: str
    breadcrumb: str = ""
    text: str = ""


def preview(text: str) -> str:
    """Return the beginning of a chunk's text in one line."""
    whole = " ".join(text.split())
    return whole if len(whole) <= PREVIEW else f"{whole[: PREVIEW - 1]}…"


class Hit(Part):
    """A returned chunk.

    Attributes:
        rank: Place in the result, from 1.
        chunk_id: Id of the chunk. The chunk itself is in chunks.
        score: Score that the chunk was ranked by; null for a retriever without scores.
        scale: Scale of the score, such as cosine or weighted.
        scores: Scores that the score is made of, such as semantic and keyword.
        grade: Relevance of the chunk to the query; 0: not relevant.
        judge: Verdict of the judge with its reason, or why there is none; null if the judge was not asked.
        chunk: Source and text of the chunk, which the report gives. It is not written.
    """

    rank: int = Field(ge=1)
    chunk_id: str
    score: float | None
    scale: str = ""
    scores: dict[str, float] = {}
    grade: Count
    judge: ChunkVerdict | Unscored | Failure | None = None
    chunk: SkipJsonSchema[ChunkEntry] = Field(ChunkEntry(source=""), exclude=True)

    @property
    def verdict(self) -> int | None:
        """1 if the judge finds the chunk useful, 0 if not, None without a verdict."""
        return self.judge.verdict if isinstance(self.judge, ChunkVerdict) else None

    @property
    def said(self) -> str:
        """Reason of the judge, or why there is no verdict; empty if the judge was not asked."""
        return getattr(self.judge, "failed", "") or getattr(self.judge, "reason", "")


class QueryRow(Part):
    """A golden query with its labels and its result, and whether it passed.

    Attributes:
        id: Id of the case.
        query: The query.
        fingerprint: SHA-256 over everything in the case that a score can depend on (not tags, type and split).
        in_scope: True if the documents answer it.
        query_type: Kind of the query.
        tags: Tags of the case.
        reference_answer: The right answer.
        expected: Places that the evidence names, the most relevant first.
        relevant: Chunk id to grade of every relevant chunk. A chunk that the collection lacks counts as not retrieved.
        irrelevant: Chunks that were judged and found not relevant.
        first_relevant: Rank of the first relevant candidate, before threshold and cut; null if none is relevant.
        top_score: Best cosine before the threshold, 0 if nothing was found; null for a retriever without cosines.
        retrieved: Returned chunks, in rank order.
        best_below_threshold: The three best candidates, if nothing was returned.
        claims: Statements of the reference answer as the judge sees them; empty if the judge was not asked.
        outcome: Whether the query passed. A partial success did not pass; without labels, it is not known.
        reasons: Why the outcome is not SUCCESS.
        cause: Cause of the outcome in a few words.
        metadata_accuracy: Share of metadata fields that are right; null if none was checked.
        content_relevance: Share of the first five chunks that is relevant; out of scope 1 or 0; null without labels.
        accuracy_score: Mean of metadata_accuracy and content_relevance, or the one that is known; null if none is.
        time_ms: Mean wall time of the query's serial calls.
        stages_ms: Embed, search, rerank, total: milliseconds of the query's first serial call. If no calls were timed,
            the query's share of its batch.
        scores: Metric to the score of the query, or why there is none. The report gives it, and it is not written.
        proxies: Judged metric to its proxy, the score that foretells it, likewise.
    """

    id: str
    query: str
    fingerprint: str | None = None
    in_scope: bool
    query_type: str | None = None
    tags: list[str] = []
    reference_answer: str | None = None
    expected: list[str] = []
    relevant: dict[str, int]
    irrelevant: list[str] = []
    first_relevant: int | None = None
    top_score: float | None
    retrieved: list[Hit]
    best_below_threshold: list[Hit] = []
    claims: list[Claim] = []
    outcome: Outcome
    reasons: list[str]
    cause: Cause | None = None
    metadata_accuracy: float | None = None
    content_relevance: float | None = None
    accuracy_score: float | None = None
    time_ms: float = Field(ge=0)
    stages_ms: dict[str, float] = {}
    scores: SkipJsonSchema[dict[str, ScoreValue]] = Field({}, exclude=True)
    proxies: SkipJsonSchema[dict[str, float]] = Field({}, exclude=True)

    @property
    def passed(self) -> float | None:
        """1 if the query passed, 0 if not; None without labels, as it is not known."""
        return None if self.outcome == "UNLABELLED" else float(self.outcome == "SUCCESS")


class DifferenceEntry(Part):
    """A metric in two runs.

    Attributes:
        metric: Name of the metric.
        baseline: Mean of the baseline over the queries scored in both runs, or a statistic of the whole run.
        other: The same for the other run.
        low: Lower end of the 95% interval of other − baseline; null without an interval.
        high: Upper end of the interval; null without an interval.
        wins: Number of queries on which the other run is better; 0 for a statistic of the whole run.
        ties: Number of queries on which both runs are equal; 0 for a statistic of the whole run.
        losses: Number of queries on which the other run is worse; 0 for a statistic of the whole run.
        verdict: Whether the other run is proved better or worse, by Holm's adjustment over all metrics.
    """

    metric: str
    baseline: float | None = None
    other: float | None = None
    low: float | None = None
    high: float | None = None
    wins: Count = 0
    ties: Count = 0
    losses: Count = 0
    verdict: Literal["better", "worse", ""] = ""

    @property
    def difference(self) -> float | None:
        """The other run's value less the baseline's."""
        return None if self.baseline is None or self.other is None else self.other - self.baseline


class ComparedSection(Part):
    """This run beside a baseline: an earlier run of the same queries.

    Attributes:
        about: The baseline in a sentence: its file, settings, time and commit.
        differences: Every metric that both runs have.
    """

    about: str = ""
    differences: tuple[DifferenceEntry, ...]


class SliceEntry(Part):
    """The queries of one type, or with one tag.

    Attributes:
        by: What the queries have in common.
        name: Name of the type or the tag.
        n: Number of queries.
        metrics: Every metric that scores any of the queries, by name.
    """

    by: Literal["query_type", "tag"]
    name: str
    n: int = Field(ge=1)
    metrics: dict[str, Summary]


class OwnMetric(Part):
    """A metric that the user declared.

    Attributes:
        name: Name of the metric.
        about: One line about the metric.
        unit: Unit of its values.
        direction: Which values are better.
        range: Lowest and highest possible value; null for an end without limit.
    """

    name: str
    about: str
    unit: str
    direction: Direction
    range: tuple[End, End] = (None, None)

    @property
    def declaration(self) -> Declaration:
        """The declaration of the metric, without its computation."""
        low, high = self.range
        ends = (-inf if low is None else low, inf if high is None else high)
        return Declaration(name=self.name, about=self.about, unit=self.unit, direction=self.direction, range=ends)


class RagasCheck(Part):
    """Comparison with the scores of ragas' own classes.

    Attributes:
        status: Pending: ragas has not scored the results yet. Unchecked: it could not score them.
        line: The outcome in a sentence, with the first scores that differ by more than 1e-9; empty while it is pending.
    """

    status: Literal["pending", "equal", "differs", "unchecked"]
    line: str = ""

    @property
    def problem(self) -> str:
        """The outcome if a score differs from that of ragas; else empty."""
        return self.line if self.status == "differs" else ""


class JudgeSection(Part):
    """The judge of a run. The metrics judge/* and the metrics that end in _corrected tell how far to trust it.

    Attributes:
        usage: Cost of judging, by all judges.
        incomplete: Reason why not everything was judged; empty if everything was.
        drawn: Number of in-scope queries in the judged sample; null if all queries were judged.
        lines: A line for each judge: its queries, its cost, and how far the next judge or people agree with it.
        disagreements: Verdicts that differ from the label. Queries with most of them come first.
    """

    usage: Usage
    incomplete: str
    drawn: int | None = None
    lines: list[str] = []
    disagreements: tuple[Differing, ...] = ()


class RankingSection(Part):
    """The ranking of the cells by the objective.

    Attributes:
        metrics: Metrics of the objective to their weights.
        n: Metric to the number of queries on which cells are compared.
        dropped: Metric to the number of queries that are scored in some cells and not in all.
        constraints: Metric to the condition that a cell must meet.
        excluded: Number of cells that do not meet the constraints.
        reason: Reason why cells are not ranked; empty if they are.
        order: Numbers of the cells that meet the constraints, from the best.
        values: Value of the objective, by cell.
    """

    metrics: dict[str, float] = Field(validation_alias=AliasChoices("metrics", "weights"))
    n: dict[str, int]
    dropped: dict[str, int]
    constraints: dict[str, str]
    excluded: Count
    reason: str
    order: list[int]
    values: list[float | None]

    @property
    def objective(self) -> str:
        """The objective that orders the cells, such as `ranking/mrr_at_5 + 0.5 × ranking/recall_at_5`."""
        return " + ".join(name if weight == 1 else f"{weight:g} × {name}" for name, weight in self.metrics.items())


class ConfigurationEntry(Part):
    """A way to retrieve, for which the search ran once.

    Attributes:
        name: Settings in a few words.
        parameters: Settings in which the configurations differ.
        metrics: Metrics of the configuration that do not depend on the cell: latency, determinism, separation.
    """

    name: str
    parameters: dict[str, Setting]
    metrics: dict[str, Summary]


class CellColumns(Part):
    """The cells, by columns. The number of a cell is its place in the columns.

    Attributes:
        configuration: Place of the cell's configuration in configurations, from 0.
        top_k: Cut of the cell.
        threshold: Threshold of the cell; null if it has none.
    """

    configuration: list[int]
    top_k: list[int]
    threshold: list[float | None]

    def __len__(self) -> int:
        """Return the number of cells."""
        return len(self.top_k)


class GridMetric(Part):
    """A metric of every cell.

    Attributes:
        mean: Mean over the scored queries, by cell; null if no query is scored.
        n: Number of scored queries, by cell; a single number if it is the same for all cells.
        n_failed: Number of queries whose score failed, by cell; a single number if it is the same for all cells.
    """

    mean: list[float | None]
    n: int | list[int]
    n_failed: int | list[int]


class ResultsByCell(Part):
    """The result of each cell for each query. Results are beginnings of lists, which thresholds leave.

    Attributes:
        metrics: Metrics of the objective that score queries in scope. Their weighted mean is the gain.
        gain: Mean gain, by cell.
        bands: Lower and upper ends by cell of found (the gain), scope/false_abstention and scope/false_answer. They
            hold with 95% for all cells of a configuration and all three metrics at once.
        chunks: Chunk id to every chunk of a list, with the beginning of its text.
        lists: Each list as places in chunks, in rank order.
        list_of: By configuration, then threshold, then query: the number of the list that the threshold leaves. A cell
            returns the first top_k chunks of the list.
        scores: Distinct gains of results.
        found: By list, then by number of returned chunks: the place of the gain in scores; -1: not scored.
        passes: By list, then by number of returned chunks: 1 if the query passes, 0 if it fails, -1 if it is not known.
    """

    metrics: list[str]
    gain: list[float | None]
    bands: dict[str, tuple[list[float], list[float]]]
    chunks: dict[str, ChunkEntry]
    lists: list[list[int]]
    list_of: list[list[list[int]]]
    scores: list[float]
    found: list[list[int]]
    passes: list[list[int]]


class GridSection(Part):
    """The grid whose recommended cell a run is. Lists of figures are by cell, in the order of cells.

    Attributes:
        axes: Every axis of the sweep, with its values.
        ranking: The cells by the objective.
        choice: The recommended cell, and the evidence for it; null if cells could not be ranked.
        decision: Cells to take for several limits of wrong answers; null without both kinds of query.
        results: The result of every cell for every query; absent if a page has no room for it.
        held_out: Figure of the recommended cell on held-out queries, which is unbiased; null without such queries.
        proof: What the bought verdicts prove; empty unless judge.stop has a margin.
        explanation: The choice and the held-out figure in sentences; or why no cell was chosen.
        signals: How far the score that the threshold reads tells queries in scope from others, under the configuration
            of the recommended cell; then the same for other scores of the search. Empty without both kinds of query.
        configurations: Each way to retrieve.
        cells: The cells, by columns.
        metrics: Every metric over queries, by name.
    """

    axes: dict[str, list[Setting]]
    ranking: RankingSection
    choice: Choice | None
    decision: Decision | None = None
    results: ResultsByCell | None = None
    held_out: HeldOut | None = None
    proof: str = ""
    explanation: list[str]
    signals: tuple[Signal, ...] = ()
    configurations: list[ConfigurationEntry]
    cells: CellColumns
    metrics: dict[str, GridMetric]

    @property
    def chosen(self) -> int | None:
        """Number of the recommended cell, which the report is of; None if cells are not ranked."""
        return self.choice.recommended.cell if self.choice else None

    def configuration_of(self, cell: int) -> ConfigurationEntry:
        """Return the configuration of a cell."""
        return self.configurations[self.cells.configuration[cell]]

    @property
    def addresses(self) -> list[str]:
        """Name of each cell in an address, such as `hybrid-weighted-k8-t0.3`."""
        ways = [re.sub(r"[^a-z0-9.]+", "-", entry.name.lower()).strip("-") for entry in self.configurations]
        columns = zip(self.cells.configuration, self.cells.top_k, self.cells.threshold, strict=True)
        cuts = ((ways[way], f"k{top_k}", "" if t is None else f"t{t:.12g}") for way, top_k, t in columns)
        return ["-".join(filter(None, parts)) for parts in cuts]


class Report(Part):
    """A run of evals.run. Fields may be added without a new schema_version: readers must ignore unknown ones.

    Attributes:
        schema_version: Version of the schema. It rises when older reports can no longer be read.
        name: Name of the experiment.
        run: Name of the run.
        passed: True if every criterion is met and nothing is missing.
        incomplete: What is missing or failed too often, so that the run cannot pass; else empty.
        settings: The retriever's most important settings, in a line.
        facts: Facts that make runs comparable.
        config: The resolved configuration.
        metrics: Every metric of the run, by name.
        ragas_check: Comparison with the scores of ragas itself; null if no metric is one of ragas'.
        own_metrics: Metrics that the user declared.
        headline: The leading metrics, those with a criterion, and those that the experiment names. Of them the terminal
            shows nine and what fails, without --verbose.
        verdict: Pass rate, hit rate, recall, false answers, main cause of failure, in a sentence.
        next_flags: Flags of evals.run for a useful next run: a grid, or what follows a grid.
        criteria: Criteria of the experiment with the answers of the run.
        baseline: This run beside the baseline, against which nothing may be worse; null without one.
        slices: The metrics by query type and by tag.
        notes: What a reader must know beside the figures.
        judge: The LLM judge; null without one.
        grid: The grid whose recommended cell this is; null for a single run.
        chunks: Chunk id to every chunk that a query names in retrieved.
        scores: Metric to the score of each query, in the order of queries: a number, or why there is none; null if the
            metric does not score the query.
        proxies: Judged metric to its proxy (labels, or words of the reference answer), which corrects a mean.
        queries: An entry for each query, in the order of the golden data.
    """

    schema_version: Literal[2]
    name: str
    run: str = ""
    passed: bool
    incomplete: str = ""
    settings: str = ""
    facts: Facts
    config: dict[str, Any]
    metrics: dict[str, Summary]
    ragas_check: RagasCheck | None = None
    own_metrics: list[OwnMetric] = []
    headline: list[str] = []
    verdict: str = ""
    next_flags: str = ""
    criteria: tuple[Gate, ...]
    baseline: ComparedSection | None = None
    slices: list[SliceEntry] = []
    notes: list[str]
    judge: JudgeSection | None = None
    grid: GridSection | None = None
    chunks: dict[str, ChunkEntry] = {}
    scores: dict[str, list[ScoreValue | None]] = {}
    proxies: dict[str, list[float | None]] = {}
    queries: list[QueryRow]

    def model_post_init(self, _: object) -> None:
        """Give each row its scores, and each hit its chunk.

        Raises:
            ValueError: A query is named twice, or scores are of more or fewer queries.
        """
        columns: Iterable[Sequence[object]] = (*self.scores.values(), *self.proxies.values())
        lengths = {*map(len, columns)} - {0, len(self.queries)}
        if lengths or len({row.id for row in self.queries}) < len(self.queries):
            raise ValueError("a query is named twice, or scores are of more or fewer queries: was the file edited?")
        for place, row in enumerate(self.queries):
            vars(row).update(scores=of_row(self.scores, place), proxies=of_row(self.proxies, place))
        results = [hits for row in self.queries for hits in (row.retrieved, row.best_below_threshold)]
        for hit in chain.from_iterable(results):
            vars(hit).update(chunk=self.chunks.get(hit.chunk_id, hit.chunk))

    @property
    def in_scope(self) -> int:
        """Number of golden queries that the documents answer."""
        return sum(row.in_scope for row in self.queries)

    def declared(self, metric: str) -> Declaration:
        """Return the declaration of a metric: of the user's own that of this report, since this process may differ."""
        return next((own.declaration for own in self.own_metrics if own.name == metric), declared(metric))

    @property
    def validation(self) -> Validation:
        """Totals of the outcomes."""
        return Validation.of([row.outcome for row in self.queries])

    @field_validator("config")
    @classmethod
    def _has_tables(cls, config: dict[str, Any]) -> dict[str, Any]:
        for name, field in ExperimentConfig.model_fields.items():
            is_table = isinstance(field.annotation, type) and issubclass(field.annotation, Settings)
            if is_table and not isinstance(config.get(name, {}), dict):
                raise ValueError(f"{name}: expected a table of settings")
        return config

    def plain(self) -> dict[str, Any]:
        """Return the report as plain JSON values, without fields that were not set. Its file holds the same."""
        return self.model_dump(mode="json", exclude_unset=True)


def of_row(columns: Mapping[str, Sequence[Any]], place: int) -> dict[str, Any]:
    """Return the scores of a query by metric; a metric that does not score it is left out."""
    return {name: column[place] for name, column in columns.items() if column and column[place] is not None}

"""The report of a run: one model, from which JSON, schema, field tables, terminal, page and MLflow follow.

Records of the evaluation are its sections as they are; what is defined here is what only a report has. Scores stand by
metric in the order of the queries, and each chunk once: a row finds its own among them when the report is made or read.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from math import inf, isinf
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    field_validator,
)

from evals.collect.observations import Gate, Outcome, Summary, Unscored, Validation
from evals.config.experiment import ExperimentConfig
from evals.grid.choice import HeldOut
from evals.grid.decision import Level
from evals.judge.budget import Usage
from evals.judge.trust import Differing
from evals.judge.verdicts import ChunkVerdict, Claim
from evals.metrics.declaration import Declaration, Direction
from evals.stats.abstention import Signal
from retrievers.config.settings import Settings

SCHEMA_VERSION: Final = 2
Count = Annotated[int, Field(ge=0)]
# An end of a range; an infinite one, which JSON lacks, is null.
End = Annotated[float | None, BeforeValidator(lambda end: None if end is None or isinf(end) else end)]
Setting = str | bool | int | float | None
# Characters of a chunk's text that a line or a card shows.
PREVIEW = 200
# From the best to the worst, in scope first.
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
    """A part of the report. An unknown field is ignored, so that a later version may add some."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)

    @classmethod
    def of(cls, record: object) -> Self:
        """Return the section of a record that has its fields, and perhaps more, as attributes."""
        return cls.model_validate(record, strict=False, from_attributes=True)


class CollectionFacts(Part):
    """The collection that was searched.

    Attributes:
        name: Name of the collection.
        points: Number of points.
        fingerprint: SHA-256 over points and content.
        content: Dimension, distance, vectors and sparse_vectors by name, the embedding model that it records;
            sampled_points, at most 256, whose content sample_hash is the SHA-256 of.
    """

    name: str
    points: Count
    fingerprint: str
    content: dict[str, Any] = {}


class JudgeFacts(Part):
    """All that the verdicts of the judge depend on besides the question.

    Attributes:
        provider: Provider of the model.
        model: Name of the model, as the provider knows it.
        parameters: Temperature, seed and the like.
        fingerprint: SHA-256 over all of these, and the version of ragas, whose prompts it is asked with.
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
        collection: The collection that was searched; null where the retriever's chunks cannot be listed, and relevant
            ones were looked for among those returned.
        collection_changed: What changed in the collection during the run, which leaves every criterion undecided.
        saved_retrieval: File of the saved retrieval that the run started from, and when it was saved.
        embedding: Provider:model of the embedding, or its class; null if not known.
        judge: The LLM judge; absent without one.
        versions: Versions of Python and of the libraries that scores depend on.
        commit: Commit of the working directory, with -dirty where files differ; or unknown.
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


class FailedValue(Part):
    """A score, or a verdict of the judge, whose computation failed.

    Attributes:
        failed: Type and message of the failure.
    """

    model_config = ConfigDict(extra="forbid")
    failed: str


ScoreValue = float | Unscored | FailedValue


class ChunkEntry(Part):
    """A chunk that some query returned, or came near to.

    Attributes:
        source: Path:start-end of the chunk in its source.
        breadcrumb: Module, chapter and heading.
        text: Its whole text.
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
        chunk_id: Id of the chunk, which stands in chunks.
        score: The score that it was ranked by; null for a retriever without scores.
        scale: Scale of the score, such as cosine or weighted.
        scores: Scores that it is made of, such as semantic and keyword.
        grade: Relevance of the chunk to the query; 0: not relevant.
        judge: The judge's verdict on it with its reason, or why there is none; null when it was not asked.
    """

    rank: int = Field(ge=1)
    chunk_id: str
    score: float | None
    scale: str = ""
    scores: dict[str, float] = {}
    grade: Count
    judge: ChunkVerdict | Unscored | FailedValue | None = None
    _chunk: ChunkEntry = PrivateAttr(ChunkEntry(source=""))

    @property
    def verdict(self) -> int | None:
        """1 where the judge finds it useful, 0 where not, None without a verdict."""
        return self.judge.verdict if isinstance(self.judge, ChunkVerdict) else None

    @property
    def said(self) -> str:
        """Reason of the judge, or why it said nothing; empty where it was not asked."""
        return getattr(self.judge, "failed", "") or getattr(self.judge, "reason", "")

    @property
    def chunk(self) -> ChunkEntry:
        """Source and text of the chunk."""
        return self._chunk

    @property
    def source(self) -> str:
        """`path:start-end` of the chunk."""
        return self._chunk.source

    @property
    def preview(self) -> str:
        """The beginning of its text."""
        return preview(self._chunk.text)


class QueryRow(Part):
    """A golden query: what was asked, expected and returned, and whether it passed.

    Attributes:
        id: Id of the case.
        query: The query.
        fingerprint: SHA-256 over all of the case that a score can depend on (not tags, type and split).
        in_scope: True if the documents answer it.
        query_type: Kind of the query.
        tags: Tags of the case.
        reference_answer: The right answer.
        expected: Places that its evidence names, the most relevant first.
        relevant: Chunk id to grade of every relevant chunk; one that the collection lacks counts as not retrieved.
        irrelevant: Chunks that were judged and found not relevant.
        first_relevant: Rank of the first relevant candidate, before threshold and cut; null where none is relevant.
        top_score: Best cosine before the threshold, 0 where nothing was found; null for a retriever without cosines.
        retrieved: Returned chunks, in rank order.
        best_below_threshold: Where nothing was returned, the three best candidates.
        claims: Statements of the reference answer as the judge sees them; empty where it was not asked.
        outcome: Whether the query passed; a partial success did not, and without labels it cannot be told.
        reasons: Why it is not SUCCESS.
        cause: The reason in two words.
        metadata_accuracy: Share of metadata fields that are right; null: not checked.
        content_relevance: Share of the first five that is relevant; out of scope 1 or 0; null: the query has no labels.
        accuracy_score: Mean of the two before that are known; null: none is.
        time_ms: Mean wall time of the query's serial calls.
        stages_ms: Embed, search, rerank, total: milliseconds of the query's first serial call, or of its share of the
            batch where no calls were timed.
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
    _scores: Mapping[str, ScoreValue] = PrivateAttr({})
    _proxies: Mapping[str, float] = PrivateAttr({})

    @property
    def scores(self) -> Mapping[str, ScoreValue]:
        """Metric to number, or why there is none."""
        return self._scores

    @property
    def proxies(self) -> Mapping[str, float]:
        """Judged metric to the score that foretells it."""
        return self._proxies

    def with_scores(self, further: Mapping[str, ScoreValue | None]) -> Self:
        """Return the row with further scores; None where a metric is not over it."""
        row = self.model_copy()
        row._scores = {**self._scores, **{name: score for name, score in further.items() if score is not None}}
        return row


class DifferenceEntry(Part):
    """A metric in two runs.

    Attributes:
        metric: Name of the metric.
        baseline: Mean over the queries scored in both, or a statistic of the whole run.
        other: The same of the other run.
        low: Lower end of the 95% interval of other − baseline; null without one.
        high: Upper end.
        wins: Queries on which the other run is better; all three are 0 for a statistic of the whole run.
        ties: Queries on which both are equal.
        losses: Queries on which the other run is worse.
        verdict: How the other run is, where that is proved by Holm's adjustment over all metrics.
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
    """This run beside another one of the same queries, which is the baseline of each difference.

    Attributes:
        about: The other run in a sentence: its name, settings, time and commit.
        differences: Every metric that both have.
    """

    about: str = ""
    differences: tuple[DifferenceEntry, ...]


class SliceEntry(Part):
    """The queries of one type, or with one tag.

    Attributes:
        by: What the queries have in common.
        name: The type or the tag.
        n: Number of queries.
        metrics: Every metric that scores any of them, by name.
    """

    by: Literal["query_type", "tag"]
    name: str
    n: int = Field(ge=1)
    metrics: dict[str, Summary]


class OwnMetric(Part):
    """A metric of the user's own.

    Attributes:
        name: Its name.
        about: One line about it.
        unit: Unit of its values.
        direction: Which values are better.
        range: Lowest and highest possible value; null where there is none.
    """

    name: str
    about: str
    unit: str
    direction: Direction
    range: tuple[End, End] = (None, None)

    @property
    def declaration(self) -> Declaration:
        """The metric, without its computation."""
        low, high = self.range
        ends = (-inf if low is None else low, inf if high is None else high)
        return Declaration(name=self.name, about=self.about, unit=self.unit, direction=self.direction, range=ends)


class RagasCheck(Part):
    """Comparison with the scores of ragas' own classes.

    Attributes:
        status: Pending: ragas has not scored them yet; unchecked: it could not.
        line: The outcome in a sentence, with the first scores that differ by more than 1e-9; empty while it is pending.
    """

    status: Literal["pending", "equal", "differs", "unchecked"]
    line: str = ""

    @property
    def problem(self) -> str:
        """The outcome where a figure is not that of ragas; else empty."""
        return self.line if self.status == "differs" else ""


class JudgeSection(Part):
    """The judge of a run. The metrics judge/* and those that end in _corrected tell how far to trust it.

    Attributes:
        usage: Cost of judging, by all judges.
        incomplete: Reason why not everything was judged; empty when it was.
        drawn: Number of in-scope queries in the sample that was judged; null where all were.
        lines: What judging took, and what corrects its means, in a few lines: of a cascade a line a judge.
        disagreements: Verdicts that differ from the label, the most telling first.
    """

    usage: Usage
    incomplete: str
    drawn: int | None = None
    lines: list[str] = []
    disagreements: tuple[Differing, ...] = ()


class RankingSection(Part):
    """The cells by the objective.

    Attributes:
        metrics: The metrics of the objective with their weights.
        n: Metric to the number of queries that cells are compared on.
        dropped: Metric to the number of queries that are scored in some cells and not in all.
        constraints: Metric to the condition that a cell must meet.
        excluded: Cells that do not meet them.
        reason: Reason why cells are not ranked; empty when they are.
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

    @property
    def where(self) -> str:
        """The constraints as text; empty without any."""
        return " and ".join(f"{metric} {condition}" for metric, condition in self.constraints.items())


class ConfigurationEntry(Part):
    """A way to retrieve, for which the search ran once.

    Attributes:
        name: Settings in a few words.
        parameters: The settings that tell it from the others.
        metrics: Metrics that belong to it and not to a cell: latency, determinism, separation.
    """

    name: str
    parameters: dict[str, Setting]
    metrics: dict[str, Summary]


class CellColumns(Part):
    """The cells, by columns; a cell's number is its place in them.

    Attributes:
        configuration: Place of its configuration in configurations, from 0.
        top_k: Cut of the cell.
        threshold: Threshold of the cell; null where none is in force.
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
        mean: Mean over the scored queries, by cell; null where there is none.
        n: Scored queries, by cell; one number where all cells have the same.
        n_failed: Queries whose score failed, likewise.
    """

    mean: list[float | None]
    n: int | list[int]
    n_failed: int | list[int]


class ResultsByCell(Part):
    """The result of each cell for each query, as beginnings of lists: one list for each threshold with another result.

    Attributes:
        metrics: The objective's metrics in scope, whose weighted mean says what is found.
        gain: That mean, by cell.
        bands: Lower and upper ends by cell of found, scope/false_abstention and scope/false_answer, which hold for all
            cells of a configuration and all three at once with 95%.
        chunks: Chunk id to every chunk of a list, with the beginning of its text.
        lists: Each list as places in chunks, in rank order.
        list_of: By configuration, then threshold, then query, the list that the threshold leaves; a cell returns the
            first top_k of it.
        scores: The scores that found names.
        found: By list, then by number of chunks returned, the place in scores of what is found; -1: not scored.
        passes: Likewise, 1 where the query passes, 0 where it fails, -1 where that is not known.
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


class StandingEntry(Part):
    """A cell, or cells that scored the same on every query, in the ranking.

    Attributes:
        cell: Number of the cell, of several that of the one to take.
        members: Numbers of all of them.
        value: Value of the objective.
        low: Lower end of its 95% interval; null where it cannot be computed.
        high: Upper end.
        in_set: True if it may be the best (95%, for all cells at once).
    """

    cell: int
    members: tuple[int, ...]
    value: float
    low: float | None = Field(None, validation_alias=AliasChoices("low", AliasPath("interval", "low")))
    high: float | None = Field(None, validation_alias=AliasChoices("high", AliasPath("interval", "high")))
    in_set: bool


class ChoiceSection(Part):
    """The recommended cell, and the evidence for it.

    Attributes:
        margin: How far below the best a cheaper cell may be.
        standings: Cells from the best.
        recommended: The standing of the recommended cell.
        note: Why it could not be computed which cells may be the best; else empty.
    """

    margin: float
    standings: list[StandingEntry]
    recommended: StandingEntry
    note: str = ""


class DecisionSection(Part):
    """Which cell to take.

    Attributes:
        weight: Weight of out-of-scope queries in the utility.
        levels: A cell for each share of wrong answers.
        recommended: The recommended cell.
        may_be_best: The cells that may be as good, as ranges of their settings.
        turns: The best cell from each weight on at which it changes.
        promise: What thresholds promise for questions like these; empty where nothing.
    """

    weight: float
    levels: tuple[Level, ...]
    recommended: Level
    may_be_best: str
    turns: str = ""
    promise: str = ""


class GridSection(Part):
    """The grid whose recommended cell a run is. Lists of figures are by cell, in the order of cells.

    Attributes:
        axes: Every axis of the sweep, with its values.
        ranking: The cells by the objective.
        choice: The recommended cell, and the evidence for it; null where cells could not be ranked.
        decision: Cells to take for what one can bear; null without both kinds of query.
        results: What every cell returns of every query; absent where that is more than a page can hold.
        held_out: The unbiased figure; null without held-out queries.
        proof: What the verdicts that were bought prove; empty unless judge.stop has a margin.
        explanation: The choice in sentences, and the unbiased figure; or why there is none.
        signals: How far the score that the threshold reads tells queries in scope from others under the configuration
            of the recommended cell, then the other scores that the search holds; empty without both kinds of query.
        configurations: Each way to retrieve.
        cells: The cells, by columns.
        metrics: Every metric over queries, by name.
    """

    axes: dict[str, list[Setting]]
    ranking: RankingSection
    choice: ChoiceSection | None
    decision: DecisionSection | None = None
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
        """Number of the cell that the report is of; None where cells are not ranked."""
        return self.choice.recommended.cell if self.choice else None

    def configuration_of(self, cell: int) -> ConfigurationEntry:
        """Return the configuration of a cell."""
        return self.configurations[self.cells.configuration[cell]]

    @property
    def addresses(self) -> list[str]:
        """The name of each cell in an address, such as `hybrid-weighted-k8-t0.3`."""
        ways = [re.sub(r"[^a-z0-9.]+", "-", each.name.lower()).strip("-") for each in self.configurations]
        columns = zip(self.cells.configuration, self.cells.top_k, self.cells.threshold, strict=True)
        cuts = ((ways[way], f"k{top_k}", "" if t is None else f"t{t:.12g}") for way, top_k, t in columns)
        return ["-".join(filter(None, parts)) for parts in cuts]


class Report(Part):
    """A run of evals.run. Fields may be added without a new schema_version: readers must ignore unknown ones.

    Attributes:
        schema_version: Rises when a report that was made before can no longer be read.
        name: Name of the experiment.
        run: Name of the run.
        passed: True if every criterion is met and nothing is missing.
        incomplete: Why it cannot pass: what is missing or failed too often; else empty.
        settings: The retriever's most important settings, in a line.
        facts: Facts that make runs comparable.
        config: The resolved configuration.
        metrics: Every metric of the run, by name.
        ragas_check: The same scores by ragas itself; null where no metric is one of ragas'.
        own_metrics: Those of the user's own.
        headline: The metrics that the terminal shows without --verbose.
        verdict: Pass rate, hit rate, recall, false answers, main cause of failure, in a sentence.
        next_flags: Flags of evals.run for the run that may say how to mend the main cause.
        criteria: What the experiment demands, and the run's answers.
        baseline: This run beside the baseline, against which nothing may be worse; null without one.
        slices: The metrics by query type and by tag.
        notes: What a reader must know beside the figures.
        judge: The LLM judge; null without one.
        grid: The grid whose recommended cell this is; null of a single run.
        chunks: Chunk id to every chunk that a query names in retrieved.
        scores: Metric to the score of each query, in the order of queries: a number, why there is none, or null where
            the metric is not over it.
        proxies: Judged metric to its proxy (labels, or words of the reference answer), which corrects a mean.
        queries: One entry a query, in the order of the golden data.
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
        """Let each row find its scores, and each hit its chunk."""
        for place, row in enumerate(self.queries):
            row._scores = _of_row(self.scores, place)
            row._proxies = _of_row(self.proxies, place)
        results = [hits for row in self.queries for hits in (row.retrieved, row.best_below_threshold)]
        for hit in chain.from_iterable(results):
            hit._chunk = self.chunks.get(hit.chunk_id, hit._chunk)

    @property
    def in_scope(self) -> int:
        """Number of golden queries that the documents answer."""
        return sum(row.in_scope for row in self.queries)

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
        """Return the report as plain JSON values, as its file holds them: without the fields that were not set."""
        return self.model_dump(mode="json", exclude_unset=True)


def _of_row(columns: Mapping[str, Sequence[Any]], place: int) -> dict[str, Any]:
    values = ((name, column[place] if place < len(column) else None) for name, column in columns.items())
    return {name: value for name, value in values if value is not None}

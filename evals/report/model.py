"""The report of a run: one model, from which JSON, schema, field tables, terminal, page and MLflow follow.

Records of the evaluation are its sections as they are; what is defined here is what only a report has. Scores stand by
metric in the order of the queries, and each chunk once: a row finds its own among them when the report is made or read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from evals.collect.observations import Gate, Outcome, Summary, Unscored
from evals.grid.choice import Choice, HeldOut
from evals.grid.decision import Decision
from evals.judge.ask.budget import Usage
from evals.judge.verdicts import ChunkVerdict, Claim
from evals.metrics.declaration import Declaration, Direction
from evals.stats.paired import Paired

SCHEMA_VERSION: Final = 2
Setting = str | bool | int | float | None
# Characters of a chunk's text that a line or a card shows.
PREVIEW = 200
# Largest adjusted p value of a difference that is proved.
LEVEL = 0.05
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


class Section(BaseModel):
    """A part of the report. An unknown field is ignored, so that a later version may add some."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)

    @classmethod
    def of(cls, record: object) -> Self:
        """Return the section of a record that has its fields, and perhaps more, as attributes."""
        return cls.model_validate(record, strict=False, from_attributes=True)


class CollectionFacts(Section):
    """The collection that was searched."""

    name: str = Field(description="name of the collection")
    points: int = Field(ge=0, description="number of points")
    fingerprint: str = Field(description="SHA-256 over points and content")
    content: dict[str, Any] = Field(
        {},
        description="dimension, distance, vectors and sparse_vectors by name, the embedding model that it records; "
        "sampled_points, at most 256, whose content sample_hash is the SHA-256 of",
    )
    server: dict[str, Any] | None = Field(
        None,
        description="how its server runs it, as far as it tells: version, shards, replicas, hnsw, quantization, "
        "datatype, alias_of; null for an embedded store",
    )


class JudgeFacts(Section):
    """All that the verdicts of the judge depend on besides the question."""

    provider: str = Field(description="provider of the model")
    model: str = Field(description="name of the model, as the provider knows it")
    parameters: dict[str, Any] = Field(description="temperature, seed and the like")
    ragas: str = Field(description="version of ragas, whose prompts it is asked with")
    fingerprint: str = Field(description="SHA-256 over all of these")


class Facts(Section):
    """Fingerprints, versions, commit, seed, times."""

    started_at: str = Field(description="start of the run, ISO 8601 with time zone")
    duration_s: float | None = Field(None, ge=0, description="duration of the run, in seconds")
    dataset: str = Field(description="source of the golden queries: a path or a hub id")
    dataset_fingerprint: str = Field(description="SHA-256 over the content of the chosen cases")
    cases: int = Field(ge=0, description="golden queries of the run")
    in_scope: int = Field(ge=0, description="of them, those that the documents answer")
    out_of_scope: int = Field(ge=0, description="of them, those that the documents do not answer")
    retriever: str | None = Field(None, description="class of the retriever")
    relevance: Literal["collection", "returned"] = Field(
        "collection",
        description="where relevant chunks were looked for: in all chunks, or else in the returned ones",
    )
    collection: CollectionFacts | None = Field(
        None, description="the collection that was searched; null where the retriever's chunks cannot be listed"
    )
    collection_changed: str | None = Field(
        None, description="what changed in the collection during the run, which leaves every criterion undecided"
    )
    saved_retrieval: str | None = Field(
        None, description="file of the saved retrieval that the run started from, and when it was saved"
    )
    embedding: str | None = Field(None, description="provider:model of the embedding, or its class; null if not known")
    judge: JudgeFacts | None = Field(None, description="the LLM judge; absent without one")
    versions: dict[str, str] = Field(description="versions of Python and of the libraries that scores depend on")
    commit: str = Field(description="commit of the working directory, with -dirty where files differ; or unknown")
    seed: int = Field(ge=0, description="seed of all resampling")


class FailedValue(Section):
    """A score or verdict whose computation failed."""

    model_config = ConfigDict(extra="forbid")
    failed: str = Field(description="type and message of the failure")


ScoreValue = float | Unscored | FailedValue


class ChunkEntry(Section):
    """A chunk that some query returned, or came near to."""

    source: str = Field(description="path:start-end of the chunk in its source")
    breadcrumb: str = Field("", description="module, chapter and heading")
    heading: str = Field("", description="heading that the chunk stands under; empty where not known")
    text: str = Field("", description="its whole text")


class Hit(Section):
    """A returned chunk."""

    rank: int = Field(ge=1, description="place in the result, from 1")
    chunk_id: str = Field(description="id of the chunk, which stands in chunks")
    score: float | None = Field(description="the score that it was ranked by; null for a retriever without scores")
    scale: str = Field("", description="scale of the score, such as cosine or weighted")
    scores: dict[str, float] = Field({}, description="scores that it is made of, such as semantic and keyword")
    grade: int = Field(ge=0, description="relevance of the chunk to the query; 0: not relevant")
    judge: ChunkVerdict | Unscored | FailedValue | None = Field(
        None, description="the judge's verdict on it with its reason, or why there is none; null when it was not asked"
    )
    _chunk: ChunkEntry = PrivateAttr(ChunkEntry(source=""))

    @property
    def verdict(self) -> int | None:
        """1 where the judge finds it useful, 0 where not, None without a verdict."""
        return self.judge.verdict if isinstance(self.judge, ChunkVerdict) else None

    @property
    def said(self) -> str:
        """Reason of the judge, or why it said nothing; empty where it was not asked."""
        if self.judge is None:
            return ""
        return self.judge.failed if isinstance(self.judge, FailedValue) else self.judge.reason

    @property
    def has_failed(self) -> bool:
        """Whether judging it failed."""
        return isinstance(self.judge, FailedValue)

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
        return " ".join(self._chunk.text.split())[:PREVIEW]


class QueryRow(Section):
    """A golden query: what was asked, expected and returned, and its verdict."""

    id: str = Field(description="id of the case")
    query: str = Field(description="the query")
    fingerprint: str | None = Field(
        None, description="SHA-256 over all of the case that a score can depend on (not tags, type and split)"
    )
    in_scope: bool = Field(description="true if the documents answer it")
    query_type: str | None = Field(None, description="kind of the query")
    tags: list[str] = Field([], description="tags of the case")
    reference_answer: str | None = Field(None, description="the right answer")
    expected: list[str] = Field([], description="places that its evidence names, the most relevant first")
    relevant: dict[str, int] = Field(description="chunk id to grade of every relevant chunk of the collection")
    irrelevant: list[str] = Field([], description="chunks that were judged and found not relevant")
    missing: list[str] = Field([], description="relevant chunks that the collection lacks: they count as not retrieved")
    relevant_complete: bool = Field(
        True, description="false where relevant holds only chunks that came back, because all cannot be listed"
    )
    first_relevant: int | None = Field(
        None, description="rank of the first relevant candidate, before threshold and cut; null where none is relevant"
    )
    top_score: float | None = Field(
        description="best score of a vector before the threshold, by config.retriever.distance (by default a cosine); "
        "null for a retriever without such scores, and where nothing was found (there a cosine is 0)"
    )
    retrieved: list[Hit] = Field(description="returned chunks, in rank order")
    best_below_threshold: list[Hit] = Field([], description="where nothing was returned, the three best candidates")
    claims: list[Claim] = Field(
        [], description="statements of the reference answer as the judge sees them; empty where it was not asked"
    )
    outcome: Outcome = Field(description="the verdict")
    reasons: list[str] = Field(description="why it is not SUCCESS")
    cause: Cause | None = Field(None, description="the reason in two words")
    metadata_accuracy: float | None = Field(
        None, description="share of metadata fields that are right; null: not checked"
    )
    content_relevance: float | None = Field(
        None, description="share of the first five that is relevant; out of scope 1 or 0; null: the query has no labels"
    )
    accuracy_score: float | None = Field(None, description="mean of the two before that are known; null: none is")
    time_ms: float = Field(ge=0, description="mean wall time of the query's serial calls")
    stages_ms: dict[str, float] = Field(
        {},
        description="embed, search, rerank, total: milliseconds of the query's first serial call, or of its share of "
        "the batch where no calls were timed",
    )
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """A metric in two runs.

    Attributes:
        metric: Name of the metric.
        better: Which way is better.
        baseline: Mean over the queries scored in both, or a statistic of the whole run.
        other: The same of the other run.
        paired: The paired comparison, None for a statistic of the whole run and where nothing is scored in both.
        p_adjusted: p value adjusted by Holm over all that was tested at once.
        only_baseline: Ids of queries scored in the baseline only.
        only_other: Ids of queries scored in the other only.
        failed: Ids of queries whose score failed in one of the runs.
        worst: Difference if every failed score had come out as badly for the other run as it can; None: none failed.
        note: Reason for a missing difference, interval or p value.
    """

    metric: str
    better: Direction
    baseline: float | None = None
    other: float | None = None
    paired: Paired | None = None
    p_adjusted: float | None = None
    only_baseline: tuple[str, ...] = ()
    only_other: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    worst: float | None = None
    note: str = ""

    @property
    def difference(self) -> float | None:
        """The other run's value less the baseline's."""
        return None if self.baseline is None or self.other is None else self.other - self.baseline

    @property
    def wins(self) -> int:
        """Queries on which the other run is better."""
        return 0 if self.paired is None else self.paired.falls if self.better == "lower" else self.paired.rises

    @property
    def losses(self) -> int:
        """Queries on which the other run is worse."""
        return 0 if self.paired is None else self.paired.rises if self.better == "lower" else self.paired.falls

    @property
    def verdict(self) -> Literal["better", "worse", ""]:
        """How the other run is, where that is proved: by p values adjusted over all that was tested at once."""
        if self.p_adjusted is None or self.p_adjusted >= LEVEL or not self.difference or self.better == "neither":
            return ""
        return "better" if (self.difference > 0) == (self.better == "higher") else "worse"


class FlipEntry(Section):
    """A query whose score by a metric changed."""

    id: str = Field(description="id of the query")
    metric: str = Field(description="the metric")
    before: float = Field(description="its score in the other run")
    after: float = Field(description="its score in this run")
    retrieved: list[Hit] = Field(description="first chunks that the other run returned")


class ComparedSection(Section):
    """This run beside another one of the same queries, which is the baseline of each difference."""

    name: str = Field(description="name of the other run, or the file of its report")
    settings: str = Field(description="its most important settings, in a line")
    started_at: str = Field(description="when it was measured")
    commit: str = Field(description="commit that it was measured with")
    differences: tuple[Difference, ...] = Field(description="every metric that both have")
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
    next_flags: str = Field(description="flags of evals.run for the run that may say how to mend the main cause")


class SliceEntry(Section):
    """The queries of one type, or with one tag."""

    by: Literal["query_type", "tag"] = Field(description="what the queries have in common")
    name: str = Field(description="the type or the tag")
    n: int = Field(ge=1, description="number of queries")
    metrics: dict[str, Summary] = Field(description="every metric that scores any of them, by name")


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


class RagasCheck(Section):
    """What ragas' own classes say of the results that are shown."""

    status: Literal["pending", "equal", "differs", "unchecked"] = Field(
        description="pending: ragas has not scored them yet; unchecked: it could not"
    )
    version: str = Field(description="version of ragas")
    metrics: list[str] = Field(description="the metrics that it scored")
    scores: int = Field(0, ge=0, description="scores that were compared, of results that have a chunk")
    n_differing: int = Field(0, ge=0, description="scores that differ by more than 1e-9")
    differing: list[str] = Field([], description="the first of these in words, at most 20")
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
        more = f", and {self.n_differing - 3:,} more" if self.n_differing > 3 else ""
        differ = f"ragas {self.version} scores {self.n_differing:,} of {self.scores:,} otherwise"
        return f"{differ}: {', '.join(self.differing[:3])}{more}{rest}"

    @property
    def problem(self) -> str:
        """The outcome where a figure is not that of ragas; else empty."""
        return self.line if self.status == "differs" else ""


class Disagreement(Section):
    """A verdict that differs from the label: an error of the judge, or a hole in the labels."""

    query_id: str = Field(description="the query")
    chunk_id: str = Field(description="the chunk")
    label: int = Field(ge=0, le=1, description="1 when it is relevant by the golden data, and useless to the judge")
    reason: str = Field(description="the judge's reason")


class TierEntry(Section):
    """A judge of a cascade (judge.tiers), or people, whose verdicts are its last tier (human_verdicts)."""

    model: str = Field(description="provider:model, or people")
    queries: int = Field(ge=0, description="number of in-scope queries that it judged")
    usage: Usage | None = Field(description="cost of this judge; null for people")
    verdicts: int = Field(ge=0, description="number of chunks that the next tier gave a verdict on as well")
    agreement: float | None = Field(
        description="share of those on which both say the same; null for the last tier, or where there are none"
    )
    kappa: float | None = Field(description="Cohen's kappa of the two; null likewise, or where all verdicts are equal")
    weights: dict[str, float] = Field(
        description="by metric, weight of its scores in the mean of the last tier, 0 to 1; empty for the last"
    )


class JudgeSection(Section):
    """The judge of a run. How far to trust it say the metrics judge/* and those that end in _corrected."""

    model: str = Field(description="provider:model, of a cascade the strongest")
    usage: Usage = Field(description="cost of judging, by all judges")
    incomplete: str = Field(description="reason why not everything was judged; empty when it was")
    queries: int = Field(ge=0, description="number of in-scope queries")
    drawn: int | None = Field(None, description="number of them in the sample that was judged; null where all were")
    tiers: list[TierEntry] = Field(
        [], description="the judges of a cascade, the cheapest first, then people; empty where a judge judged alone"
    )
    by_people: list[str] = Field([], description="what people would have given all queries, a line a metric")
    compared: int = Field(0, ge=0, description="number of verdicts on chunks whose label is known")
    disagreements: list[Disagreement] = Field(
        [], description="verdicts that differ from the label, the most telling first"
    )


class RankingSection(Section):
    """The cells by the objective."""

    metrics: dict[str, float] = Field(description="the metrics of the objective with their weights")
    n: dict[str, int] = Field(description="metric to the number of queries that cells are compared on")
    dropped: dict[str, int] = Field(
        description="metric to the number of queries that are scored in some cells and not in all"
    )
    constraints: dict[str, str] = Field(description="metric to the condition that a cell must meet")
    excluded: int = Field(ge=0, description="cells that do not meet them")
    reason: str = Field(description="reason why cells are not ranked; empty when they are")
    order: list[int] = Field(description="numbers of the cells that meet the constraints, from the best")
    values: list[float | None] = Field(description="value of the objective, by cell")

    @property
    def objective(self) -> str:
        """What the cells are ordered by, such as `ranking/mrr_at_5 + 0.5 × ranking/recall_at_5`."""
        return " + ".join(name if weight == 1 else f"{weight:g} × {name}" for name, weight in self.metrics.items())

    @property
    def where(self) -> str:
        """What a cell must meet; empty without constraints."""
        return " and ".join(f"{metric} {condition}" for metric, condition in self.constraints.items())


class ConfigurationEntry(Section):
    """A way to retrieve, for which the search ran once."""

    name: str = Field(description="settings in a few words")
    parameters: dict[str, Setting] = Field(description="the settings that tell it from the others")
    metrics: dict[str, Summary] = Field(
        description="metrics that belong to it and not to a cell: latency, determinism, separation"
    )


class CellColumns(Section):
    """The cells, by columns; of more than 10,000 the best."""

    count: int = Field(ge=0, description="number of cells of the grid")
    index: list[int] = Field(description="number of the cell, ascending")
    configuration: list[int] = Field(description="place of its configuration in configurations, from 0")
    top_k: list[int] = Field(description="cut of the cell")
    threshold: list[float | None] = Field(description="threshold of the cell; null where none is in force")


class GridMetric(Section):
    """A metric of every cell."""

    mean: list[float | None] = Field(description="mean over the scored queries, by cell; null where there is none")
    n: int | list[int] = Field(description="scored queries, by cell; one number where all cells have the same")
    n_failed: int | list[int] = Field(description="queries whose score failed, likewise")


class GridSection(Section):
    """The grid whose recommended cell a run is. Lists of figures are by cell, in the order of cells."""

    axes: dict[str, list[Setting]] = Field(description="every axis of the sweep, with its values")
    ranking: RankingSection = Field(description="the cells by the objective")
    choice: Choice | None = Field(
        description="the recommended cell, and the evidence for it; null where cells could not be ranked"
    )
    places: list[int] = Field([], description="place of each standing of choice among all, the best first, from 1")
    decision: Decision | None = Field(
        None, description="cells to take for what one can bear; null without both kinds of query"
    )
    held_out: HeldOut | None = Field(None, description="the unbiased figure; null without held-out queries")
    proof: str = Field("", description="what the verdicts that were bought prove; empty unless judge.stop has a margin")
    explanation: list[str] = Field(
        description="the choice in three sentences, and the unbiased figure; or why there is none"
    )
    abstention: list[str] = Field(
        [], description="what thresholds can do about queries that the documents do not answer, a sentence each"
    )
    configurations: list[ConfigurationEntry] = Field(description="each way to retrieve")
    cells: CellColumns = Field(description="the cells, by columns")
    metrics: dict[str, GridMetric] = Field(description="every metric over queries, by name")
    notes: list[str] = Field(description="combinations that were left out or are one")

    @property
    def chosen(self) -> int | None:
        """Number of the cell that the report is of; None where cells are not ranked."""
        return self.choice.recommended.cell if self.choice else None


class Report(Section):
    """A run of evals.run. Fields may be added without a new schema_version: readers must ignore unknown ones."""

    schema_version: Literal[2] = Field(description="rises when a field goes, or changes its name, type or meaning")
    name: str = Field(description="name of the experiment")
    run: str = Field("", description="name of the run")
    passed: bool = Field(description="true if every criterion is met and nothing is missing")
    incomplete: str = Field("", description="why it cannot pass: what is missing or failed too often; else empty")
    settings: str = Field("", description="the retriever's most important settings, in a line")
    facts: Facts = Field(description="facts that make runs comparable")
    config: dict[str, Any] = Field(description="the resolved configuration")
    metrics: dict[str, Summary] = Field(description="every metric of the run, by name")
    ragas_check: RagasCheck | None = Field(
        None, description="the same scores by ragas itself; absent where no metric is one of ragas'"
    )
    own_metrics: list[OwnMetric] = Field([], description="those of the user's own; absent without any")
    headline: list[str] = Field([], description="the metrics that the terminal shows without --verbose")
    head: HeadSection | None = Field(None, description="the run in a sentence; null in a committed baseline")
    criteria: tuple[Gate, ...] = Field(description="what the experiment demands, and the run's answers")
    reference: ComparedSection | None = Field(
        None, description="this run beside the experiment's reference, measured in the same run; null without one"
    )
    baseline: ComparedSection | None = Field(
        None, description="this run beside the baseline, against which nothing may be worse; null without one"
    )
    slices: list[SliceEntry] = Field([], description="the metrics by query type and by tag")
    validation: Validation = Field(description="totals of the verdicts")
    notes: list[str] = Field(description="what a reader must know beside the figures")
    caches: dict[str, tuple[int, int]] = Field(
        {}, description="of each cache that was asked (embedding, result, judge) its hits and all look-ups"
    )
    judge: JudgeSection | None = Field(None, description="the LLM judge; null without one")
    grid: GridSection | None = Field(None, description="the grid whose recommended cell this is; absent without one")
    chunks: dict[str, ChunkEntry] = Field({}, description="chunk id to every chunk that a query names in retrieved")
    scores: dict[str, list[ScoreValue | None]] = Field(
        {},
        description="metric to the score of each query, in the order of queries: a number, why there is none, or null "
        "where the metric is not over it",
    )
    proxies: dict[str, list[float | None]] = Field(
        {}, description="judged metric to its proxy (labels, or words of the reference answer), which corrects a mean"
    )
    queries: list[QueryRow] = Field(description="one entry a query, in the order of the golden data")

    def model_post_init(self, _: object) -> None:
        """Let each row find its scores, and each hit its chunk."""
        for place, row in enumerate(self.queries):
            row._scores = _of_row(self.scores, place)
            row._proxies = _of_row(self.proxies, place)
        results = [hits for row in self.queries for hits in (row.retrieved, row.best_below_threshold)]
        for part in (self.reference, self.baseline):
            results += [flip.retrieved for flip in part.flipped] if part else []
        for hit in chain.from_iterable(results):
            hit._chunk = self.chunks.get(hit.chunk_id, hit._chunk)

    def plain(self) -> dict[str, Any]:
        """Return the report as plain JSON values, as its file holds them: without the fields that were not set."""
        return self.model_dump(mode="json", exclude_unset=True)


def _of_row(columns: Mapping[str, Sequence[Any]], place: int) -> dict[str, Any]:
    values = ((name, column[place] if place < len(column) else None) for name, column in columns.items())
    return {name: value for name, value in values if value is not None}

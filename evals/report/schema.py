"""The report's schema as models. `schema.json` beside this file is what this module generates.

`python -m evals.report.schema` prints the JSON Schema. The models are open: a field that they do not know is kept, so
that a later version may add fields and sections without raising `schema_version`.
"""

import json
import sys
from typing import Any, Literal

from pydantic import Field

from evals.collect.observations import Outcome
from evals.report.grid_schema import GridSection
from evals.report.judge_schema import Claim, FailedValue, JudgeSection, ScoreValue, UnscoredValue, Verdict
from evals.report.schema_model import MetricEntry, Section

SCHEMA_VERSION = 1
DIALECT = "https://json-schema.org/draft/2020-12/schema"


class ServerFacts(Section):
    """How a server runs the collection."""

    version: str | None = Field(None, description="version of Qdrant, null where the server does not tell")
    shards: int = Field(1, ge=1, description="parts that the collection is cut into; IDF is counted within each")
    replicas: int = Field(1, ge=1, description="copies of each shard")
    hnsw: dict[str, Any] = Field({}, description="settings of the index of the vector that was searched")
    quantization: dict[str, Any] | None = Field(None, description="how its vectors are quantised; null where not")
    datatype: str | None = Field(None, description="how its numbers are stored; null for float32")
    alias_of: str | None = Field(None, description="the collection that the name stood for as an alias, where known")


class CollectionFacts(Section):
    """The collection that was searched."""

    name: str = Field(description="name of the collection")
    points: int = Field(ge=0, description="points it holds")
    fingerprint: str = Field(description="SHA-256 over all that is said of the collection here")
    dimension: int | None = Field(None, description="dimension of its vectors")
    distance: str | None = Field(None, description="distance of its vectors")
    vectors: dict[str, int] = Field({}, description="vector name to dimension")
    sparse_vectors: list[str] = Field([], description="names of its sparse vectors")
    embedding: dict[str, Any] = Field({}, description="the embedding model that the collection records")
    sampled_points: int | None = Field(None, description="points whose content was hashed, at most 256")
    sample_hash: str | None = Field(None, description="SHA-256 over the content of the sampled points")
    server: ServerFacts | None = Field(None, description="how its server runs it; null for an embedded store")


class JudgeFacts(Section):
    """What the verdicts of the judge depend on besides the question."""

    provider: str = Field(description="whose model it is")
    model: str = Field(description="name of the model, as the provider knows it")
    parameters: dict[str, Any] = Field(description="temperature, seed and the like")
    ragas: str = Field(description="version of ragas, whose prompts it is asked with")
    fingerprint: str = Field(description="SHA-256 over all of these")


class Facts(Section):
    """What makes runs comparable: fingerprints, versions, commit, seed, times."""

    started_at: str = Field(description="when the run began, ISO 8601 with time zone")
    duration_s: float | None = Field(None, ge=0, description="how long the run took, in seconds")
    dataset: str = Field(description="where the golden queries came from: a path or a hub id")
    dataset_fingerprint: str = Field(description="SHA-256 over the content of the chosen cases")
    cases: int = Field(ge=0, description="golden queries of the run")
    in_scope: int = Field(ge=0, description="of them, those that the documents answer")
    out_of_scope: int = Field(ge=0, description="of them, those that the documents do not answer")
    retriever: str | None = Field(None, description="the class that retrieved")
    relevance: Literal["collection", "returned"] = Field(
        "collection", description="where the relevant chunks were looked for: in all chunks, or in those that came back"
    )
    collection: CollectionFacts | None = Field(
        None, description="the collection that was searched; null where the retriever's chunks cannot be listed"
    )
    collection_at_end: CollectionFacts | None = Field(
        None, description="the collection as it was at the end of the run"
    )
    collection_changed: str | None = Field(
        None, description="in what the collection changed during the run, which leaves every criterion undecided"
    )
    embedding: str | None = Field(
        None, description="provider:model of the embedding, or its class; null where it is not known"
    )
    judge: JudgeFacts | None = Field(None, description="the LLM judge; absent without one")
    versions: dict[str, str] = Field(description="Python's version and those of the libraries that scores depend on")
    commit: str = Field(description="commit of the working directory, with -dirty where files differ; or unknown")
    seed: int = Field(ge=0, description="seed of all resampling")


class Criterion(Section):
    """What the experiment demands of a metric, and whether the run met it."""

    metric: str = Field(description="name of the metric")
    condition: str = Field(description="such as >= 0.8")
    figure: float | None = Field(description="what was compared: the value, or the worse bound where scores failed")
    passed: bool = Field(description="whether the condition is met")
    reason: str = Field(description="why not; empty when it is met")
    undecided: bool = Field(False, description="true where scores that failed or are missing could turn the answer")


class Validation(Section):
    """Totals of the queries' verdicts."""

    total: int = Field(ge=0, description="queries")
    passed: int = Field(ge=0, description="queries whose outcome is SUCCESS")
    failed: int = Field(ge=0, description="the others")
    pass_rate: float = Field(ge=0, le=1, description="passed over total")
    average_latency_ms: float | None = Field(description="mean time of the serial calls; null when not measured")
    p95_latency_ms: float | None = Field(description="95th percentile of the serial calls; null when not measured")


class Hit(Section):
    """A returned chunk."""

    rank: int = Field(ge=1, description="place in the result, from 1")
    score: float | None = Field(description="the score that it was ranked by; null for a retriever without scores")
    chunk_id: str = Field(description="id of the chunk")
    source: str = Field(description="path:start-end of the chunk in its source")
    breadcrumb: str = Field(description="module, chapter and heading")
    grade: int = Field(ge=0, description="how relevant the chunk is to the query; 0: not relevant")
    preview: str = Field(description="the first 200 characters of its text")
    judge: Verdict | None = Field(None, description="what the judge said of it; null when it was not asked")
    claims: list[Claim] | UnscoredValue | FailedValue | None = Field(
        None, description="the sentences of the reference answer as the judge sees them with this chunk alone"
    )


class QueryRow(Section):
    """A golden query: what was asked, expected and returned, its scores and its verdict."""

    id: str = Field(description="id of the case")
    query: str = Field(description="the query")
    fingerprint: str | None = Field(None, description="SHA-256 over all of the case that a score can depend on")
    in_scope: bool = Field(description="whether the documents answer it")
    query_type: str | None = Field(description="kind of the query")
    tags: list[str] = Field(description="tags of the case")
    reference_answer: str | None = Field(description="the right answer")
    relevant: dict[str, int] = Field(description="chunk id to grade of every relevant chunk of the collection")
    irrelevant: list[str] = Field([], description="chunks that were judged and found not relevant")
    missing: list[str] = Field([], description="relevant chunks that the collection lacks: they count as not retrieved")
    relevant_complete: bool = Field(
        True, description="whether these are all; false where only chunks that came back could be looked at"
    )
    top_score: float | None = Field(
        description="best cosine before the threshold; 0 where nothing was found, null for a retriever without cosines"
    )
    retrieved: list[Hit] = Field(description="what was returned, in rank order")
    best_below_threshold: list[Hit] = Field(description="where nothing was returned, the three best candidates")
    claims: list[Claim] = Field([], description="the statements of the reference answer as the judge sees them")
    scores: dict[str, ScoreValue] = Field(description="metric to number, or why there is none")
    outcome: Outcome = Field(description="the verdict")
    reasons: list[str] = Field(description="why it is not SUCCESS")
    metadata_accuracy: float | None = Field(description="share of metadata fields that are right; null: not checked")
    content_relevance: float = Field(description="share of the first five that is relevant; out of scope 1 or 0")
    accuracy_score: float = Field(description="mean of the two before that are known")
    time_ms: float = Field(ge=0, description="mean wall time of the query's serial calls")


class Report(Section):
    """A run of evals.run. Fields may be added without a new schema_version: readers must ignore unknown ones."""

    schema_version: Literal[1] = Field(description="rises when a field goes, or changes its name, type or meaning")
    name: str = Field(description="name of the experiment")
    passed: bool = Field(description="whether every criterion was met and nothing is missing")
    incomplete: str = Field("", description="why some figures are over a part of the queries; empty when none is")
    facts: Facts = Field(description="what makes runs comparable")
    config: dict[str, Any] = Field(description="the resolved configuration")
    metrics: dict[str, MetricEntry] = Field(description="every metric of the run, by name")
    criteria: list[Criterion] = Field(description="what the experiment demands")
    validation: Validation = Field(description="totals of the verdicts")
    notes: list[str] = Field(description="what a reader must know beside the figures")
    judge: JudgeSection | None = Field(None, description="the LLM judge; null without one")
    grid: GridSection | None = Field(None, description="the grid whose chosen cell this run is; absent without one")
    queries: list[QueryRow] = Field(description="one entry a query, in the order of the golden data")


def json_schema() -> dict[str, Any]:
    """The report's JSON Schema (draft 2020-12)."""
    return {"$schema": DIALECT, **Report.model_json_schema()}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(json_schema(), indent=2) + "\n")

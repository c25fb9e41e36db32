"""Rows of the report: a golden query each."""

from pydantic import ConfigDict, Field

from evals.collect.observations import Outcome, Unscored
from evals.report.causes import Cause
from evals.report.model.base import Section


class FailedValue(Section):
    """A score whose computation failed."""

    model_config = ConfigDict(extra="forbid")
    failed: str = Field(description="type and message of the failure")


ScoreValue = float | Unscored | FailedValue


class Verdict(Section):
    """The judge's verdict on a returned chunk with its reason, or why there is none."""

    verdict: int | None = Field(None, ge=0, le=1, description="1 when the chunk is useful for the reference answer")
    reason: str | None = Field(None, description="the judge's reason")
    unscored: str | None = Field(None, description="why it was not judged")
    failed: str | None = Field(None, description="why judging it failed")


class ClaimEntry(Section):
    """A statement of the reference answer, as the judge sees it."""

    statement: str = Field(description="the statement")
    attributed: int = Field(ge=0, le=1, description="1 when what was returned supports it")
    reason: str = Field(description="the judge's reason")


class Hit(Section):
    """A returned chunk."""

    rank: int = Field(ge=1, description="place in the result, from 1")
    score: float | None = Field(description="the score that it was ranked by; null for a retriever without scores")
    scale: str = Field("", description="scale of the score, such as cosine or weighted; empty in older reports")
    scores: dict[str, float] = Field({}, description="scores that it is made of, such as semantic and keyword")
    chunk_id: str = Field(description="id of the chunk")
    source: str = Field(description="path:start-end of the chunk in its source")
    breadcrumb: str = Field(description="module, chapter and heading")
    heading: str = Field("", description="heading that the chunk stands under; empty where not known")
    grade: int = Field(ge=0, description="relevance of the chunk to the query; 0: not relevant")
    preview: str = Field(description="the first 200 characters of its text")
    judge: Verdict | None = Field(None, description="the judge's verdict on it; null when it was not asked")


class QueryRow(Section):
    """A golden query: what was asked, expected and returned, its scores and its verdict."""

    id: str = Field(description="id of the case")
    query: str = Field(description="the query")
    fingerprint: str | None = Field(
        None, description="SHA-256 over all of the case that a score can depend on (not tags, type and split)"
    )
    in_scope: bool = Field(description="true if the documents answer it")
    query_type: str | None = Field(description="kind of the query")
    tags: list[str] = Field(description="tags of the case")
    reference_answer: str | None = Field(description="the right answer")
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
    relevant_count: int = Field(0, ge=0, description="number of distinct relevant chunks among the returned")
    metadata_complete: bool | None = Field(
        None,
        description="true if every returned chunk has all required metadata, of the right type; null where nothing was "
        "returned or no field is required",
    )
    best_below_threshold: list[Hit] = Field(description="where nothing was returned, the three best candidates")
    claims: list[ClaimEntry] = Field(
        [],
        description="statements of the reference answer as the judge sees them; empty where it was not asked",
    )
    scores: dict[str, ScoreValue] = Field(description="metric to number, or why there is none")
    proxies: dict[str, float] = Field(
        {},
        description="judged metric to its proxy (labels, or words of the reference answer), which corrects a mean",
    )
    outcome: Outcome = Field(description="the verdict")
    reasons: list[str] = Field(description="why it is not SUCCESS")
    cause: Cause | None = Field(None, description="the reason in two words; null in reports of older versions")
    metadata_accuracy: float | None = Field(description="share of metadata fields that are right; null: not checked")
    content_relevance: float | None = Field(
        description="share of the first five that is relevant; out of scope 1 or 0; null: the query has no labels"
    )
    accuracy_score: float | None = Field(description="mean of the two before that are known; null: none is")
    time_ms: float = Field(ge=0, description="mean wall time of the query's serial calls")
    stages_ms: dict[str, float] = Field(
        {},
        description="embed, search, rerank, total: milliseconds of the query's first serial call, or of its share of "
        "the batch where no calls were timed",
    )

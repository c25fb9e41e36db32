"""Facts that make runs comparable."""

from typing import Any, Literal

from pydantic import Field

from evals.report.model.base import Section


class ServerFacts(Section):
    """Settings with which a server runs the collection."""

    version: str | None = Field(None, description="version of Qdrant; null where the server does not tell")
    shards: int = Field(1, ge=1, description="parts that the collection is cut into; IDF is counted within each")
    replicas: int = Field(1, ge=1, description="copies of each shard")
    hnsw: dict[str, Any] = Field({}, description="settings of the index of the vector that was searched")
    quantization: dict[str, Any] | None = Field(None, description="how its vectors are quantised; null where not")
    datatype: str | None = Field(None, description="how its numbers are stored; null for float32")
    alias_of: str | None = Field(None, description="the collection that the name stood for as an alias, where known")


class CollectionFacts(Section):
    """The collection that was searched."""

    name: str = Field(description="name of the collection")
    points: int = Field(ge=0, description="number of points")
    fingerprint: str = Field(description="SHA-256 over all of these but its name and its server")
    dimension: int | None = Field(None, description="dimension of its vectors")
    distance: str | None = Field(None, description="distance of its vectors")
    vectors: dict[str, int] = Field({}, description="vector name to dimension")
    sparse_vectors: list[str] = Field([], description="names of its sparse vectors")
    embedding: dict[str, Any] = Field({}, description="the embedding model that the collection records")
    sampled_points: int | None = Field(None, description="points whose content was hashed, at most 256")
    sample_hash: str | None = Field(None, description="SHA-256 over the content of the sampled points")
    server: ServerFacts | None = Field(None, description="how its server runs it; null for an embedded store")


class JudgeFacts(Section):
    """All that the verdicts of the judge depend on besides the question."""

    provider: str = Field(description="provider of the model")
    model: str = Field(description="name of the model, as the provider knows it")
    parameters: dict[str, Any] = Field(description="temperature, seed and the like")
    ragas: str = Field(description="version of ragas, whose prompts it is asked with")
    fingerprint: str = Field(description="SHA-256 over all of these")


class SavedRetrievalFacts(Section):
    """The saved retrieval that the run started from."""

    folder: str = Field(description="name of its file, without the path; in older reports that of a folder")
    saved_at: str = Field(description="when it was saved, ISO 8601 with time zone")
    versions: dict[str, str] = Field({}, description="versions of Python and of the libraries that retrieved")


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
    collection_at_end: CollectionFacts | None = Field(None, description="the collection at the end of the run")
    collection_changed: str | None = Field(
        None, description="what changed in the collection during the run, which leaves every criterion undecided"
    )
    saved_retrieval: SavedRetrievalFacts | None = Field(
        None, description="the saved retrieval that the run started from; absent where it searched"
    )
    embedding: str | None = Field(None, description="provider:model of the embedding, or its class; null if not known")
    judge: JudgeFacts | None = Field(None, description="the LLM judge; absent without one")
    versions: dict[str, str] = Field(description="versions of Python and of the libraries that scores depend on")
    commit: str = Field(description="commit of the working directory, with -dirty where files differ; or unknown")
    seed: int = Field(ge=0, description="seed of all resampling")

"""The settings of a retriever."""

from collections.abc import Mapping
from math import inf, isfinite
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from retrievers.config.filters import parse, qdrant_filter
from retrievers.config.models import CrossEncoderConfig, EmbeddingConfig
from retrievers.config.rerankers import RERANKERS, Fusion, Reranker, RerankerName, listed
from retrievers.config.sections import CacheConfig, KeywordConfig, MetadataConfig, StoreConfig, known_field
from retrievers.config.settings import TABLE, Settings
from retrievers.errors import ConfigError
from retrievers.records import METADATA_FIELDS, UNBOUNDED, Distance, ScoreScale

MAX_TOP_K = 100
MAX_QUERY_WORDS = 512
MAX_QUERY_CHARACTERS = 4_000
# Settings that apply to a retriever of the user's own (`python`); all others are set inside of it.
FOREIGN_SETTINGS = (
    "python", "store", "collection", "metadata", "top_k", "threshold", "candidates", "include_metadata",
)  # fmt: skip

# What a `QdrantVectorStore` of the user's own brings along; all else may be set for one.
OF_THE_STORE = ("embedding", "vector_name", "distance")

Threshold = Annotated[float | None, BeforeValidator(lambda value: None if value == "none" else value)]
ThresholdOn = Literal["each", "best", "final"]
Mode = Literal["semantic", "keyword", "hybrid"]


class RetrieverConfig(Settings):
    """All that decides what a query gets back.

    With `python` the retriever is the user's own. Where it is no `QdrantVectorStore`, only `FOREIGN_SETTINGS` may be
    given, of which `store` and `collection` name where its chunks are listed; that is checked when it is opened.

    Attributes:
        python: `module:factory` of a LangChain `BaseRetriever` or `QdrantVectorStore`, called without arguments.
        candidates: Depth of the search before threshold and cut; `top_k` may not exceed it.
        distance: Distance of the dense vector; where it is left out, a cosine, or else what the collection has.
        threshold: Worst score of a returned chunk: of its cosine similarity, 0 to 1, in any mode, unless `threshold_on`
            is `final`. Under `best` all chunks count as having the best of the candidates, so that a query gets a
            whole answer or none. With `distance: dot`, which must then be named beside it, it is a dot product.
            None: none is in force.
        search_params: What goes as Qdrant's `SearchParams` with every search for dense vectors; what is left out is as
            the collection has it. A keyword search is exact; of these only `indexed_only` concerns it.
        semantic_weight: Share of the semantic side in a hybrid search; the keyword side has the rest.
        abbreviations: Short form to meaning, set behind it before a query is embedded.
        filters: An expression (see `retrievers.config.filters`) that every candidate meets.
        group_by: A field of which each value is returned once, with its best chunk.
        trust_embedding: Skip the check that a collection without a recorded model was embedded by the configured one.
    """

    python: str | None = Field(None, description="a LangChain retriever of your own, as module:factory")
    store: StoreConfig = Field(
        default_factory=lambda: StoreConfig.model_validate({}), description="location of the collection"
    )
    collection: str = Field("physical_ai_handbook", min_length=1, max_length=255, description="name of the collection")
    embedding: EmbeddingConfig = Field(default_factory=lambda: EmbeddingConfig.model_validate({}), description="model")
    mode: Mode = Field("semantic", description="search of candidates: semantic, keyword or hybrid")
    fusion: Fusion = Field("weighted", description="fusion of the two sides of hybrid: weighted, rrf or dbsf")
    semantic_weight: float = Field(0.7, ge=0, le=1, description="share of the semantic side in hybrid")
    keyword_weight: float | None = Field(
        None, ge=0, le=1, description="share of the keyword side; the rest if left out"
    )
    rrf_constant: float = Field(60.0, gt=0, description="constant of reciprocal rank fusion")
    rerank: RerankerName = Field("none", description=listed())
    mmr_lambda: float = Field(0.7, ge=0, le=1, description="mmr: 1 for relevance alone, 0 for diversity alone")
    top_k: int = Field(5, ge=1, le=MAX_TOP_K, description="most chunks to return")
    threshold_on: ThresholdOn = Field(
        "each", description="each chunk's similarity; best: the highest one, for all; or the final score"
    )
    distance: Distance | None = Field(None, description="cosine or dot (default: cosine, or what the collection has)")
    threshold: Threshold = Field(None, description="least score of a returned chunk (default: none)")
    candidates: int = Field(100, ge=1, le=10_000, description="candidate depth, before threshold and cut")
    search_params: Mapping[str, Any] | None = Field(
        None, description="how Qdrant searches: its SearchParams, e.g. {hnsw_ef: 256}", json_schema_extra=TABLE
    )
    vector_name: str = Field("", description="name of the dense vector in the collection; '' if it has none")
    metadata: MetadataConfig = Field(
        default_factory=lambda: MetadataConfig.model_validate({}), description="names of the fields in the payload"
    )
    keyword: KeywordConfig = Field(default_factory=lambda: KeywordConfig.model_validate({}), description="BM25")
    cross_encoder: CrossEncoderConfig = Field(
        default_factory=lambda: CrossEncoderConfig.model_validate({}), description="the cross-encoder"
    )
    cache: CacheConfig = Field(
        default_factory=lambda: CacheConfig.model_validate({}), description="caches between searches"
    )
    abbreviations: Mapping[str, str] = Field(
        default_factory=dict, description="short form: meaning, for embedding", json_schema_extra=TABLE
    )
    filters: str | Mapping[str, Any] | None = Field(
        None, description="condition on every candidate", json_schema_extra=TABLE
    )
    group_by: str | None = Field(None, description="field of which each value is returned once")
    include_metadata: bool = Field(True, description="false: results hold text and score alone")
    trust_embedding: bool = Field(False, description="do not verify an unrecorded embedding model")

    @field_validator("collection")
    @classmethod
    def _name_for_qdrant(cls, name: str) -> str:
        if not name.strip() or name in (".", "..") or any(c in '<>:"/\\|?*' or not c.isprintable() for c in name):
            raise ValueError('expected a name without < > : " / \\ | ? * and line breaks')
        return name

    @field_validator("python")
    @classmethod
    def _names_a_factory(cls, target: str | None) -> str | None:
        if target is not None and not all(part.strip() for part in target.partition(":")):
            raise ValueError("expected 'module:factory'")
        return target

    @model_validator(mode="after")
    def _foreign_settings(self) -> Self:
        if self.python is None:
            return self
        idle = [name for name in OF_THE_STORE if name in self.model_fields_set]
        if idle:
            raise ValueError(
                f"{', '.join(idle)} cannot be set for python {self.python!r}, which settles them by itself; leave "
                f"{'them' if len(idle) > 1 else 'it'} out, or leave out python to evaluate QdrantRetriever"
            )
        if "store" in self.model_fields_set and "collection" not in self.model_fields_set:
            raise ValueError(
                f"store names no collection; name the one that python {self.python!r} reads from, so that its chunks "
                "can be listed, or leave store out"
            )
        return self

    @model_serializer(mode="wrap")
    def _in_force(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the settings in force: without those that a retriever of the user's own does not read."""
        plain: dict[str, Any] = handler(self)
        if self.python is None:
            return plain
        idle = ({"threshold"} if self.threshold is None else set()) | (
            set() if self.names_collection else {"store", "collection"}
        )
        applicable = ({*FOREIGN_SETTINGS} | self.model_fields_set) - idle - {*OF_THE_STORE}
        return {name: value for name, value in plain.items() if name in applicable}

    @model_validator(mode="after")
    def _depth_holds_top_k(self) -> Self:
        if self.top_k > self.candidates:
            raise ValueError(
                f"top_k is {self.top_k} and exceeds the candidate depth {self.candidates}; "
                "raise candidates or lower top_k"
            )
        return self

    @model_validator(mode="after")
    def _weights_sum_to_one(self) -> Self:
        # Decimal fractions such as 0.7 + 0.3 need not sum to 1 exactly.
        if self.keyword_weight is not None and abs(self.semantic_weight + self.keyword_weight - 1) > 1e-9:
            raise ValueError(
                f"semantic_weight {self.semantic_weight:g} and keyword_weight {self.keyword_weight:g} must sum to 1; "
                "leave keyword_weight out to have the rest"
            )
        return self

    @model_validator(mode="after")
    def _rerank_fits_mode(self) -> Self:
        if self.reranker.fusion and self.mode != "hybrid":
            raise ValueError(
                f"rerank {self.rerank!r} fuses two searches and needs mode 'hybrid', got mode {self.mode!r}"
            )
        return self

    @model_validator(mode="after")
    def _expansion_has_lists_to_join(self) -> Self:
        if self.keyword.expansion == "list" and (self.mode != "hybrid" or self.used_fusion != "rrf"):
            raise ValueError(
                "keyword.expansion 'list' is a third list of reciprocal rank fusion and needs mode 'hybrid' with "
                f"rerank 'rrf' or fusion 'rrf', got mode {self.mode!r} with fusion {self.used_fusion!r}"
            )
        if self.keyword.expansion == "list" and not self.keyword.synonyms:
            raise ValueError("keyword.expansion 'list' searches for synonyms, but keyword.synonyms names none")
        return self

    @field_validator("threshold")
    @classmethod
    def _on_its_scale(cls, threshold: float | None, others: ValidationInfo) -> float | None:
        if threshold is None:
            return None
        named = others.data
        reranked = named.get("mode") != "semantic" or RERANKERS[named.get("rerank", "none")].scale
        final = named.get("threshold_on") == "final" and reranked
        distance = "" if final else named.get("distance") or ""
        if distance == "dot" and not isfinite(threshold):
            raise ValueError("expected a finite number")
        if distance not in UNBOUNDED and not 0 <= threshold <= 1:
            hint = "" if final or distance else "; one on dot products needs distance: dot beside it"
            raise ValueError(f"expected a number from 0 to 1{hint}")
        return threshold

    @model_validator(mode="after")
    def _server_can_encode(self) -> Self:
        if self.keyword.encoder == "server" and self.mode != "semantic" and not self.store.url:
            raise ValueError(
                "keyword.encoder 'server' leaves the encoding of queries to a Qdrant server (1.15.3 or later), and the "
                "store is a folder of this process; leave keyword.encoder out (bm25 gives the same weights), or set "
                "store.url"
            )
        return self

    @model_validator(mode="after")
    def _weights_have_a_scale(self) -> Self:
        if self.mode == "hybrid" and self.used_fusion == "weighted" and self.used_distance != "cosine":
            raise ValueError(
                f"fusion 'weighted' adds shares of two scores between 0 and 1, and {self.used_distance} scores have no "
                "such bounds; use fusion: rrf (by places) or dbsf (by the distribution of the scores)"
            )
        return self

    @model_validator(mode="after")
    def _threshold_has_a_scale(self) -> Self:
        if self.threshold_on == "final" and self.score_scale in ("rrf", "dbsf", "bm25", "sparse"):
            raise ValueError(
                f"threshold_on 'final' would compare the threshold with {self.score_scale} scores, which have no fixed "
                "scale; use threshold_on: each, or fusion: weighted, or rerank: cross-encoder"
            )
        return self

    @field_validator("search_params")
    @classmethod
    def _as_qdrant_takes_them(cls, given: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        if not given:
            return None
        from qdrant_client.models import SearchParams

        try:
            return SearchParams.model_validate(given).model_dump(exclude_unset=True)
        except ValidationError as error:
            faults = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()]
            raise ValueError(f"no SearchParams of Qdrant: {'; '.join(faults)}") from None

    @field_validator("filters")
    @classmethod
    def _readable(cls, filters: str | Mapping[str, Any] | None) -> str | Mapping[str, Any] | None:
        if filters is not None:
            try:
                _ = qdrant_filter(filters) or parse(filters)
            except ConfigError as error:
                raise ValueError(str(error).removeprefix("filters: ")) from None
        return filters

    @field_validator("abbreviations")
    @classmethod
    def _not_blank(cls, abbreviations: Mapping[str, str]) -> Mapping[str, str]:
        if any(not short.strip() for short in abbreviations):
            raise ValueError("a blank is no abbreviation")
        return abbreviations

    @field_validator("group_by")
    @classmethod
    def _field_to_group_by(cls, name: str | None) -> str | None:
        return None if name is None else known_field(name, METADATA_FIELDS)

    @property
    def names_collection(self) -> bool:
        """Return True if a collection is named beside a retriever of the user's own."""
        return self.python is not None and "collection" in self.model_fields_set

    @property
    def used_threshold(self) -> float | None:
        """The threshold in force, None for none."""
        return self.threshold

    @property
    def threshold_scale(self) -> ScoreScale:
        """The scale of the scores that the threshold reads."""
        return self.score_scale if self.threshold_on == "final" else self.used_distance

    @property
    def least(self) -> float:
        """The threshold; −∞ where none is in force."""
        return -inf if self.used_threshold is None else self.used_threshold

    @property
    def used_distance(self) -> Distance:
        """The distance of the dense vector, a cosine unless the settings or the collection say otherwise."""
        return self.distance or "cosine"

    @property
    def reranker(self) -> Reranker:
        """The declaration of the reranker."""
        return RERANKERS[self.rerank]

    @property
    def used_fusion(self) -> Fusion:
        """The fusion in force: reranking by rrf is fusion by rrf."""
        return self.reranker.fusion or self.fusion

    @property
    def score_scale(self) -> ScoreScale:
        """The scale of the final scores."""
        if self.reranker.scale:
            return self.reranker.scale
        if self.mode == "hybrid":
            return self.used_fusion
        return self.keyword.scale if self.mode == "keyword" else self.used_distance

"""The settings of retrieval: frozen, checked in full before anything runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from retrievers.errors import ConfigError, nearest
from retrievers.filters import parse
from retrievers.keyword import check_language, words
from retrievers.records import ALIASES, METADATA_FIELDS, ScoreScale

MAX_TOP_K = 100
MAX_QUERY_WORDS = 512
MAX_QUERY_CHARACTERS = 4_000
REQUIRED_METADATA = ("source_url", "title", "section_path", "chunk_index", "total_chunks", "content_hash")
TABLE: dict[str, Any] = {"table": True}
"""Marks a setting whose mapping has keys of the user's own: taken whole, and replaced whole by a higher layer."""
DEFAULT_LANGUAGE = "english"
FOREIGN_SETTINGS = (
    "python", "store", "collection", "metadata", "top_k", "threshold", "candidates", "include_metadata",
)  # fmt: skip
"""What can be said of a retriever that is not ours (`python`); all else is settled inside of it."""
ALWAYS_THERE = ("point_id", "text", "chunk_text_preview")

Threshold = Annotated[float, Field(ge=0, le=1)]
Mode = Literal["semantic", "keyword", "hybrid"]
Fusion = Literal["weighted", "rrf", "dbsf"]
Rerank = Literal["none", "cross-encoder", "mmr", "rrf"]


class Settings(BaseModel):
    """Base of all settings: frozen, unknown names refused, defaults checked, `~` in a path the user's home."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    @field_validator("*")
    @classmethod
    def _at_home(cls, value: Any) -> Any:
        if not isinstance(value, Path):
            return value
        try:
            return value.expanduser()
        except RuntimeError:
            raise ValueError(f"there is no home folder for {value.parts[0]!r}; write the path out") from None


def address(url: str, example: str, key: str) -> str:
    """A server's address, without the slash at its end.

    Raises:
        ValueError: It is none, or carries credentials; `example` shows one, `key` says where a key belongs.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or any(c.isspace() for c in url):
        raise ValueError(f"expected an http:// or https:// address such as {example}")
    if parts.username or parts.password or parts.query:
        raise ValueError(f"must not carry credentials; put the key into the environment variable {key}")
    try:
        _ = parts.port
    except ValueError:
        raise ValueError("the port is not a number from 0 to 65535") from None
    return url.rstrip("/")


class StoreConfig(Settings):
    """Where the collection lives: a Qdrant server (`url`) or an embedded folder (`path`), not both.

    A server whose certificate a private authority signed is reached with `ca_file`, which for the store replaces the
    authorities that come with the HTTP library. Where it is not set, the standard variables SSL_CERT_FILE and
    SSL_CERT_DIR of the process are honoured, as they are for every other connection.

    With `prefer_grpc` requests go to the server's gRPC port (6334) where the client knows how. This is passed on to the
    client as it is and not exercised by the test suite: over gRPC nothing is retried, timeouts are whole seconds, and
    `ca_file` does not count.
    """

    url: str | None = Field(None, description="Qdrant server or cloud, e.g. http://localhost:6333")
    path: Path | None = Field(None, description="folder of the embedded store")
    api_key_env: str = Field("QDRANT_API_KEY", description="environment variable that holds the server's API key")
    timeout_s: float = Field(10.0, gt=0, le=3600, description="seconds a request to the store may take")
    ca_file: Path | None = Field(None, description="PEM file of the authority that signed the server's certificate")
    prefer_grpc: bool = Field(False, description="use gRPC where possible (not exercised by the tests)")

    @field_validator("url")
    @classmethod
    def _url_without_secrets(cls, url: str | None) -> str | None:
        return None if url is None else address(url, "http://localhost:6333", "QDRANT_API_KEY")

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.url and self.path:
            raise ValueError(f"give either url or path, got both: url={self.url!r}, path={str(self.path)!r}")
        return self


class ModelConfig(Settings):
    """A model of some provider; `python` loads one of the user's from `module:factory` given as `model`."""

    default_models: ClassVar[Mapping[str, str]] = {}
    provider: str = Field("python", description="whose model")
    model: str | None = Field(None, description="model name; for python `module:factory`")
    base_url: str | None = Field(None, description="address of the provider's API, if not its own")
    api_key_env: str = Field("COHERE_API_KEY", description="environment variable that holds the provider's API key")
    timeout_s: float = Field(30.0, gt=0, le=3600, description="seconds one request to the model may take")

    @field_validator("base_url")
    @classmethod
    def _url_without_secrets(cls, url: str | None) -> str | None:
        return None if url is None else address(url, "https://api.cohere.com", "COHERE_API_KEY")

    @model_validator(mode="after")
    def _model_for_python(self) -> Self:
        if self.provider == "python" and ":" not in (self.model or ""):
            raise ValueError(f"provider 'python' needs model: 'module:factory', got {self.model!r}")
        return self

    @property
    def resolved_model(self) -> str:
        """The model's name, with the provider's default filled in."""
        return self.model or self.default_models[self.provider]


class EmbeddingConfig(ModelConfig):
    """Which model turns text into vectors.

    `wordllama` is packaged and needs no key or network; `cohere` calls Cohere through langchain-cohere;
    `python` loads any LangChain `Embeddings`.
    """

    default_models = {"wordllama": "l2_supercat_256", "cohere": "embed-english-v3.0"}
    provider: Literal["wordllama", "cohere", "python"] = Field("wordllama", description="who embeds")


class MetadataConfig(Settings):
    """How a collection's payload names the fields of a chunk.

    Attributes:
        text_key: Payload key of the text (LangChain writes `page_content`).
        nested_under: Payload key that holds the other fields (LangChain writes `metadata`); empty for a flat payload.
        map: Canonical field name to payload key, for the fields whose key differs.
        required: Fields that every chunk must have.
    """

    text_key: str = Field("page_content", description="payload key of the chunk's text")
    nested_under: str = Field("metadata", description="payload key that holds the other fields; '' if they are flat")
    map: Mapping[str, str] = Field(default_factory=dict, description="field name: payload key, where they differ")
    required: tuple[str, ...] = Field(REQUIRED_METADATA, description="fields that every chunk must have")

    @property
    def layout(self) -> dict[str, Any]:
        """Under which payload keys text and fields are, as a collection that `retrievers index` made records it."""
        moved = {name: key for name, key in self.map.items() if key != name}
        return {"text_key": self.text_key, "nested_under": self.nested_under, "map": moved}

    def unread(self, layout: Mapping[str, Any]) -> dict[str, Any]:
        """What of a recorded layout these settings would miss; a field that `map` names is on purpose read there."""
        own = self.layout
        missed = {key: layout[key] for key in ("text_key", "nested_under") if layout[key] != own[key]}
        moved = {n: key for n, key in layout["map"].items() if n not in self.map and ALIASES.get(key) != n}
        return missed | ({"map": moved} if moved else {})

    @field_validator("map")
    @classmethod
    def _canonical_keys(cls, mapping: Mapping[str, str]) -> Mapping[str, str]:
        return {_known(name, METADATA_FIELDS): key for name, key in mapping.items()}

    @field_validator("required")
    @classmethod
    def _canonical_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(_known(name, (*METADATA_FIELDS, *ALWAYS_THERE)) for name in names))


class KeywordConfig(Settings):
    """The keyword side: BM25 as sparse vectors, whose terms come from a library's tokeniser and stemmer.

    Attributes:
        synonyms: Term or phrase to further terms that are searched along when it occurs in a query.
        synonym_weight: Their weight, where a term of the query itself weighs 1.
        expansion: `terms`: they join the query's own terms. `list`: the query so expanded is searched for by itself,
            and reciprocal rank fusion takes what it finds as a third list, of `synonym_weight` times the weight of the
            keyword list, which is then that of the query's own terms. A query without a synonym has no such list.
    """

    vector_name: str = Field("bm25", min_length=1, description="name of the sparse vector in the collection")
    language: str = Field(DEFAULT_LANGUAGE, description="language of stop words and stemmer")
    average_length: float | None = Field(
        None, gt=0, description="average terms of a chunk; measured when the collection is made if left out"
    )
    synonyms: Mapping[str, tuple[str, ...]] = Field(
        default_factory=dict, description="term: [terms searched along]", json_schema_extra=TABLE
    )
    synonym_weight: float = Field(0.5, gt=0, lt=1, description="weight of a synonym; the query's own terms weigh 1")
    expansion: Literal["terms", "list"] = Field(
        "terms", description="synonyms join the query's terms, or make a third list for rrf"
    )

    @field_validator("language")
    @classmethod
    def _known_language(cls, name: str) -> str:
        if name != DEFAULT_LANGUAGE:  # of which we are sure; asking the library costs its import
            check_language(name)
        return name

    @field_validator("synonyms")
    @classmethod
    def _findable(cls, synonyms: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
        for term in synonyms:
            if not words(term):
                raise ValueError(f"{term!r} holds no word to be found by")
        return synonyms


class CacheConfig(Settings):
    """What is remembered between searches: query vectors on disk, results in memory. Each call may pass it by.

    Attributes:
        embeddings: `auto` keeps those of hosted models; a local one is faster than a file, or not known by its name.
        results: Those of an embedded store are dropped when it changes.
        results_ttl_s: A server does not tell of every change, so its results are kept only for as long as is set here.
    """

    embeddings: Literal["auto", "on", "off"] = Field("auto", description="keep query vectors on disk: auto, on or off")
    path: Path | None = Field(None, description="file of the query vectors; in the user's cache folder if left out")
    ttl_s: float = Field(3600.0, gt=0, description="seconds a query vector is kept")
    results: int = Field(256, ge=0, le=100_000, description="how many results are kept in memory; 0 for none")
    results_ttl_s: float = Field(
        0.0, ge=0, le=86_400, description="seconds a result from a server is kept, changed or not; 0 for not at all"
    )


class CrossEncoderConfig(ModelConfig):
    """Which cross-encoder reranks: Cohere Rerank, a local sentence-transformers model, or any of the user's.

    `python` loads a LangChain document compressor, or an object with `score(pairs)`.
    """

    default_models = {"cohere": "rerank-v3.5", "sentence-transformers": "cross-encoder/ms-marco-MiniLM-L6-v2"}
    provider: Literal["cohere", "sentence-transformers", "python"] = Field("cohere", description="who reranks")


class RetrieverConfig(Settings):
    """All that decides what a query gets back.

    With `python` the retriever is the user's own, and only `FOREIGN_SETTINGS` may be given: `store` and `collection`
    then name where its chunks are listed, and a threshold is in force only where one is given.

    Attributes:
        python: `module:factory` of a LangChain `BaseRetriever` or `QdrantVectorStore`, called without arguments.
        candidates: How deep the search goes before threshold and cut; `top_k` may not exceed it.
        threshold: Least score of a returned chunk, 0 to 1: of its cosine similarity, whatever the mode, unless
            `threshold_on` is `final`.
        semantic_weight: Share of the semantic side in a hybrid search; the keyword side has the rest.
        abbreviations: Short form to meaning, set behind it before a query is embedded.
        filters: An expression (see `retrievers.filters`) that every candidate meets.
        group_by: A field of which each value is returned once, with its best chunk.
        timeout_s: Deadline of one search, from the query to the reranked result: embedding, store, reranking and the
            waits between attempts together. Many queries searched as one batch have as many times as long.
        trust_embedding: Skip the check that a collection without a recorded model was embedded by the configured one.
    """

    python: str | None = Field(None, description="a LangChain retriever of your own, as module:factory")
    store: StoreConfig = Field(default_factory=lambda: StoreConfig.model_validate({}), description="where")
    collection: str = Field("physical_ai_handbook", min_length=1, max_length=255, description="name of the collection")
    embedding: EmbeddingConfig = Field(default_factory=lambda: EmbeddingConfig.model_validate({}), description="model")
    mode: Mode = Field("semantic", description="how candidates are found: semantic, keyword or hybrid")
    fusion: Fusion = Field("weighted", description="how hybrid joins its two sides: weighted, rrf or dbsf")
    semantic_weight: float = Field(0.7, ge=0, le=1, description="share of the semantic side in hybrid")
    keyword_weight: float | None = Field(
        None, ge=0, le=1, description="share of the keyword side; the rest if left out"
    )
    rrf_constant: float = Field(60.0, gt=0, description="constant of reciprocal rank fusion")
    rerank: Rerank = Field("none", description="none, cross-encoder, mmr, or rrf (hybrid with rrf fusion)")
    mmr_lambda: float = Field(0.7, ge=0, le=1, description="mmr: 1 for relevance alone, 0 for diversity alone")
    top_k: int = Field(5, ge=1, le=MAX_TOP_K, description="most chunks to return")
    threshold: Threshold = Field(0.3, description="least score of a returned chunk")
    threshold_on: Literal["semantic", "final"] = Field("semantic", description="the cosine, or the final score")
    candidates: int = Field(100, ge=1, le=10_000, description="candidate depth, before threshold and cut")
    timeout_s: float = Field(30.0, gt=0, le=3600, description="seconds one search may take in all")
    vector_name: str = Field("", description="name of the dense vector in the collection; '' if it has none")
    metadata: MetadataConfig = Field(
        default_factory=lambda: MetadataConfig.model_validate({}), description="how the payload names the fields"
    )
    keyword: KeywordConfig = Field(default_factory=lambda: KeywordConfig.model_validate({}), description="BM25")
    cross_encoder: CrossEncoderConfig = Field(
        default_factory=lambda: CrossEncoderConfig.model_validate({}), description="the cross-encoder"
    )
    cache: CacheConfig = Field(default_factory=lambda: CacheConfig.model_validate({}), description="what is kept")
    abbreviations: Mapping[str, str] = Field(
        default_factory=dict, description="short form: meaning, for embedding", json_schema_extra=TABLE
    )
    filters: str | Mapping[str, Any] | None = Field(
        None, description="what every candidate must meet", json_schema_extra=TABLE
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
        idle = [name for name in type(self).model_fields if name in self.model_fields_set - {*FOREIGN_SETTINGS}]
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
        """What is in force: of a retriever that is not ours, no setting that it does not read."""
        plain: dict[str, Any] = handler(self)
        if self.python is None:
            return plain
        idle = {"threshold"} - self.model_fields_set | (set() if self.names_collection else {"store", "collection"})
        known = {*FOREIGN_SETTINGS} - idle
        return {name: value for name, value in plain.items() if name in known}

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
        if self.keyword_weight is not None and abs(self.semantic_weight + self.keyword_weight - 1) > 1e-9:
            raise ValueError(
                f"semantic_weight {self.semantic_weight:g} and keyword_weight {self.keyword_weight:g} must sum to 1; "
                "leave keyword_weight out to have the rest"
            )
        return self

    @model_validator(mode="after")
    def _rerank_fits_mode(self) -> Self:
        if self.rerank == "rrf" and self.mode != "hybrid":
            raise ValueError(f"rerank 'rrf' fuses two searches and needs mode 'hybrid', got mode {self.mode!r}")
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

    @model_validator(mode="after")
    def _threshold_has_a_scale(self) -> Self:
        if self.threshold_on == "final" and self.score_scale in ("rrf", "dbsf", "bm25"):
            raise ValueError(
                f"threshold_on 'final' would compare the threshold with {self.score_scale} scores, which have no fixed "
                "scale; use threshold_on: semantic, or fusion: weighted, or rerank: cross-encoder"
            )
        return self

    @field_validator("filters")
    @classmethod
    def _readable(cls, filters: str | Mapping[str, Any] | None) -> str | Mapping[str, Any] | None:
        if filters is not None:
            try:
                parse(filters)
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
        return None if name is None else _known(name, METADATA_FIELDS)

    @property
    def names_collection(self) -> bool:
        """Whether a collection is named beside a retriever that is not ours."""
        return self.python is not None and "collection" in self.model_fields_set

    @property
    def used_threshold(self) -> float | None:
        """The threshold in force: of a retriever that is not ours the one that is given, if any."""
        return self.threshold if self.python is None or "threshold" in self.model_fields_set else None

    @property
    def used_fusion(self) -> Fusion:
        """The fusion in force: reranking by rrf is fusion by rrf."""
        return "rrf" if self.rerank == "rrf" else self.fusion

    @property
    def score_scale(self) -> ScoreScale:
        """The scale of the final scores."""
        if self.rerank == "cross-encoder":
            return "rerank"
        if self.mode == "hybrid":
            return self.used_fusion
        return "bm25" if self.mode == "keyword" else "cosine"


def _known(name: str, fields: Sequence[str]) -> str:
    canonical = ALIASES.get(name, name)
    if canonical not in fields:
        raise ValueError(f"{name!r} is not a field of a chunk{nearest(name, (*fields, *ALIASES))}")
    return canonical


def dump(settings: BaseModel) -> dict[str, Any]:
    """The settings as plain JSON values, paths absolute, so that they mean the same in any folder."""
    plain = settings.model_dump(mode="json")
    return {name: _absolute(value, plain[name]) for name, value in settings if name in plain}


def _absolute(value: Any, plain: Any) -> Any:
    if isinstance(value, BaseModel):
        return dump(value)
    return str(value.absolute()) if isinstance(value, Path) else plain

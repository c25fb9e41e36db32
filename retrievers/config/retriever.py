"""The settings of a retriever, which decide what it returns for a query."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from retrievers.config.filters import as_qdrants, to_filter
from retrievers.config.models import CrossEncoderConfig, EmbeddingConfig
from retrievers.config.settings import TABLE, FactoryName, Settings, address, field, matching, section, table
from retrievers.errors import nearest
from retrievers.records import ALIASES, METADATA_FIELDS, UNBOUNDED, ScoreScale

MAX_TOP_K = 100
MAX_QUERY_WORDS = 512
MAX_QUERY_CHARACTERS = 4_000
REQUIRED_METADATA = ("source_url", "title", "section_path", "chunk_index", "total_chunks", "content_hash")
ALWAYS_THERE = ("point_id", "text", "chunk_text_preview")
# Settings that apply to a retriever of the user's own (`python`). Its own code decides everything else.
FOREIGN_SETTINGS = ("python", "store", "collection", "metadata", "top_k", "threshold", "candidates")
# Settings that a `QdrantVectorStore` of the user's own decides. All others apply to it.
OF_THE_STORE = ("embedding", "vector_name")
# Scales without fixed bounds: on them a threshold has another meaning for every query.
UNSCALED = ("rrf", "dbsf", "bm25", "sparse")

Mode = Literal["semantic", "keyword", "hybrid"]
Fusion = Literal["weighted", "rrf", "dbsf"]
ThresholdOn = Literal["each", "best", "final"]
RerankerName = Literal["none", "cross-encoder", "mmr"]
ThresholdSignal = Literal["cosine", "bm25", "known_words", "rerank"]
# Such names are possible in Qdrant and in the file systems of all operating systems.
_collection = matching(
    r"""(?=.*[^. ])[^<>:"/\\|?*\x00-\x1f]{1,255}""",
    'a name without < > : " / \\ | ? * and line breaks, of at most 255 characters',
    ValueError,
)
CollectionName = Annotated[str, AfterValidator(_collection)]


def too_long(query: str) -> str:
    """Say that a query has more words or characters than can be asked, as the end of a sentence; empty if not."""
    words = len(query.split())
    if words <= MAX_QUERY_WORDS and len(query) <= MAX_QUERY_CHARACTERS:
        return ""
    most = f"at most {MAX_QUERY_WORDS} words and {MAX_QUERY_CHARACTERS} characters"
    return f"too long: {words} words and {len(query)} characters; {most}"


def known_field(name: str, fields: Sequence[str] = METADATA_FIELDS) -> str:
    """Return the canonical name of a field.

    Raises:
        ValueError: The name is none of `fields`. The message gives the nearest one.
    """
    canonical = ALIASES.get(name, name)
    if canonical not in fields:
        raise ValueError(f"{name!r} is not a field of a chunk{nearest(name, (*fields, *ALIASES))}")
    return canonical


FieldName = Annotated[str, AfterValidator(known_field)]
RequiredName = Annotated[str, AfterValidator(partial(known_field, fields=(*METADATA_FIELDS, *ALWAYS_THERE)))]
RequiredNames = Annotated[tuple[RequiredName, ...], AfterValidator(lambda names: tuple(dict.fromkeys(names)))]
_address = partial(address, example="http://localhost:6333", key="the environment variable QDRANT_API_KEY")
ServerAddress = Annotated[str, AfterValidator(_address)]


# Sections


class StoreConfig(Settings):
    """Location of the collection: a Qdrant server (`url`) or an embedded folder (`path`), not both.

    The standard variables SSL_CERT_FILE and SSL_CERT_DIR name the authorities that may sign a server's certificate.
    """

    idle_beside: ClassVar = {"path": ("url",), "url": ("path",)}
    url: ServerAddress | None = field(None, "Qdrant server or cloud, e.g. http://localhost:6333")
    path: Path | None = field(None, "folder of the embedded store")
    timeout_s: float = field(10.0, "seconds a request to the store may take", gt=0, le=3600)

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if str(self.path or "").startswith("local:"):
            raise ValueError("a folder of local mode is read through your own QdrantVectorStore (retriever.python)")
        if self.url and self.path:
            raise ValueError(f"give either url or path, got both: url={self.url!r}, path={str(self.path)!r}")
        return self


USUAL_KEYS = {name: [name, *(alias for alias, own in ALIASES.items() if own == name)] for name in METADATA_FIELDS}


class MetadataConfig(Settings):
    """Names of a chunk's fields in a collection's payload."""

    text_key: str = field("page_content", "payload key of the chunk's text")
    nested_under: str = field("metadata", "payload key that holds the other fields; '' if they are flat")
    map: Mapping[FieldName, str] = Field(default_factory=dict, description="field name: payload key, where they differ")
    required: RequiredNames | None = field(
        None, "fields that every chunk must have; by default the usual ones that the best chunks have"
    )

    @property
    def keys(self) -> Mapping[str, Sequence[str]]:
        """Payload keys that each field may have. The first one that a payload has counts."""
        return USUAL_KEYS | {name: [key] for name, key in self.map.items()} if self.map else USUAL_KEYS


class KeywordConfig(Settings):
    """The keyword side of a search: a sparse vector, by default of BM25, with terms by Qdrant's tokeniser and stemmer.

    Attributes:
        synonyms: For a term or phrase in a query, further terms to search for. They have half the weight of the query's
            own terms.
    """

    vector_name: str = field("bm25", "name of the sparse vector in the collection", min_length=1)
    language: str = field("english", "language of stop words and stemmer")
    synonyms: Mapping[str, tuple[str, ...]] = table("term: [terms to search in addition]")

    # True if a `QdrantVectorStore` of the user's own has a model of sparse vectors.
    _own_model = PrivateAttr(default=False)

    def of_own_model(self, vector_name: str) -> Self:
        """Return the settings for a sparse vector that the user's own model makes."""
        keyword = self.model_copy(update={"vector_name": vector_name})
        keyword._own_model = True
        return keyword

    @property
    def scale(self) -> ScoreScale:
        """The scale of the scores."""
        return "sparse" if self._own_model else "bm25"

    @field_validator("language")
    @classmethod
    def _known_language(cls, name: str) -> str:
        if name != "english":  # for the default the library need not be imported
            from qdrant_edge import Language

            languages = [language.lower() for language in vars(Language) if language[0].isupper()]
            if name not in languages:
                raise ValueError(f"no stop words and stemmer for {name!r}{nearest(name, languages)}")
        return name


# The retriever


class RetrieverConfig(Settings):
    """Settings that decide what a retriever returns for a query.

    With `python` the retriever is the user's own. If it is no `QdrantVectorStore`, only `FOREIGN_SETTINGS` may be
    given; this is checked when the retriever is opened. `store` and `collection` then name the collection that it reads
    from, whose chunks can be listed.

    Attributes:
        python: `module:factory` of a LangChain `BaseRetriever` or `QdrantVectorStore`, called without arguments.
        candidates: Depth of the search before threshold and cut; `top_k` may not exceed it.
        threshold: Least score of a returned chunk; None for no threshold. In all modes it reads the cosine, 0 to 1,
            unless `threshold_signal` or `threshold_on` says otherwise.
        threshold_on: `each`: the score of each chunk is read. `best`: the highest score of all candidates is read for
            every chunk, so that a query gets a whole result or none. `final`: the final score is read.
        threshold_signal: The score that the threshold reads under `each` and `best`. Other scores than the cosine may
            better tell the questions that the documents answer from others. `bm25`: a chunk's BM25 divided by the
            weight of the query's words, 0 or more. `known_words`: the share of the query's words that some chunk has,
            which takes a further search for each word. `rerank`: the score of the cross-encoder.
        search_params: Qdrant's `SearchParams` for searches of dense vectors. The collection has its own values for
            those that are left out. A keyword search is always exact.
        semantic_weight: Share of the semantic side in a hybrid search by `weighted` or `rrf`. The keyword side has the
            rest. Under `dbsf` both sides count alike.
        abbreviations: Meanings of abbreviations. They are put behind the abbreviations before a query is embedded.
        filters: A condition that every candidate must meet (see `retrievers.config.filters`).
        group_by: A field. Of the chunks with one value of it, only the best is returned.
        trust_embedding: Skip the check that the configured model embedded a collection that records no model.
    """

    python: FactoryName | None = field(None, "your retriever: module:factory")
    store: StoreConfig = section(StoreConfig, "location of the collection")
    collection: CollectionName = field("physical_ai_handbook", "name of the collection")
    embedding: EmbeddingConfig = section(EmbeddingConfig, "model")
    mode: Mode = field("semantic", "search of candidates: semantic, keyword or hybrid")
    fusion: Fusion = field("weighted", "fusion of the two sides of hybrid: weighted, rrf or dbsf")
    semantic_weight: float = field(0.7, "share of the semantic side in weighted and rrf", ge=0, le=1)
    rerank: RerankerName = field("none", "none, cross-encoder or mmr")
    mmr_lambda: float = field(0.7, "mmr: 1 for relevance alone, 0 for diversity alone", ge=0, le=1)
    top_k: int = field(5, "most chunks to return", ge=1, le=MAX_TOP_K)
    threshold_on: ThresholdOn = field("each", "each chunk's similarity, the best one's, or the final score")
    threshold_signal: ThresholdSignal = field("cosine", "what is read: cosine, bm25, known_words or rerank")
    threshold: float | None = field(None, "least score of a returned chunk (default: none)", allow_inf_nan=False)
    candidates: int = field(100, "candidate depth, before threshold and cut", ge=1, le=10_000)
    search_params: Mapping[str, Any] | None = field(
        None, "Qdrant's SearchParams, e.g. {hnsw_ef: 256}", json_schema_extra=TABLE
    )
    vector_name: str = field("", "name of the dense vector in the collection; '' if it has none")
    metadata: MetadataConfig = section(MetadataConfig, "names of the fields in the payload")
    keyword: KeywordConfig = section(KeywordConfig, "BM25")
    cross_encoder: CrossEncoderConfig = section(CrossEncoderConfig, "the cross-encoder")
    abbreviations: Mapping[str, str] = table("short form: meaning, for embedding")
    filters: str | Mapping[str, Any] | None = field(None, "what candidates meet", json_schema_extra=TABLE)
    group_by: FieldName | None = field(None, "field of distinct values")
    trust_embedding: bool = field(False, "do not verify an unrecorded embedding model")

    def replaced_by(self, changes: Mapping[str, Any]) -> Self:
        """Return the settings with the changes, validated.

        Raises:
            ValidationError: The changes are not valid.
        """
        return type(self).model_validate(self.model_dump() | {**changes})

    @property
    def least(self) -> float:
        """The threshold; −∞ if there is none."""
        return -inf if self.threshold is None else self.threshold

    @property
    def threshold_scale(self) -> ScoreScale:
        """The scale of the scores that the threshold reads."""
        if self.threshold_on == "final":
            return self.score_scale
        return self.keyword.scale if self.threshold_signal == "bm25" else self.threshold_signal

    @property
    def score_scale(self) -> ScoreScale:
        """The scale of the final scores."""
        return "rerank" if self.rerank == "cross-encoder" else self.search_scale

    @property
    def search_scale(self) -> ScoreScale:
        """The scale of the scores of the search, before candidates are reranked."""
        if self.mode == "hybrid":
            return self.fusion
        return self.keyword.scale if self.mode == "keyword" else "cosine"

    @property
    def names_collection(self) -> bool:
        """True if a collection is named for a retriever of the user's own."""
        return self.python is not None and "collection" in self.model_fields_set

    # Checks

    @field_validator("search_params")
    @classmethod
    def _as_qdrant_takes_them(cls, params: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        if not params:
            return None
        from qdrant_client.models import SearchParams

        return as_qdrants(SearchParams, params).model_dump(exclude_unset=True)

    @field_validator("filters")
    @classmethod
    def _readable(cls, filters: str | Mapping[str, Any] | None) -> str | Mapping[str, Any] | None:
        _ = filters is None or to_filter(filters)
        return filters

    @model_validator(mode="after")
    def _together(self) -> Self:
        """Check the settings that depend on each other."""
        if faults := [*self._faults()]:
            raise ValueError("; ".join(faults))
        return self

    def _faults(self) -> Iterator[str]:
        idle = [name for name in OF_THE_STORE if self.python is not None and name in self.model_fields_set]
        if idle:
            yield f"python {self.python!r} settles {' and '.join(idle)} by itself; leave out that, or python"
        if self.python is not None and "store" in self.model_fields_set and not self.names_collection:
            yield f"store: name the collection that python {self.python!r} reads from, or leave store out"
        if self.top_k > self.candidates:
            yield f"top_k is {self.top_k} and exceeds the candidate depth {self.candidates}; raise that or lower top_k"
        if self.threshold_on == "final" and self.score_scale in UNSCALED:
            fused = ", or fusion: weighted" * (self.mode == "hybrid")
            remedy = f"use threshold_on: each{fused}, or rerank: cross-encoder"
            yield f"threshold_on 'final' would compare the threshold with {self.score_scale} scores; {remedy}"
        if self.threshold is not None and self.threshold_scale not in UNBOUNDED and not 0 <= self.threshold <= 1:
            yield f"threshold: expected a number from 0 to 1, got {self.threshold:g}"
        signal = self.threshold_signal
        if signal != "cosine" and self.threshold_on == "final":
            yield f"threshold_on 'final' reads the final score, not threshold_signal {signal!r}; leave out one of them"
        if signal == "rerank" and self.rerank != "cross-encoder":
            yield "threshold_signal 'rerank' needs a reranker that gives scores; use rerank: cross-encoder"
        # A store of the user's own has a mode of its own, which is known when it is opened.
        is_known = self.python is None or "mode" in self.model_fields_set
        if signal in ("bm25", "known_words") and is_known and self.mode == "semantic":
            remedy = "use mode: hybrid (with semantic_weight: 1 it keeps the order by meaning)"
            yield f"threshold_signal {signal!r} reads the query's words, which mode 'semantic' does not; {remedy}"

    @model_serializer(mode="wrap")
    def _in_force(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the settings without those that a retriever of the user's own does not read."""
        plain: dict[str, Any] = handler(self)
        if self.python is None:
            return plain
        read = {*FOREIGN_SETTINGS} | self.model_fields_set
        read -= {*OF_THE_STORE} | ({"threshold"} if self.threshold is None else set())
        read -= set() if self.names_collection else {"store", "collection"}
        return {name: value for name, value in plain.items() if name in read}


# These settings keep their values if a higher layer names a retriever of the user's own.
KEPT = {"top_k", "candidates", "metadata"}
RetrieverConfig.idle_beside = {name: ("python",) for name in {*RetrieverConfig.model_fields} - KEPT}

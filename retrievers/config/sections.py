"""The sections of a retriever's settings: payload keys, caches, keywords, the location of the collection."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from retrievers.config.files import user_path, without_mark
from retrievers.config.languages import check_language, words
from retrievers.config.settings import TABLE, Settings, VariableName, address
from retrievers.errors import nearest
from retrievers.records import ALIASES, METADATA_FIELDS, ScoreScale

DEFAULT_LANGUAGE = "english"
REQUIRED_METADATA = ("source_url", "title", "section_path", "chunk_index", "total_chunks", "content_hash")
ALWAYS_THERE = ("point_id", "text", "chunk_text_preview")


class MetadataConfig(Settings):
    """Names of a chunk's fields in a collection's payload.

    Attributes:
        text_key: Payload key of the text (LangChain writes `page_content`).
        nested_under: Payload key that holds the other fields (LangChain writes `metadata`); empty for a flat payload.
        map: Canonical field name to payload key, for the fields whose key differs.
        required: Fields that every chunk must have; when left out, those of `REQUIRED_METADATA` that at least half of
            the chunks have.
    """

    text_key: str = Field("page_content", description="payload key of the chunk's text")
    nested_under: str = Field("metadata", description="payload key that holds the other fields; '' if they are flat")
    map: Mapping[str, str] = Field(default_factory=dict, description="field name: payload key, where they differ")
    required: tuple[str, ...] | None = Field(
        None, description="fields that every chunk must have (default: the usual ones that the collection has)"
    )

    @property
    def layout(self) -> dict[str, Any]:
        """Under which payload keys text and fields are, as a collection that `retrievers index` made records it."""
        moved = {name: key for name, key in self.map.items() if key != name}
        return {"text_key": self.text_key, "nested_under": self.nested_under, "map": moved}

    def unread(self, layout: Mapping[str, Any]) -> dict[str, Any]:
        """Name the parts of a recorded layout that these settings would miss. A field in `map` differs on purpose."""
        own = self.layout
        missed = {key: layout[key] for key in ("text_key", "nested_under") if layout[key] != own[key]}
        moved = {n: key for n, key in layout["map"].items() if n not in self.map and ALIASES.get(key) != n}
        return missed | ({"map": moved} if moved else {})

    @field_validator("map")
    @classmethod
    def _canonical_keys(cls, mapping: Mapping[str, str]) -> Mapping[str, str]:
        return {known_field(name, METADATA_FIELDS): key for name, key in mapping.items()}

    @field_validator("required")
    @classmethod
    def _canonical_names(cls, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return names and tuple(dict.fromkeys(known_field(name, (*METADATA_FIELDS, *ALWAYS_THERE)) for name in names))


def known_field(name: str, fields: Sequence[str]) -> str:
    """Return the canonical name of a field.

    Raises:
        ValueError: It is none of `fields`; the nearest is given.
    """
    canonical = ALIASES.get(name, name)
    if canonical not in fields:
        raise ValueError(f"{name!r} is not a field of a chunk{nearest(name, (*fields, *ALIASES))}")
    return canonical


class CacheConfig(Settings):
    """Caches between searches: query vectors on disk, results in memory. A call may bypass either.

    Attributes:
        embeddings: `auto` keeps those of hosted models; a local one is faster than a file, or not known by its name.
        results: Those of an embedded store are dropped when it changes.
        results_ttl_s: A server does not tell of every change, so its results are kept only for as long as is set here.
    """

    embeddings: Literal["auto", "on", "off"] = Field("auto", description="keep query vectors on disk: auto, on or off")
    path: Path | None = Field(None, description="file of the query vectors; in the user's cache folder if left out")
    ttl_s: float = Field(3600.0, gt=0, description="seconds a query vector is kept")
    results: int = Field(256, ge=0, le=100_000, description="number of results kept in memory; 0 for none")
    results_ttl_s: float = Field(
        0.0, ge=0, le=86_400, description="seconds a result from a server is kept, changed or not; 0 for not at all"
    )


class KeywordConfig(Settings):
    """The keyword side: a sparse vector, by default of BM25, whose terms come from a library's tokeniser and stemmer.

    Attributes:
        encoder: `bm25`: queries are encoded here. `server`: the Qdrant server encodes them, as `qdrant/bm25`.
            `python:module:factory`: a model of the user's own, such as SPLADE, BM42 or miniCOIL, as the collection's
            vector is of; the factory returns a function from a text to a sparse vector, or an object with `embed_query`
            (LangChain) or `query_embed` (FastEmbed).
        term_counts: A term that stands three times in a query weighs 3, as BM25 has it; otherwise 1, as a Qdrant server
            that encodes the queries itself and FastEmbed have it. Nothing that is stored depends on it.
        synonyms: Term or phrase to further terms that are searched along when it occurs in a query.
        synonym_weight: Their weight, where a term that stands once in the query weighs 1.
        expansion: `terms`: they join the query's own terms. `list`: the expanded query is a search of its own,
            and reciprocal rank fusion takes what it finds as a third list, of `synonym_weight` times the weight of the
            keyword list, which is then that of the query's own terms. A query without a synonym has no such list.
    """

    vector_name: str = Field("bm25", min_length=1, description="name of the sparse vector in the collection")
    encoder: str = Field("bm25", description="encoder of queries: bm25, server, or python:module:factory")
    language: str = Field(DEFAULT_LANGUAGE, description="language of stop words and stemmer")
    average_length: float | None = Field(
        None, gt=0, description="average terms of a chunk; measured when the collection is made if left out"
    )
    term_counts: bool = Field(True, description="a query's term counts as often as it occurs; false: once")
    synonyms: Mapping[str, tuple[str, ...]] = Field(
        default_factory=dict, description="term: [terms to search in addition]", json_schema_extra=TABLE
    )
    synonym_weight: float = Field(0.5, gt=0, lt=1, description="weight of a synonym; the query's own terms weigh 1")
    expansion: Literal["terms", "list"] = Field(
        "terms", description="synonyms join the query's terms, or make a third list for rrf"
    )

    @field_validator("language")
    @classmethod
    def _known_language(cls, name: str) -> str:
        # Languages that are certain; a question to the library costs its import.
        if name != DEFAULT_LANGUAGE:
            check_language(name)
        return name

    @field_validator("encoder")
    @classmethod
    def _known_encoder(cls, name: str) -> str:
        kind, _, target = name.partition(":")
        if name not in ("bm25", "server") and not (kind == "python" and all(map(str.strip, target.partition(":")))):
            raise ValueError("expected bm25, server, or python:module:factory")
        return name

    @model_validator(mode="after")
    def _terms_are_known(self) -> Self:
        changed = [n for n in ("term_counts", "synonyms", "expansion") if getattr(self, n) != self._default_of(n)]
        if self.encoder != "bm25" and changed:
            raise ValueError(
                f"{', '.join(changed)} would change a query's terms, which encoder {self.encoder!r} makes by itself; "
                f"leave {'them' if len(changed) > 1 else 'it'} out, or set encoder: bm25"
            )
        return self

    @classmethod
    def _default_of(cls, name: str) -> Any:
        return cls.model_fields[name].get_default(call_default_factory=True)

    @property
    def scale(self) -> ScoreScale:
        """The scale of the scores."""
        return "sparse" if self.encoder.startswith("python:") else "bm25"

    @field_validator("synonyms")
    @classmethod
    def _findable(cls, synonyms: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
        for term in synonyms:
            if not words(term):
                raise ValueError(f"{term!r} holds no word to be found by")
        return synonyms


class StoreConfig(Settings):
    """Location of the collection: a Qdrant server (`url`) or an embedded folder (`path`), not both.

    Points of qdrant-client's local mode are pickled, so that opening its folder may run any code: no folder is taken
    for one unless `path` begins with `local:`.

    A server whose certificate a private authority signed is reached with `ca_file`, which for the store replaces the
    authorities that come with the HTTP library. Where it is not set, the standard variables SSL_CERT_FILE and
    SSL_CERT_DIR of the process are honoured, as they are for every other connection.

    Requests that fail for a while (429, 5xx, no connection, no answer in time), also those to hosted models, are
    repeated: in a golden run and while indexing for `wait_s`, in an application's search for 5 s.
    """

    url: str | None = Field(None, description="Qdrant server or cloud, e.g. http://localhost:6333")
    path: Path | None = Field(
        None, description="folder of the embedded store; local:FOLDER for a trusted one of qdrant-client's local mode"
    )
    api_key_env: VariableName = Field(
        "QDRANT_API_KEY", description="environment variable that holds the server's API key"
    )
    timeout_s: float = Field(10.0, gt=0, le=3600, description="seconds a request to the store may take")
    ca_file: Path | None = Field(None, description="PEM file of the authority that signed the server's certificate")
    wait_s: float = Field(
        60.0,
        ge=0,
        le=86_400,
        description="seconds for which a run or indexing repeats a request that fails",
    )

    @property
    def local_mode(self) -> Path | None:
        """The folder of qdrant-client's local mode; None for any other store."""
        mark, folder = without_mark(self.path or "")
        return user_path(folder) if mark else None

    @field_validator("url")
    @classmethod
    def _url_without_secrets(cls, url: str | None) -> str | None:
        return None if url is None else address(url, "http://localhost:6333", "QDRANT_API_KEY")

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.url and self.path:
            raise ValueError(f"give either url or path, got both: url={self.url!r}, path={str(self.path)!r}")
        return self

"""The analysis of texts and queries by keyword search."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from retrievers.config.languages import check_language, words
from retrievers.config.settings import TABLE, Settings
from retrievers.records import ScoreScale

DEFAULT_LANGUAGE = "english"


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

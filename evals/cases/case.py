"""A golden query, as a line of a JSON Lines file holds it.

Its regular expressions may be somebody else's: RE2 matches in linear time, so none can hang.
"""

from functools import lru_cache
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from retrievers.config import too_long
from retrievers.text.shown import shortened

MAX_GRADE = 10


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("holds half of a surrogate pair, which is no character")
    return text


def _can_be_asked(query: str) -> str:
    if fault := too_long(query):
        raise ValueError(f"is {fault}")
    return query


def _compiles(pattern: str) -> str:
    compiled(pattern)
    return pattern


Text = Annotated[str, AfterValidator(_not_blank)]


class _Record(BaseModel):
    # Not strict: tables hold numbers, and true and false, as text.
    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)


class Evidence(_Record):
    """A passage that answers a query, anchored in its page so that it outlives re-chunking.

    Attributes:
        source_url: Address of the page. Without it a quote is looked for in all chunks.
        heading: The nearest heading above the passage. Without it and a quote the whole page is meant, counted once.
        quote: The passage, verbatim but for white space. Without it all text under the heading is meant.
        grade: Relevance, 1 (background) upwards; 0: judged, and not relevant.
        labelled: True if `golden label` wrote it. A later label of the chunk replaces it. No score depends on it.
    """

    source_url: Text | None = None
    heading: Text | None = None
    quote: Text | None = None
    grade: int = Field(1, ge=0, le=MAX_GRADE)
    labelled: Literal[True] | None = None

    @property
    def place(self) -> str:
        """Page and heading as text; if no page is named, the beginning of the quote."""
        place = " › ".join(filter(None, (self.source_url, self.heading)))
        return place if self.source_url else f"“{(self.quote or '')[:60]}”"

    @model_validator(mode="after")
    def _anchored(self) -> Self:
        if self.quote is None and self.source_url is None:
            raise ValueError("expected a quote, or the source_url of a page with or without a heading")
        return self


class Labelling(_Record):
    """Origin of the labels that people gave to chunks.

    Attributes:
        by: Names of the annotators.
        at: Time of the last label, ISO 8601.
    """

    # Earlier versions wrote the systems of the pool, too.
    model_config = ConfigDict(extra="ignore")

    by: list[Text]
    at: str


class Case(_Record):
    """A golden query with what a right retrieval returns.

    Attributes:
        id: Unique within the file.
        reference_answer: The right answer, supported by the evidence; metrics that read it are unscored without.
        evidence: Passages that answer the query, none for a query out of scope; those of grade 0 do not answer it.
            An in-scope case without evidence and `relevant_ids` has no labels: only a judge scores its results.
        relevant_ids: Chunk ids with grades, in place of evidence (as BEIR and TREC have them). Above 0: relevant; 0 or
            below: judged, and not relevant.
        human_verdicts: Chunk id to what people say to the judge's own question, "was this chunk useful for arriving at
            the reference answer?", 1 or 0; for every chunk that may be returned. In-scope cases only.
        in_scope: True if the documents answer the query.
        expected_topics: Terms of which each occurs in a right result.
        source_url_pattern: A regular expression (RE2) that the address of at least one right chunk matches.
        min_results: Least number of chunks in a correct result.
        split: Such as `dev` or `test`.
        labelling: Origin of labels by people, as `golden label` writes it; no score depends on it.
    """

    id: Text
    query: Annotated[Text, AfterValidator(_can_be_asked)]
    reference_answer: Text | None = None
    evidence: list[Evidence] = Field(default_factory=list)
    relevant_ids: dict[str, int] = Field(default_factory=dict)
    human_verdicts: dict[Text, Annotated[int, Field(ge=0, le=1)]] = Field(default_factory=dict)
    in_scope: bool = True
    query_type: str | None = None
    expected_topics: list[Text] = Field(default_factory=list)
    source_url_pattern: Annotated[Text, AfterValidator(_compiles)] | None = None
    min_results: int = Field(1, ge=1, le=100)
    tags: list[str] = Field(default_factory=list)
    split: str | None = None
    labelling: Labelling | None = None

    @property
    def relevant(self) -> dict[str, int]:
        """The `relevant_ids` with a grade above 0, by id."""
        return {key: grade for key, grade in self.relevant_ids.items() if grade > 0}

    @property
    def relevant_evidence(self) -> list[Evidence]:
        """The evidence with a grade above 0, which answers the query."""
        return [evidence for evidence in self.evidence if evidence.grade > 0]

    @property
    def quotes(self) -> list[str]:
        """The quotes of the relevant evidence if all labels are quotes (ragas' `reference_contexts`); else none."""
        quotes = [evidence.quote for evidence in self.relevant_evidence if evidence.quote]
        return quotes if len(quotes) == len(self.relevant_evidence) and not self.relevant else []

    @property
    def is_labelled(self) -> bool:
        """True if some passage or chunk is named as relevant."""
        return bool(self.relevant_evidence or self.relevant)

    @property
    def is_unlabelled(self) -> bool:
        """True if the query is in scope, and no passage or chunk is named as relevant."""
        return self.in_scope and not self.is_labelled

    def is_of(self, scope: str) -> bool:
        """Return True if the case is of a scope: `in_scope`, `out_of_scope` or `all`."""
        return scope == "all" or self.in_scope == (scope == "in_scope")

    @model_validator(mode="after")
    def _scope_and_evidence_agree(self) -> Self:
        if not self.in_scope and self.is_labelled:
            raise ValueError("an out-of-scope case must not have evidence or relevant_ids of a grade above 0")
        if self.human_verdicts and not (self.in_scope and self.reference_answer):
            raise ValueError("human_verdicts need a case in scope with a reference_answer: they say what led to it")
        return self


@lru_cache(maxsize=1_024)
def compiled(pattern: str) -> Any:
    """Return a compiled pattern.

    Raises:
        ValueError: RE2 cannot read the pattern. It knows neither lookarounds nor back-references.
    """
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = shortened(error.args[0].decode("utf-8", "replace"))
        raise ValueError(f"is no regular expression of RE2 (without lookarounds, back-references): {reason}") from None


def found(pattern: str, text: str) -> bool:
    """Return True if a pattern matches somewhere in a text."""
    return compiled(pattern).search(text.encode("utf-8", "replace").decode()) is not None

"""The answers that a chat model is asked for, as JSON of these schemas."""

from typing import Annotated

from pydantic import BaseModel, Field

YesOrNo = Annotated[int, Field(ge=0, le=1)]


class Question(BaseModel):
    """A query that the pages do not answer."""

    query: str


class DraftCase(Question):
    """A query with its answer and the passages that support it."""

    reference_answer: str
    quotes: list[str]


class Review(BaseModel):
    """A judgement of a draft."""

    reason: str
    follows: YesOrNo
    standalone: YesOrNo


class Clarity(BaseModel):
    """A judgement of a query alone."""

    reason: str
    standalone: YesOrNo


class Answering(BaseModel):
    """The numbers of the passages that answer a query."""

    reason: str
    answering: list[int]

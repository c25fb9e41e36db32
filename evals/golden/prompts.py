"""The types of queries that a model can write, the prompts (`prompts.yaml`), and the schemas of its answers. Pure."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any

from pydantic import BaseModel, Field

from evals.errors import DatasetError
from retrievers.config.files import packaged_yaml
from retrievers.errors import nearest
from retrievers.records import Chunk

YesOrNo = Annotated[int, Field(ge=0, le=1)]


class DraftQuery(BaseModel):
    """A query that the pages do not answer."""

    query: str


class DraftCase(DraftQuery):
    """A query with its answer and the passages that support it."""

    reference_answer: str
    quotes: list[str]


class Review(BaseModel):
    """A judgement of a query with its answer."""

    reason: str
    follows: YesOrNo
    standalone: YesOrNo


class Answering(BaseModel):
    """A judgement of a query out of scope: whether it can be understood alone, and which passages answer it."""

    reason: str
    standalone: YesOrNo
    answering: list[int]


class QueryType(BaseModel):
    """A kind of query.

    Attributes:
        request: Text that asks the model for such a query.
        passages: Number of passages, from different sections, that the query is about.
        in_scope: True if the passages answer the query.
    """

    request: str
    passages: int = 1
    in_scope: bool = True


def prompts() -> Mapping[str, Any]:
    """Return the texts of `prompts.yaml`."""
    return packaged_yaml("evals.golden", "prompts.yaml")


@cache
def query_types() -> Mapping[str, QueryType]:
    """Return the types of queries by name."""
    return {name: QueryType(**values) for name, values in prompts()["types"].items()}


def write_prompt(type_name: str, passages: Sequence[Chunk], turn: int) -> str:
    """Return the prompt that asks for a query.

    Args:
        type_name: Key of `query_types`.
        passages: Chunks to write about.
        turn: Number of earlier queries of this type about the same passages.
    """
    texts, kind = prompts(), query_types()[type_name]
    again = f"- This is query {turn + 1} on this passage: ask about something that comes later in it.\n"
    prompt: str = texts["write"].format(
        passages=passages_text(passages),
        request=kind.request.format(theme=texts["themes"][turn % len(texts["themes"])]),
        and_answer=" and reference answer" if kind.in_scope else "",
        rules=texts["answered" if kind.in_scope else "unanswered"],
        turn=again if turn and type_name != "general" else "",
        answer=texts["answer" if kind.in_scope else "answer_outside"],
    )
    return prompt


def passages_text(chunks: Sequence[Chunk]) -> str:
    """Return chunks with their numbers and places, as a prompt shows them."""
    texts = []
    for number, chunk in enumerate(chunks, 1):
        headings = filter(None, (chunk.title, chunk.section_path or chunk.heading))
        place = " › ".join(dict.fromkeys(headings)).replace('"', "'")
        texts.append(f'<passage number="{number}" place="{place}">\n{chunk.text.strip()}\n</passage>')
    return "\n".join(texts)


def parse_counts(text: str) -> dict[str, int]:
    """Parse `factual=20,procedural=10` into the number of queries of each type.

    Raises:
        DatasetError: A part has another form or an unknown type, or all numbers are 0.
    """
    counts: dict[str, int] = {}
    for item in filter(None, map(str.strip, text.split(","))):
        name, number = map(str.strip, item.partition("=")[::2])
        if name not in query_types():
            expected = f"{nearest(name, query_types())}; expected some of {', '.join(query_types())}"
            raise DatasetError(f"--per-type: unknown query type {name!r}{expected}")
        if not re.fullmatch("[0-9]{1,5}", number) or name in counts:
            raise DatasetError(f"--per-type: expected TYPE=NUMBER once a type, such as factual=20, got {item!r}")
        counts[name] = int(number)
    if not any(counts.values()):
        raise DatasetError(f"--per-type: asks for no query, got {text!r}; expected such as factual=20,near_domain=5")
    return counts

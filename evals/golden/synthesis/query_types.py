"""The types of queries that are written, as in the golden data of the handbook."""

from collections.abc import Mapping
from dataclasses import dataclass

from evals.errors import DatasetError
from retrievers.errors import nearest

# Query of a type, `--per-type`.
DEFAULT = (
    "factual=15,procedural=10,conceptual=10,comparison=8,colloquial=8,keyword=5,misspelt=4,near_domain=12,general=4"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryType:
    """A kind of query.

    Attributes:
        request: What the model is asked to write.
        passages: Number of passages of different sections that it is given.
        in_scope: True if the passages answer the query.
    """

    request: str
    passages: int = 1
    in_scope: bool = True


TYPES: Mapping[str, QueryType] = {
    "factual": QueryType(request="a question for one fact of the passage: a number, a name, a limit, a condition"),
    "procedural": QueryType(request="a question for how to do something that the passage explains"),
    "conceptual": QueryType(request="a question for why something is so, or what an idea of the passage means"),
    "comparison": QueryType(
        request="a question that compares or joins what the two passages say, so that answering it takes both; the "
        "reference answer rests on both, and the quotes hold at least one of each",
        passages=2,
    ),
    "colloquial": QueryType(
        request="a question in everyday speech, as someone would type it who describes a problem and does not know the "
        "technical terms of the passage"
    ),
    "keyword": QueryType(
        request="three to six search terms without a verb, as typed into a search box, not a sentence"
    ),
    "misspelt": QueryType(
        request="a question with two or three spelling mistakes of hurried typing, which one can still understand"
    ),
    "near_domain": QueryType(
        request="a question on the same subject, which a reader might well ask here, but which these pages do not "
        "answer: on a neighbouring product, a detail, or a case that they leave out",
        in_scope=False,
    ),
    "general": QueryType(
        request="a question of general knowledge about {theme}, which has nothing to do with the passage",
        in_scope=False,
    ),
}
# Themes of questions that have nothing to do with a technical documentation; each is used before one is used again.
THEMES = (
    *("cooking", "football", "the weather", "medieval history", "gardening", "opera", "tax law", "astronomy"),
    *("pet care", "poetry", "geography of Africa", "first aid", "chess", "wine", "film", "knitting"),
)


def parse_counts(text: str) -> dict[str, int]:
    """Parse `factual=20,procedural=10` into the number of queries of each type.

    Raises:
        DatasetError: A part has another form, an unknown type, is given twice, or all numbers are 0.
    """
    counts: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, number = (piece.strip() for piece in part.partition("="))
        if name not in TYPES:
            names = ", ".join(TYPES)
            raise DatasetError(
                f"--per-type: unknown query type {name!r}{nearest(name, TYPES)}; expected some of {names}"
            )
        if not (number.isascii() and number.isdigit() and len(number) < 6):
            raise DatasetError(f"--per-type: expected TYPE=NUMBER, such as factual=20, got {part!r}")
        if name in counts:
            raise DatasetError(f"--per-type: {name} is given twice")
        counts[name] = int(number)
    if not any(counts.values()):
        raise DatasetError(f"--per-type: asks for no query, got {text!r}; expected such as factual=20,near_domain=5")
    return counts

"""Queries of TREC topics: `<top>` with `<num>` and `<title>`, well-formed XML or not."""

import html
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from evals.errors import DatasetError
from evals.golden.loading import MOST_BYTES
from retrievers.config.text_files import read_text

TOPIC = re.compile(r"<top>", re.IGNORECASE)
TOPIC_END = re.compile(r"</top>", re.IGNORECASE)
FIELD = re.compile(r"<(num|title)>(.*?)(?=<[a-z/])", re.DOTALL | re.IGNORECASE)
LABEL = re.compile(r"^\s*(?:Number|Topic)\s*:", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """A query and where it stands."""

    place: str
    id: str
    text: str


def topics_of(file: Path) -> Iterator[Query]:
    """Return the topics of a file, in its order.

    Raises:
        DatasetError: It cannot be read.
    """
    line = 1
    before, *blocks = TOPIC.split(read(file))
    for block in (before, *blocks):
        body, *closed = TOPIC_END.split(block, maxsplit=1)
        fields = {name.lower(): LABEL.sub("", value) for name, value in FIELD.findall(f"{body}</top>")}
        if closed and {"num", "title"} <= fields.keys():
            yield Query(place=f"{file}:{line}", id=fields["num"].strip(), text=_plain(fields["title"]))
        line += block.count("\n")


def _plain(title: str) -> str:
    # A character's number of thousands of digits.
    with suppress(ValueError):
        title = html.unescape(title)
    return " ".join(title.split())


def read(file: Path) -> str:
    """Read a file of queries or judgements.

    Raises:
        DatasetError: It cannot be read.
    """
    return read_text(file, "a file of queries or judgements", MOST_BYTES, DatasetError)

"""Differences from the old tree that are wanted, each with its reason. Whoever makes one adds a line here.

- A command that ends otherwise now: `Ends("verify", code=2, line="verify went: .*--verbose", why="issue 26")`. Nothing
  else of it is compared.
- A leaf of a report, by a glob on its dotted path: `Leaf("report.json:grid.win_share*", GONE, why="…")`; `ADDED`,
  `CHANGED`, or its new path, in which each `*` stands for what it was in the old one:
  `Leaf("report.json:queries.*.first_relevant", "report.json:rows.*.first", why="…")`.
- A line of text (of a command, a page, a table) that went, came or changed: `Line("^Win shares", why="…")`, a pattern
  that is searched in old and new lines; those it finds are not compared.
- A file that is not written any more, or is now: `File("*.parquet", why="…")`, a glob.

`only` is a glob on the names of commands. An entry that no difference needs is reported as stale.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

GONE, ADDED, CHANGED = "(gone)", "(added)", "(changed)"


@dataclass(frozen=True)
class Ends:
    """A command, or the last of its steps that runs, ends with this exit code and a line that the pattern finds."""

    name: str
    _: KW_ONLY
    code: int
    line: str
    why: str


@dataclass(frozen=True)
class Leaf:
    """A leaf is `GONE`, `ADDED` or `CHANGED`, or has another path."""

    path: str
    to: str
    _: KW_ONLY
    why: str
    only: str = "*"


@dataclass(frozen=True)
class Line:
    """Lines of text that differ."""

    pattern: str
    _: KW_ONLY
    why: str
    only: str = "*"


@dataclass(frozen=True)
class File:
    """A file that only one of the trees writes."""

    path: str
    _: KW_ONLY
    why: str
    only: str = "*"


ENDS: Sequence[Ends] = (
    Ends(
        "golden-export",
        code=2,
        line=r"golden export is gone: .*GoldenSet\.to_ragas\(\)",
        why="golden data are JSON Lines, which every tool reads; nobody was seen to ask for TREC or BEIR files of them",
    ),
)
LEAVES: Sequence[Leaf] = ()
LINES: Sequence[Line] = ()
FILES: Sequence[File] = ()

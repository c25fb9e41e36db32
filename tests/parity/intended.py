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


GRPC = "gRPC is gone: requests go over HTTP"
PREFETCH = "candidates is the depth of both sides of hybrid"
SEARCH = "search_params takes the place of search.* and of the axes of index and quantisation"
WITHIN = "filters takes the place of within"
AXES = ("exact", "hnsw_ef", "indexed_only", "ignore_quantization", "rescore", "oversampling")

ENDS: Sequence[Ends] = (
    Ends("within", code=2, line="--within is gone: filters holds for every search", why=WITHIN),
    Ends("euclid", code=2, line="'euclid' is no value any more.*cosine and dot are searched", why="two distances stay"),
    Ends("verify", code=2, line="verify is gone: opening a collection checks its files", why="checksums are gone"),
    Ends("grid-search", code=2, line=r"--sweep\.exact is gone: two runs, each with its search_params", why=SEARCH),
    Ends("grid-prefetch", code=2, line=r"--sweep\.prefetch-semantic is gone: sweep\.candidates", why=PREFETCH),
)
LEAVES: Sequence[Leaf] = (
    Leaf("*config.retriever.store.prefer_grpc", GONE, why=GRPC),
    Leaf("*config.retriever.store.grpc_port", GONE, why=GRPC),
    Leaf("*config.retriever.prefetch.*", GONE, why=PREFETCH),
    Leaf("*config.sweep.prefetch_*", GONE, why=PREFETCH),
    Leaf("*config.retriever.search.*", GONE, why=SEARCH),
    Leaf("*config.retriever.search_params", ADDED, why=SEARCH),
    *(Leaf(f"*config.sweep.{axis}", GONE, why=SEARCH) for axis in AXES),
    Leaf("*:head.index_trials", GONE, why="trials of wider beams are gone"),
    Leaf("*config.retriever.within", GONE, why=WITHIN),
    Leaf("*manifest.json:variants.*.settings.within", GONE, why=WITHIN),
    Leaf("*manifest.json:variants.*.settings.search_params", ADDED, why=SEARCH),
    Leaf("*:baseline.changed.*", CHANGED, why="a baseline of before has settings that are gone"),
    Leaf("*:baseline.changed.*", GONE, why="a baseline of before has settings that are gone"),
)
SETTINGS = r"(prefer_grpc: false|grpc_port: 6334|prefetch:|search:|quantization:|within: null|search_params: null)"
LINES: Sequence[Line] = (
    Line(rf"^{SETTINGS}$", why="settings that went, and search_params, in YAML"),
    Line(r"^(exact|hnsw_ef|ignore|rescore|oversampling|indexed_only|semantic|keyword): null$", why=SEARCH),
    Line(rf"^({'|'.join(AXES)}|prefetch_semantic|prefetch_keyword): \[\]$", why=SEARCH),
)
FILES: Sequence[File] = ()

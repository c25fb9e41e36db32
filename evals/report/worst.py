"""The worst queries of a run, and how a terminal shows them."""

import re
from collections.abc import Iterable
from heapq import nsmallest
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.markup import escape

from evals.judge.verdicts import ChunkVerdict
from evals.metrics import NEED_A_JUDGE
from evals.report.model import FailedValue, Hit, QueryRow, Report
from retrievers.terminal.present import score_text

# Queries that a page shows, and a terminal at first; chunks of each.
WORST = 5
FIRST_QUERIES, FIRST_CHUNKS = 3, 2
CHUNKS = 3
# Least columns of a source, and of a text behind it.
MIN_SOURCE, MIN_SNIPPET = 16, 8
ORDER = {"FAILURE": 0, "PARTIAL_SUCCESS": 1, "UNLABELLED": 2, "SUCCESS": 3}
# A query without labels is among the worst where a judge grades its result below this.
POOR = 0.5
# Path and first line of a source.
PLACE = re.compile(r"(?P<path>[^:]+):(?P<line>\d+)(-\d+)?")


def worst_first(rows: Iterable[QueryRow], most: int) -> list[QueryRow]:
    """Return the worst queries: by outcome, then by how little of the result was right, by its best score, by id.

    Of a query without labels the judge says how much was right.

    Args:
        rows: The queries.
        most: Number of queries, at most.
    """
    return nsmallest(most, rows, key=lambda row: (ORDER[row.outcome], _right(row), -_best_score(row), row.id))


def worst(rows: Iterable[QueryRow], most: int = WORST) -> list[QueryRow]:
    """Return the worst of the queries that are no success, or without labels and poor by the judge, the worst first."""
    poor = (row for row in rows if row.outcome != "SUCCESS" and (row.outcome != "UNLABELLED" or _right(row) < POOR))
    return worst_first(poor, most)


def _right(row: QueryRow) -> float:
    """Return how much of a result was right, 0 to 1: by labels, or else the mean of the judge's scores."""
    if row.content_relevance is not None:
        return row.content_relevance
    graded = _judged_scores(row)
    return fmean(graded.values()) if graded else 1.0


def _judged_scores(row: QueryRow) -> dict[str, float]:
    """Return the scores that the judge gave."""
    return {name: float(s) for name, s in row.scores.items() if name in NEED_A_JUDGE and isinstance(s, float | int)}


def _best_score(row: QueryRow) -> float:
    return max((hit.score for hit in row.retrieved if hit.score is not None), default=0.0)


def print_worst(console: Console, report: Report, *, everything: bool) -> None:
    """Print the worst queries with what was retrieved instead, and why the judge found it useless.

    Args:
        console: Console to print to.
        report: The run; nothing is printed where all queries are a success.
        everything: Show more queries and chunks, and what was expected.
    """
    shown = worst(report.queries, WORST if everything else FIRST_QUERIES)
    if not shown:
        return
    which = "worst query" if len(shown) == 1 else f"{len(shown)} worst queries"
    console.print(f"[bold]The {which}[/bold], and what was retrieved instead")
    for row in shown:
        tags = f"  [dim]{escape(' · '.join(row.tags))}[/dim]" if row.tags else ""
        line(console, f"[bold]{escape(row.id)}[/bold] {escape(' '.join(row.query.split()))}{tags}")
        for reason in _reasons(row)[: 2 if everything else 1]:
            line(console, f"  [red]{escape(reason)}[/red]")
        for hit in row.retrieved[: CHUNKS if everything else FIRST_CHUNKS]:
            _print_hit(console, hit, source_link(hit.source, report.config))
        for expected in row.expected[:2] if everything else ():
            line(console, f"  expected {escape(expected)}", style="dim")


def _reasons(row: QueryRow) -> list[str]:
    """Return why a query is among the worst; the judge's scores where there are no labels."""
    if row.outcome != "UNLABELLED":
        return row.reasons
    return [f"by the judge: {', '.join(f'{name} {score:.3f}' for name, score in _judged_scores(row).items())}"]


def hit_line(hit: Hit, width: int, address: str = "") -> str:
    """Return a chunk in a line: rank, scale and score, relevance, source, the beginning of its text.

    Args:
        hit: The chunk.
        width: Width of the line, in columns.
        address: Address that the source links to; empty for none.
    """
    scale = "" if hit.scale in ("", "unknown", "none") else f"{hit.scale} "
    prefix = f"{hit.rank}. {scale}{score_text(hit.score)} {'✓' if hit.grade else ' '} "
    room = max(width - len(prefix), MIN_SOURCE)
    source = _shortened(hit.source, max(room * 3 // 5, MIN_SOURCE))
    rest = room - len(source) - 2
    text = " ".join(hit.preview.split()).lstrip("# ")
    snippet = "" if rest < MIN_SNIPPET else text if len(text) <= rest else f"{text[: rest - 1]}…"
    linked = f"[link={address}]{escape(source)}[/link]" if address else escape(source)
    return escape(prefix) + linked + (f"  [dim]{escape(snippet)}[/dim]" if snippet else "")


def _shortened(source: str, width: int) -> str:
    """Return the end of a source that is too long: its lines stand there."""
    return source if len(source) <= width else f"…{source[1 - width :]}"


def line(console: Console, text: str, style: str | None = None) -> None:
    """Print a text as one line, cut where the terminal ends."""
    console.print(text, style=style, overflow="ellipsis", no_wrap=True)


def _print_hit(console: Console, hit: Hit, address: str) -> None:
    line(console, f"  {hit_line(hit, console.width - 2, address)}")
    if isinstance(hit.judge, ChunkVerdict) and not hit.judge.verdict:
        console.print(f"     {escape(f'judged useless: {hit.judge.reason}')}", style="dim")
    elif isinstance(hit.judge, FailedValue):
        console.print(f"     {escape(f'not judged: {hit.judge.failed}')}", style="dim")


def source_link(source: str, config: dict[str, Any]) -> str:
    """Return the address of a chunk's first line (`file:///…#L8`); empty where its file is not known.

    Args:
        source: `path:start-end` of the chunk, the path below the folder of the source pages.
        config: The configuration of the run.
    """
    folder = (config.get("sources") or {}).get("dir")
    match = PLACE.fullmatch(source)
    # An address of a site, or a path that leads out of the folder, is no file of it.
    if not folder or match is None or match["path"].startswith("/") or ".." in Path(match["path"]).parts:
        return ""
    return f"{(Path(folder).absolute() / match['path']).as_uri()}#L{match['line']}"

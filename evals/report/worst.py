"""The worst queries of a run, and how a terminal shows them."""

from collections.abc import Iterable
from heapq import nsmallest

from rich.console import Console
from rich.markup import escape

from evals.report.model import Hit, QueryRow, Report
from evals.report.source_link import source_link
from retrievers.terminal.present import score_text

# Queries that the terminal shows.
WORST = 5
ORDER = {"FAILURE": 0, "PARTIAL_SUCCESS": 1, "SUCCESS": 2}


def worst_first(rows: Iterable[QueryRow], most: int) -> list[QueryRow]:
    """Return the worst queries: by outcome, then by how little of the result was right, by its best score, by id.

    Args:
        rows: The queries.
        most: Number of queries, at most.
    """
    # A heap of `most` rows: the rows of a large run come from a file and are not all in memory.
    return nsmallest(most, rows, key=lambda row: (ORDER[row.outcome], row.content_relevance, -_best_score(row), row.id))


def worst(rows: Iterable[QueryRow], most: int = WORST) -> list[QueryRow]:
    """Return the worst of the queries that are no success, the worst first."""
    return worst_first((row for row in rows if row.outcome != "SUCCESS"), most)


def _best_score(row: QueryRow) -> float:
    return max((hit.score for hit in row.retrieved if hit.score is not None), default=0.0)


def print_worst(console: Console, report: Report) -> None:
    """Print the worst queries with what was retrieved instead, and why the judge found it useless.

    Args:
        console: Console to print to.
        report: The run; nothing is printed where all queries are a success.
    """
    shown = worst(report.queries)
    if not shown:
        return
    which = "worst query" if len(shown) == 1 else f"{len(shown)} worst queries"
    console.print(f"\n[bold]The {which}[/bold], and what was retrieved instead")
    for row in shown:
        tags = f"  [dim]{escape(' · '.join(row.tags))}[/dim]" if row.tags else ""
        console.print(f"\n  [bold]{escape(row.id)}[/bold] {escape(row.query)}{tags}")
        for reason in row.reasons[:2]:
            console.print(f"    [red]{row.outcome}[/red] {escape(reason)}")
        for hit in row.retrieved[:3]:
            _print_hit(console, hit, source_link(hit.source, report.config))
        for expected in row.expected[:2]:
            console.print(f"    expected  {escape(expected)}", overflow="ellipsis", no_wrap=True, style="dim")


def _print_hit(console: Console, hit: Hit, address: str) -> None:
    mark = "✓" if hit.grade else " "
    source = f"[link={address}]{escape(hit.source)}[/link]" if address else escape(hit.source)
    text = f"    {hit.rank}. {score_text(hit.score)} {mark} {source}  [dim]{escape(hit.heading)}[/dim]"
    console.print(text, overflow="ellipsis", no_wrap=True)
    if hit.judge and hit.judge.verdict == 0:
        console.print(f"       {escape(f'judged useless: {hit.judge.reason}')}", style="dim")
    elif hit.judge and hit.judge.failed:
        console.print(f"       {escape(f'not judged: {hit.judge.failed}')}", style="dim")

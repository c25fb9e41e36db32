"""Disagreements of the judge with the golden labels: an error of the judge, or a hole in the labels."""

from rich.console import Console
from rich.markup import escape

from evals.report.model import Report
from evals.report.model.trust import Disagreement

SHOWN = 3


def print_disagreements(console: Console, report: Report, *, everything: bool) -> None:
    """Print the first disagreements with the judge's reasons; nothing when there is none.

    Args:
        console: Console to print to.
        report: The run.
        everything: Print all of them.
    """
    trust = report.judge.trust if report.judge else None
    if trust is None or trust.agreement is None or not trust.agreement.disagreements:
        return
    rows = disagreements(report)
    shown = rows if everything else rows[:SHOWN]
    rest = "" if len(shown) == len(rows) else f"; the first {len(shown)}, all with --verbose and in the report"
    console.print(
        f"\n[bold]Judge and labels differ[/bold] on {len(rows)} of {trust.agreement.n_verdicts} verdicts: "
        f"errors of the judge, or holes in the labels{rest}"
    )
    for row, source in shown:
        judged, labelled = ("useless", "relevant") if row.label else ("useful", "not relevant")
        console.print(f"  {escape(row.query_id)}  {escape(source)}: labelled {labelled}, judged {judged}")
        console.print(f"    {escape(row.reason)}", style="dim", overflow="ellipsis", no_wrap=True)


def disagreements(report: Report) -> list[tuple[Disagreement, str]]:
    """Return the disagreements, those that tell most first, each with the source of its chunk."""
    trust = report.judge.trust if report.judge else None
    rows = trust.agreement.disagreements if trust and trust.agreement else []
    ids = {row.query_id for row in rows}
    sources = {(row.id, hit.chunk_id): hit.source for row in report.queries if row.id in ids for hit in row.retrieved}
    return [(row, sources.get((row.query_id, row.chunk_id), row.chunk_id)) for row in rows]

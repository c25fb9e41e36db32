"""Where the judge and the golden labels differ, for a terminal: a judge's error or a hole in the labels."""

from rich.console import Console
from rich.markup import escape

from evals.judge.trust.agreement import Judged
from evals.metrics.run_result import RunResult

SHOWN = 3


def print_disagreements(console: Console, result: RunResult, *, everything: bool) -> None:
    """The first disagreements with the judge's reasons, or all of them; nothing when there is none.

    Args:
        console: Where to.
        result: The run.
        everything: Whether to show all.
    """
    agreement = result.trust.agreement if result.trust else None
    if agreement is None or not agreement.disagreements:
        return
    found = agreement.disagreements
    shown = found if everything else found[:SHOWN]
    rest = "" if len(shown) == len(found) else f"; the first {len(shown)}, all with --verbose and in the report"
    console.print(
        f"\n[bold]Judge and labels differ[/bold] on {len(found)} of {agreement.n_verdicts} verdicts: "
        f"errors of the judge, or holes in the labels{rest}"
    )
    sources = {(o.case.id, hit.chunk.chunk_id): hit.source for o in result.observed.observations for hit in o.selection}
    for row in shown:
        _print(console, row, sources.get((row.query_id, row.chunk_id), row.chunk_id))


def _print(console: Console, row: Judged, source: str) -> None:
    said, labelled = ("useless", "relevant") if row.label else ("useful", "not relevant")
    console.print(f"  {escape(row.query_id)}  {escape(source)}: labelled {labelled}, judged {said}")
    console.print(f"    {escape(row.reason)}", style="dim", overflow="ellipsis", no_wrap=True)

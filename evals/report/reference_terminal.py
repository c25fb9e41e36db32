"""A run beside its reference, for a terminal: what the choice of settings brings."""

from rich.console import Console
from rich.markup import escape

from evals.report.figure_text import figure, signed
from evals.report.headline import BESIDE_REFERENCE, deepest
from evals.report.model.compared import ComparedSection, DifferenceEntry
from evals.report.worst import hit_line, line

COLORS = {"better": "green", "worse": "red", "": "default"}


def print_reference(console: Console, section: ComparedSection, *, everything: bool) -> None:
    """Print the difference of the metrics that say most, and one query that flipped with both results.

    Args:
        console: Console to print to.
        section: The run beside its reference.
        everything: Print every metric.
    """
    line(console, f"[bold]Before → after[/bold], wins/ties/losses; before: {escape(section.settings)}")
    differences = {difference.metric: difference for difference in section.differences}
    names = [*differences] if everything else [deepest(pattern, differences) for pattern in BESIDE_REFERENCE]
    for name in names:
        if name in differences:
            line(console, _difference(differences[name]))
    for flip in section.flipped[:1]:
        line(console, f"  flipped: [bold]{escape(flip.id)}[/bold] {escape(flip.query)}")
        for when, hits in (("before", flip.other_retrieved), ("after ", flip.this_retrieved)):
            # The chunk that decides: the first relevant one, or the one in its place.
            chosen = next((hit for hit in hits if hit.grade), hits[0] if hits else None)
            first_hit = hit_line(chosen, console.width - 11) if chosen else "nothing returned"
            line(console, f"    {when} {first_hit}")


def _difference(one: DifferenceEntry) -> str:
    interval = "" if one.ci_low is None else f" ({signed(one.metric, one.ci_low)} … {signed(one.metric, one.ci_high)})"
    counts = f", {one.wins}/{one.ties}/{one.losses}" if one.n else ""
    change = f"{figure(one.metric, one.other)} → {figure(one.metric, one.this)}"
    difference = signed(one.metric, one.difference)
    return f"  {one.metric} {change} [{COLORS[one.verdict]}]{difference}[/]{interval}{counts}"

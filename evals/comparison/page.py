"""A comparison as an HTML page and as Markdown: conclusion, metrics, queries that flip, slices, settings. Pure."""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from evals.comparison.differences import score_of
from evals.comparison.records import Comparison, Difference
from evals.comparison.sections import head, regressions
from evals.metrics import VERDICT_METRIC, declared
from evals.metrics.declaration import DIGITS
from evals.report.html.render import asset, environment
from evals.report.model import QueryRow
from evals.report.section import Column, Section, escaped, markdown, row_of
from evals.report.sections import figure, numbers, signed, signed_ends
from evals.stats.intervals import SAME
from evals.stats.paired import compare
from retrievers.text.printable import printable

# Characters that GitHub takes of a comment.
MOST_CHARACTERS = 65_536
# Queries of which the Markdown shows both results.
MOST_SHOWN = 20
# Queries of a slice below which nothing is said of it.
LEAST = 10
# Chunks of a result that are shown.
HITS = 10
TONES = {"better": "good", "worse": "bad", "": "dim"}


Kind = Literal["lost", "gained", "moved"]


class Flip(NamedTuple):
    """A query that passed in one run alone, or whose score did.

    Attributes:
        kind: Lost: it passed in the baseline alone; gained: in the other alone; moved: its score changed.
        baseline: What the baseline returned.
        other: What the other run returned.
        change: The change in words.
    """

    kind: Kind
    baseline: QueryRow
    other: QueryRow
    change: str


class Mark(NamedTuple):
    """A difference in a forest plot with the ends of its interval, from −1 to 1 of its width; right is better."""

    at: float
    low: float
    high: float


def render_page(comparisons: Sequence[Comparison]) -> str:
    """Return comparisons with one baseline as a page, which loads nothing and runs no script.

    Args:
        comparisons: At least one.
    """
    from markupsafe import Markup

    parts = [
        {
            "comparison": comparison,
            "conclusion": conclusion(comparison),
            "facts": list(head(comparison))[:-1],
            "rows": _rows(comparison, span := _span(comparison)),
            "span": span,
            "flips": flips(comparison),
            "slices": slices(comparison),
        }
        for comparison in comparisons
    ]
    template = environment().get_template("compare.html.j2")
    return template.render(parts=parts, style=Markup(asset("page.css")), tones=TONES)


def render_markdown(comparisons: Sequence[Comparison]) -> str:
    """Return comparisons with one baseline as Markdown for a pull request, at most 65,536 characters.

    Args:
        comparisons: At least one.
    """
    lines: list[str] = []
    for comparison in comparisons:
        (runs, *facts, metrics) = head(comparison)
        lines += [f"### {_title(comparison)}", "", escaped(conclusion(comparison)), ""]
        for section in (regressions(comparison), runs):
            lines += [f"{text}  " if text else "" for text in markdown(section)] + [""]  # two spaces break a line
        for table in filter(None, (metrics, slices(comparison), *facts)):
            lines += [*markdown(table), ""]
    for comparison in comparisons:
        if moved := flips(comparison):
            lines += [f"#### Queries that flip: {_title(comparison)}", ""]
            lines += [text for flip in moved[:MOST_SHOWN] for text in _flipped(flip)]
            lines += [f"… and {left} more queries", ""] if (left := len(moved) - MOST_SHOWN) > 0 else []
    text, end = "\n".join(lines), "\n\n… cut: more than GitHub takes\n"
    if len(text) > MOST_CHARACTERS:
        text = text[: text.rindex("\n", 0, MOST_CHARACTERS - len(end))] + end
    return text


def _title(comparison: Comparison) -> str:
    return f"{escaped(comparison.baseline.name)} → {escaped(comparison.other.name)}"


def conclusion(comparison: Comparison) -> str:
    """Return in a sentence whether the other run is better, where that is proved, and what flipped."""
    better, worse = ([entry for entry in comparison.differences if entry.verdict == way] for way in ("better", "worse"))
    number = sum(entry.n > 0 for entry in comparison.differences)
    kinds = [flip.kind for flip in flips(comparison)]
    said = f"is not distinguishable from {comparison.baseline.name} by any of {number} metrics"
    if better or worse:
        ways = [f"{those[0].verdict} by {len(those)} (most: {_most(those)})" for those in (better, worse) if those]
        said = f"is {' and '.join(ways)} of {number} metrics (Holm, 5%)"
    flipped = f"{kinds.count('lost')} queries are lost, {kinds.count('gained')} gained"
    return f"{comparison.other.name} {said}. {flipped}."


def _most(entries: Sequence[Difference]) -> str:
    """Return the metric that moved most in widths of its interval, as units differ, with both values."""

    def moved(entry: Difference) -> float:
        if entry.low is None or entry.high is None:
            return 0.0
        return abs(entry.difference or 0.0) / max(entry.high - entry.low, SAME)

    most = max(entries, key=moved)
    return f"{most.metric} {figure(most.metric, most.baseline)} → {figure(most.metric, most.other)}"


def flips(comparison: Comparison) -> list[Flip]:
    """Return the queries that are lost, then those that are gained, then those whose score moved."""
    moves = {move.baseline.id: move for move in comparison.moved}
    by_kind: dict[Kind, list[Flip]] = {"lost": [], "gained": [], "moved": []}
    for before, after in comparison.pairing.rows:
        first, second, move = score_of(before, VERDICT_METRIC), score_of(after, VERDICT_METRIC), moves.get(before.id)
        change = f"{before.outcome} → {after.outcome}"
        if move:
            change = f"{move.metric} {figure(move.metric, move.before)} → {figure(move.metric, move.after)}"
        has_flipped = isinstance(first, float) and isinstance(second, float) and first != second
        if has_flipped or move:
            kind: Kind = "moved" if not has_flipped else "lost" if first else "gained"
            by_kind[kind].append(Flip(kind, before, after, change))
    return [*by_kind["lost"], *by_kind["gained"], *by_kind["moved"]]


def slices(comparison: Comparison) -> Section | None:
    """Return query types and tags with at least ten queries that both runs scored, by the metric that moved most."""
    metric = comparison.moved[0].metric if comparison.moved else VERDICT_METRIC
    groups: dict[str, list[tuple[float, float]]] = {}
    for before, after in comparison.pairing.rows:
        first, second = score_of(before, metric), score_of(after, metric)
        if isinstance(first, float | int) and isinstance(second, float | int):
            for name in filter(None, (before.query_type, *before.tags)):
                groups.setdefault(name, []).append((float(first), float(second)))
    rows = []
    for name, pairs in sorted(groups.items()):
        if len(pairs) >= LEAST:
            paired = compare([before for before, _ in pairs], [after for _, after in pairs], seed=0)
            means = figure(metric, paired.baseline), figure(metric, paired.other)
            ends = signed_ends(metric, paired.interval.low, paired.interval.high)
            rows.append(row_of(name, str(paired.n), *means, signed(metric, paired.difference), ends))
    columns = (Column(f"{metric} by slice"), *numbers("n", "baseline", "other", "difference", "95% interval"))
    return Section(title=metric, columns=columns, rows=rows) if rows else None


def _span(comparison: Comparison) -> float:
    """Return the largest difference of shares that the plot shows."""
    return max((abs(end) for entry in comparison.differences for end in _oriented(entry)), default=0.0) or 1.0


def _rows(comparison: Comparison, span: float) -> list[tuple[Difference, Mark | None]]:
    """Return the differences, each with its mark where it is one of shares."""
    entries = [(entry, _oriented(entry)) for entry in comparison.differences if entry.n or entry.difference]
    return [(entry, Mark(*(end / span for end in ends)) if ends else None) for entry, ends in entries]


def _oriented(entry: Difference) -> tuple[float, ...]:
    """Return a difference of shares and its ends, turned so that more is better; nothing where it cannot be drawn."""
    is_drawn = entry.better != "neither" and declared(entry.metric).unit not in DIGITS
    if entry.difference is None or entry.low is None or entry.high is None or not is_drawn:
        return ()
    ends = entry.difference, entry.low, entry.high
    return (-entry.difference, -entry.high, -entry.low) if entry.better == "lower" else ends


def _flipped(flip: Flip) -> Iterator[str]:
    """Yield a query that flips, with both results."""
    yield f"- **{flip.kind}** `{_code(flip.baseline.id)}` {escaped(flip.baseline.query)} ({escaped(flip.change)})"
    for role, row in (("baseline", flip.baseline), ("other", flip.other)):
        hits = [f"{hit.rank}. `{_code(hit.source)}`{' ✓' if hit.grade else ''}" for hit in row.retrieved[:HITS]]
        hits += [f"{more} more"] if (more := len(row.retrieved) - HITS) > 0 else []
        yield f"  - {role}: {' · '.join(hits) if hits else 'nothing'}"


def _code(text: str) -> str:
    return " ".join(printable(text).replace("`", "'").replace("|", "¦").split())

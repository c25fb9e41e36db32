"""A comparison as an HTML page and as Markdown: conclusion, metrics, queries that flip, slices, settings. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence

from evals.collect.observations import VERDICT_METRIC
from evals.comparison.differences import difference
from evals.comparison.records import Difference, Moved, Pairing, written_p
from evals.comparison.sections import Comparison, change, conclusion, head, hits, overview, regressions
from evals.metrics import declared
from evals.metrics.declaration import DIGITS
from evals.report.html.render import asset, environment
from evals.report.section import Column, Section, escaped, markdown, row_of
from evals.report.sections import TONES, numbers
from evals.report.sections import difference as as_row

# Most characters of a comment on GitHub.
MOST_CHARACTERS = 65_536
# Most queries whose results the Markdown shows.
MOST_SHOWN = 20
# Fewest queries of a slice that is shown.
LEAST = 10


def render_page(comparisons: Sequence[Comparison]) -> str:
    """Return comparisons with one baseline as an HTML page, which loads nothing and runs no script.

    Args:
        comparisons: At least one.
    """
    from markupsafe import Markup

    parts = [
        {
            "comparison": comparison,
            "conclusion": conclusion(comparison),
            "facts": list(head(comparison))[:-1],
            "rows": [(entry, _bar(entry)) for entry in comparison.differences if entry.n or entry.difference],
            "span": max((abs(end) for entry in comparison.differences for end in _bar(entry)), default=0.0) or 1.0,
            "slices": slices(comparison),
        }
        for comparison in comparisons
    ]
    template = environment().get_template("compare.html.j2")
    functions = {"change": change, "written_p": written_p}
    told = {"parts": parts, "overview": overview(comparisons), "tones": TONES, "style": Markup(asset("page.css"))}
    return template.render(told, **functions)


def render_markdown(comparisons: Sequence[Comparison]) -> str:
    """Return comparisons with one baseline as Markdown for a pull request, at most 65,536 characters.

    Args:
        comparisons: At least one.
    """
    lines: list[str] = []
    for section in overview(comparisons):
        lines += [f"{text}  " if text and not section.rows else text for text in markdown(section)] + [""]
    for comparison in comparisons:
        (runs, *facts, metrics) = head(comparison)
        lines += [f"### {_title(comparison)}", "", escaped(conclusion(comparison)), ""]
        for section in (regressions(comparison), runs):
            lines += [f"{text}  " if text else "" for text in markdown(section)] + [""]  # two spaces break a line
        for table in filter(None, (metrics, slices(comparison), *facts)):
            lines += [*markdown(table), ""]
    for comparison in comparisons:
        if moved := comparison.moved:
            lines += [f"#### Queries that moved: {_title(comparison)}", ""]
            lines += [text for move in moved[:MOST_SHOWN] for text in _moved(move)]
            lines += [f"… and {left} more queries", ""] if (left := len(moved) - MOST_SHOWN) > 0 else []
    text, end = "\n".join(lines), "\n\n… cut: more than GitHub takes\n"
    if len(text) > MOST_CHARACTERS:
        text = text[: text.rindex("\n", 0, MOST_CHARACTERS - len(end))] + end
    return text


def _title(comparison: Comparison) -> str:
    return f"{escaped(comparison.baseline.name)} → {escaped(comparison.other.name)}"


def slices(comparison: Comparison) -> Section | None:
    """Return the query types and tags with at least ten queries that both runs scored; None without any.

    They are compared by the metric by which most queries moved.
    """
    moved = Counter(move.metric for move in comparison.moved)
    metric = next((name for name, _ in moved.most_common(1)), VERDICT_METRIC)
    pairs, rows = comparison.pairing.rows, []
    for name in sorted({name for row, _ in pairs for name in (row.query_type, *row.tags) if name}):
        of_slice = Pairing(rows=tuple(pair for pair in pairs if name in (pair[0].query_type, *pair[0].tags)))
        entry = difference(metric, comparison.baseline.report, comparison.other.report, of_slice)
        if entry.n >= LEAST:
            rows.append(row_of(name, str(entry.n), *as_row(entry)[1:5]))
    columns = (Column(f"{metric} by slice"), *numbers("n", "baseline", "other", "difference", "95% interval"))
    return Section(title=metric, columns=columns, rows=rows) if rows else None


def _bar(entry: Difference) -> tuple[float, ...]:
    """Return a difference and the ends of its interval; nothing if it has no interval or is not on the scale 0 to 1."""
    if entry.difference is None or entry.low is None or entry.high is None or declared(entry.metric).unit in DIGITS:
        return ()
    return entry.difference, entry.low, entry.high


def _moved(move: Moved) -> Iterator[str]:
    """Yield a query that moved, with both results."""
    yield f"- **{move.kind}** {escaped(move.baseline.id)} {escaped(move.baseline.query)} ({escaped(change(move))})"
    for role, row in (("baseline", move.baseline), ("other", move.other)):
        yield f"  - {role}: {' · '.join(map(escaped, hits(row)))}"

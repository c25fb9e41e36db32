"""A comparison as an HTML page and as Markdown: verdict, metrics, queries that flip, slices, settings. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from evals.comparison.differences import score_of
from evals.comparison.records import Comparison, Moved
from evals.comparison.sections import head
from evals.metrics import VERDICT_METRIC, declared
from evals.metrics.declaration import DIGITS
from evals.report.html.render import environment, page_style
from evals.report.model import Difference, QueryRow
from evals.report.section import escaped, markdown
from evals.report.text import figure, rank_and_score, signed
from evals.stats.paired import Paired, compare

# Characters that GitHub takes of a comment; queries of which the Markdown shows both results.
MOST_CHARACTERS, MOST_SHOWN = 65_536, 20
# Queries of a slice below which nothing is said of it.
LEAST = 10
HITS = 5


@dataclass(frozen=True, kw_only=True)
class Flip:
    """A query whose verdict changed, or whose score did.

    Attributes:
        kind: Lost: it passed in the baseline alone; gained: in the other alone; moved: its score changed.
        baseline: What the baseline returned; `other` likewise.
        change: The change in words.
    """

    kind: Literal["lost", "gained", "moved"]
    baseline: QueryRow
    other: QueryRow
    change: str


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A difference in a forest plot, from −1 to 1 of its width; right is better.

    Attributes:
        at: The difference; `low` and `high` the ends of its interval.
        tone: Good or bad where it is proved.
    """

    at: float
    low: float
    high: float
    tone: str


def render_page(comparisons: Sequence[Comparison]) -> str:
    """Return comparisons with one baseline as a page, which loads nothing and runs no script.

    Args:
        comparisons: At least one.
    """
    from markupsafe import Markup

    parts = [
        {
            "comparison": each,
            "verdict": verdict(each),
            "facts": list(head(each))[:-1],
            "rows": _rows(each),
            "flips": flips(each),
            "slices": list(slices(each)),
        }
        for each in comparisons
    ]
    template = environment().get_template("compare.html.j2")
    shown = {"rank_and_score": rank_and_score, "figure": figure, "signed": signed}
    return template.render(parts=parts, style=Markup(page_style()), **shown)


def render_markdown(comparisons: Sequence[Comparison]) -> str:
    """Return comparisons with one baseline as Markdown for a pull request, at most 65,536 characters.

    Args:
        comparisons: At least one.
    """
    lines: list[str] = []
    for each in comparisons:
        *facts, metrics = head(each)
        lines += [f"### {escaped(each.baseline.name)} → {escaped(each.other.name)}", "", escaped(verdict(each)), ""]
        lines += [*markdown(metrics), ""]
        for flip in flips(each)[:MOST_SHOWN]:
            lines += _told(flip)
        rest = len(flips(each)) - MOST_SHOWN
        lines += [f"… and {rest} more queries", ""] if rest > 0 else []
        told = [
            f"| {escaped(name)} | {p.n} | {p.baseline:.3f} | {p.other:.3f} | {_ends(p)} |"
            for name, _, p in slices(each)
        ]
        lines += ["| slice | n | baseline | other | difference |", "|---|---|---|---|---|", *told, ""] if told else []
        for section in facts[1:]:
            lines += [*markdown(section), ""]
    text = "\n".join(lines)
    if len(text) <= MOST_CHARACTERS:
        return text
    end = "\n\n… cut: more than GitHub takes\n"
    return text[: text.rindex("\n", 0, MOST_CHARACTERS - len(end))] + end


def verdict(comparison: Comparison) -> str:
    """Return in a sentence whether the other run is better, where that is proved, and what flipped."""
    proved = {way: [each for each in comparison.differences if each.verdict == way] for way in ("better", "worse")}
    number, moved = sum(each.paired is not None for each in comparison.differences), flips(comparison)
    counts = {kind: sum(flip.kind == kind for flip in moved) for kind in ("lost", "gained")}
    name = comparison.other.name
    if not proved["better"] and not proved["worse"]:
        said = f"{name} is not distinguishable from {comparison.baseline.name} by any of {number} metrics"
    else:
        told = [f"{way} by {len(those)}" for way, those in proved.items() if those]
        first = max((*proved["worse"], *proved["better"]), key=lambda each: abs(each.difference or 0.0))
        said = (
            f"{name} is {' and '.join(told)} of {number} metrics (Holm, 5%), most by {first.metric}: "
            f"{figure(first.metric, first.baseline)} → {figure(first.metric, first.other)}"
        )
    return f"{said}. {counts['lost']} queries are lost, {counts['gained']} gained."


def flips(comparison: Comparison) -> list[Flip]:
    """Return the queries that are lost, then those that are gained, then those whose score moved."""
    moves = {move.baseline.id: move for move in comparison.moved}
    found = []
    for before, after in comparison.pairing.rows:
        first, second = score_of(before, VERDICT_METRIC), score_of(after, VERDICT_METRIC)
        move = moves.get(before.id)
        if isinstance(first, float) and isinstance(second, float) and first != second:
            kind: Literal["lost", "gained", "moved"] = "lost" if first > second else "gained"
        elif move:
            kind = "moved"
        else:
            continue
        found.append(Flip(kind=kind, baseline=before, other=after, change=_change(before, after, move)))
    return sorted(found, key=lambda flip: ("lost", "gained", "moved").index(flip.kind))


def slices(comparison: Comparison) -> Iterator[tuple[str, str, Paired]]:
    """Yield query types and tags with at least ten queries that both runs scored, by the metric that moved most."""
    metric = comparison.moved[0].metric if comparison.moved else VERDICT_METRIC
    groups: dict[str, list[tuple[float, float]]] = {}
    for before, after in comparison.pairing.rows:
        first, second = score_of(before, metric), score_of(after, metric)
        if isinstance(first, float | int) and isinstance(second, float | int):
            for name in (*([before.query_type] if before.query_type else []), *before.tags):
                groups.setdefault(name, []).append((float(first), float(second)))
    for name, pairs in sorted(groups.items()):
        if len(pairs) >= LEAST:
            yield name, metric, compare([before for before, _ in pairs], [after for _, after in pairs], seed=0)


def _rows(comparison: Comparison) -> list[tuple[Difference, Mark | None]]:
    """Return the differences, each with its mark where it is one of shares."""
    ends = [end for each in comparison.differences for end in _oriented(each) or ()]
    span = max(map(abs, ends), default=1.0) or 1.0
    told = []
    for each in comparison.differences:
        if each.paired or each.difference:
            found = _oriented(each)
            tone = {"better": "good", "worse": "bad"}.get(each.verdict, "dim")
            told.append(
                (each, found and Mark(at=found[0] / span, low=found[1] / span, high=found[2] / span, tone=tone))
            )
    return told


def _oriented(difference: Difference) -> tuple[float, float, float] | None:
    """Return a difference of shares and its ends, turned so that more is better; None where it cannot be drawn."""
    paired = difference.paired
    if paired is None or paired.interval.low is None or paired.interval.high is None:
        return None
    if difference.better == "neither" or declared(difference.metric).unit in DIGITS:
        return None
    if difference.better == "lower":
        return -paired.difference, -paired.interval.high, -paired.interval.low
    return paired.difference, paired.interval.low, paired.interval.high


def _change(before: QueryRow, after: QueryRow, move: Moved | None) -> str:
    if move:
        return f"{move.metric} {figure(move.metric, move.before)} → {figure(move.metric, move.after)}"
    return f"{before.outcome} → {after.outcome}"


def _ends(paired: Paired) -> str:
    text = f"{paired.difference:+.3f}"
    low, high = paired.interval.low, paired.interval.high
    return text if low is None or high is None else f"{text} ({low:+.3f} … {high:+.3f})"


def _told(flip: Flip) -> Iterator[str]:
    yield f"- **{flip.kind}** `{_code(flip.baseline.id)}` {escaped(flip.baseline.query)} ({escaped(flip.change)})"
    for role, row in (("baseline", flip.baseline), ("other", flip.other)):
        hits = [f"{hit.rank}. `{_code(hit.source)}`{' ✓' if hit.grade else ''}" for hit in row.retrieved[:HITS]]
        yield f"  - {role}: {' · '.join(hits) if hits else 'nothing'}"


def _code(text: str) -> str:
    return " ".join(text.replace("`", "'").replace("|", "¦").split())

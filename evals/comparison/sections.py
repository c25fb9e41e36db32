"""A comparison, which shows itself in sections on a terminal or in a notebook, and is written as JSON. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from evals.comparison.differences import WHOLE_RUN
from evals.comparison.records import Change, Difference, Moved, Pairing, Regression, Run, written_p
from evals.metrics import declared
from evals.report.head import ranked
from evals.report.model import QueryRow
from evals.report.parsing import FOUND
from evals.report.section import NOTHING, PRINTED, Column, Section, Styled, in_html, line, row_of, terminal
from evals.report.sections import TONES, difference, figure, numbers, signed

COMPARISON_SCHEMA = 2
# Most chunks that are shown of a result.
HITS = 5
COLUMNS = (
    Column("metric"),
    *numbers("baseline", "other", "difference"),
    *numbers("95% interval", "p", "Holm", "win/tie/loss", "n", is_needed=False),
    Column(""),
)
UNPAIRED = ("only_baseline", "only_other", "changed")
OF_A_MOVE = ("kind", "metric", "before", "after", "gain")


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison:
    """A run beside the baseline. `moved` lists the lost queries first, then the gained ones, then the others."""

    baseline: Run
    other: Run
    pairing: Pairing
    mismatches: Sequence[Change]
    changes: Sequence[Change]
    differences: Sequence[Difference] = ()
    moved: Sequence[Moved] = ()
    regressions: Sequence[Regression] = ()

    def __repr__(self) -> str:
        """Return head and table, as the command shows them."""
        return self._shown(color=False).rstrip("\n")

    def _repr_html_(self) -> str:
        """Return head and table for a notebook."""
        return in_html(self._shown(color=True))

    def _shown(self, *, color: bool) -> str:
        return terminal(_opening(self), width=PRINTED, color=color, whole=True)


def render(comparisons: Sequence[Comparison], *, width: int, color: bool, queries: int, whole: bool = False) -> str:
    """Return the comparisons with one baseline, as text for a terminal.

    Args:
        comparisons: At least one.
        width: Width of the terminal, in columns.
        color: Use colors.
        queries: Number of moved queries to show for each run.
        whole: Shorten no line, since no terminal shows the text. Only sentences are wrapped.
    """
    sections = overview(comparisons)
    for comparison in comparisons:
        sections += [Section(lines=[line("")])] if sections else []
        sections += [*_opening(comparison), _remarks(comparison, _tested(comparisons)), *_moved(comparison, queries)]
        sections.append(regressions(comparison))
    return terminal(sections, width=width, color=color, whole=whole)


def overview(comparisons: Sequence[Comparison]) -> list[Section]:
    """Return a section with the conclusion on each of several runs, and one table of all; none for a single run."""
    if len(comparisons) == 1:
        return []
    said = [(str(number), conclusion(comparison)) for number, comparison in enumerate(comparisons, 1)]
    lines = [
        line(f"{role}  ", Styled(text, "bold")) for role, text in [("baseline", comparisons[0].baseline.name), *said]
    ]
    rows = []
    for entries in zip(*(comparison.differences for comparison in comparisons), strict=True):
        first = figure(entries[0].metric, entries[0].baseline)
        values = [figure(entry.metric, entry.other) for entry in entries]
        others = [Styled(f"{v} {e.verdict}".strip(), TONES[e.verdict]) for v, e in zip(values, entries, strict=True)]
        if {first, *values} - NOTHING:
            rows.append(row_of(entries[0].metric, first, *others))
    columns = Column("metric"), *numbers("baseline"), *(Column(number, is_needed=False) for number, _ in said)
    return [Section(lines=lines), Section(lines=[line("")], columns=columns, rows=rows, spills=True)]


def conclusion(comparison: Comparison) -> str:
    """Return the regressions, in how many metrics the other run is proved better or worse, and which queries move."""
    failed = ", ".join(regression.metric for regression in comparison.regressions if not regression.passed)
    number = sum(entry.n > 0 for entry in comparison.differences)
    kinds = [move.kind for move in comparison.moved]
    by_verdict = {v: [entry for entry in comparison.differences if entry.verdict == v] for v in ("better", "worse")}
    counts = [f"{verdict} in {len(group)} ({_one(group)})" for verdict, group in by_verdict.items() if group]
    finding = f"is {' and '.join(counts)} of {number} metrics (Holm, 5%)"
    if not counts:
        finding = f"is not distinguishable from {comparison.baseline.name} in any of {number} metrics"
    moves = f"{kinds.count('lost')} queries no longer pass, {kinds.count('gained')} now do."
    return f"{f'FAIL (tolerated drop of {failed}): ' * bool(failed)}{comparison.other.name} {finding}. {moves}"


def _one(entries: Sequence[Difference]) -> str:
    """Return the leading metric and its value in both runs; `such as` before it if there are others."""
    by_name = {entry.metric: entry for entry in entries}
    one = by_name[ranked(by_name)[0]]
    such = "such as " * (len(entries) > 1)
    return f"{such}{one.metric} {figure(one.metric, one.baseline)} → {figure(one.metric, one.other)}"


def document(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """Return all comparisons with one baseline as plain JSON values, without rounding.

    Args:
        comparisons: At least one.
    """
    return {
        "schema_version": COMPARISON_SCHEMA,
        "passed": all(regression.passed for comparison in comparisons for regression in comparison.regressions),
        "baseline": _run(comparisons[0].baseline),
        "tested": _tested(comparisons),
        "comparisons": [
            {
                "run": _run(comparison.other),
                "queries": {"compared": len(comparison.pairing.rows)}
                | {name: list(getattr(comparison.pairing, name)) for name in UNPAIRED},
                "mismatches": [mismatch._asdict() for mismatch in comparison.mismatches],
                "settings": [setting._asdict() for setting in comparison.changes],
                "metrics": {entry.metric: _metric(entry) for entry in comparison.differences},
                "moved": [
                    {"id": move.baseline.id} | {name: getattr(move, name) for name in OF_A_MOVE}
                    for move in comparison.moved
                ],
                "regressions": [regression._asdict() for regression in comparison.regressions],
            }
            for comparison in comparisons
        ],
    }


def _tested(comparisons: Sequence[Comparison]) -> int:
    """Return the number of differences that were tested, and their p values adjusted, together."""
    return sum(entry.n > 0 for comparison in comparisons for entry in comparison.differences)


def _opening(comparison: Comparison) -> Iterator[Section]:
    yield Section(lines=[line(Styled(conclusion(comparison), "bold"))])
    yield from head(comparison)


def head(comparison: Comparison) -> Iterator[Section]:
    """Yield sections of both runs, of their changes in settings and facts, and last the table of metrics."""
    pairing, lines = comparison.pairing, []
    for role, run in (("baseline", comparison.baseline), ("other   ", comparison.other)):
        facts = run.report.facts
        about = f" · {len(run.report.queries)} queries · {facts.started_at[:16].replace('T', ' ')} · {run.origin}"
        lines.append(line(f"{role}  ", Styled(run.name, "bold"), about, is_command=True))
    if pairing.left:
        only = f"Only the {len(pairing.rows)} queries that are the same in both runs are compared"
        lines += [line(""), line(Styled(only, "bold bad"), f" (--common); {pairing.left} are left out.")]
    if not comparison.changes and not comparison.mismatches:
        facts = comparison.other.report.facts
        known = ", collection" * bool(facts.collection) + ", commit" * (facts.commit != "unknown")
        lines += [line(""), line(f"Settings, golden data{known} and versions are the same.")]
    yield Section(lines=lines)
    for title, changes in (("Settings that differ", comparison.changes), ("Other differences", comparison.mismatches)):
        if changes:
            rows = [row_of(c.what, f"{_value(c.baseline)} → {_value(c.other)}", c.meaning) for c in changes]
            yield Section(lines=[line(""), line(Styled(title, "bold"))], columns=[Column("")] * 3, rows=rows)
    rows = [row for row in map(_row, comparison.differences) if {cell.text for cell in row[1:]} - NOTHING]
    yield Section(lines=[line("")], columns=COLUMNS, rows=rows, spills=True)


def _row(entry: Difference) -> tuple[Styled, ...]:
    *values, counts, verdict = difference(entry)
    return row_of(*values, written_p(entry.p), written_p(entry.p_adjusted), counts, str(entry.n or "–"), verdict)


def _remarks(comparison: Comparison, tested: int) -> Section:
    """Return remarks on single metrics of the table, then how to read it.

    Args:
        comparison: The comparison.
        tested: Number of differences that were tested together.
    """
    notes = dict[str, list[str]]()
    for entry in comparison.differences:
        before, after = len(entry.only_baseline), len(entry.only_other)
        worst = "" if entry.worst is None else f", at worst {signed(entry.metric, entry.worst)}"
        remarks = (
            declared(FOUND).about if entry.metric == FOUND else "",
            "" if entry.note == WHOLE_RUN else entry.note,
            f"{before} scored in the baseline only, {after} in the other only" if before + after else "",
            f"{len(entry.failed)} failed{worst}" if entry.failed else "",
        )
        if any(remarks):
            notes.setdefault("; ".join(filter(None, remarks)), []).append(entry.metric)
    legend = (
        "Difference: other − baseline, over the n queries scored in both; without n a statistic of the whole run. "
        f"Better and worse follow Holm: p adjusted over all {tested} tests."
    )
    texts = (f"  {', '.join(metrics)}: {remark}" for remark, metrics in notes.items())
    return Section(lines=[line(Styled(text, "dim")) for text in (*texts, legend)])


def _moved(comparison: Comparison, queries: int) -> Iterator[Section]:
    moves = comparison.moved[:queries]
    if not comparison.moved:
        yield Section(lines=[line(""), line("No query moved.")])
    elif moves:
        metrics = dict.fromkeys(move.metric for move in comparison.moved)
        count = f", {len(moves)} of {len(comparison.moved)}, by {', '.join(metrics)}; ✓ is a relevant chunk"
        yield Section(lines=[line(""), line(Styled("Queries that moved", "bold"), count)])
    for move in moves:
        rows = [row_of(*pair) for pair in zip_longest(hits(move.baseline), hits(move.other), fillvalue="")]
        lines = [
            line(""),
            line("  ", Styled(move.baseline.id, "bold"), f" {move.baseline.query}"),
            line("  ", Styled(move.kind, "good" if move.gain > 0 else "bad"), f" {change(move)}"),
        ]
        yield Section(lines=lines, columns=[Column("  baseline"), Column("  other")], rows=rows)


def change(move: Moved) -> str:
    """Return the change of a query in words."""
    return f"{move.metric} {figure(move.metric, move.before)} → {figure(move.metric, move.after)}"


def hits(row: QueryRow) -> Iterator[str]:
    """Yield a line for each returned chunk, without its score: the runs may score on different scales."""
    if not row.retrieved:
        yield "  nothing returned"
        yield from (f"  below the threshold {hit.rank}. {hit.chunk.source}" for hit in row.best_below_threshold[:1])
    yield from (f"  {hit.rank}. {'✓' if hit.grade else ' '} {hit.chunk.source}" for hit in row.retrieved[:HITS])
    if (more := len(row.retrieved) - HITS) > 0:
        yield f"  and {more} more"


def regressions(comparison: Comparison) -> Section:
    """Return the tolerated drops, each with its answer. Without any, the section is empty."""
    lines = [line(""), line(Styled("Tolerated drops", "bold"))] if comparison.regressions else []
    for regression in comparison.regressions:
        drop = "unknown" if regression.drop is None else signed(regression.metric, regression.drop)
        answer = Styled("pass", "good") if regression.passed else Styled("FAIL", "bad")
        tolerance = f"tolerated {regression.tolerance:g}; {regression.reason}"
        lines.append(line("  ", answer, f"  {regression.metric}  drop {drop}, {tolerance}"))
    return Section(lines=lines)


def _value(value: Any) -> str:
    return "not set" if value is None else str(value)


def _run(run: Run) -> dict[str, Any]:
    facts = run.report.facts
    return {"name": run.name, "origin": run.origin, "started_at": facts.started_at, "cases": len(run.report.queries)}


def _metric(entry: Difference) -> dict[str, Any]:
    values = entry.model_dump(exclude={"metric", "low", "high", "verdict"})
    return values | {"difference": entry.difference, "ci_low": entry.low, "ci_high": entry.high}

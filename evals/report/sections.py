"""The sections of a run: metrics, criteria, the baseline, slices, worst queries, the judge. Pure.

Terminal, page, Markdown and notebook show these; each metric, criterion, difference and chunk is put into words here.
"""

from collections.abc import Iterator, Sequence

from evals.report.headline import LEADING, NO_WORSE, first_of
from evals.report.model import ComparedSection, Difference, FailedValue, QueryRow, Report
from evals.report.section import Cell, Column, Line, Section, line
from evals.report.text import (
    WORST,
    counted,
    ends,
    figure,
    has_something,
    hit_cells,
    reasons,
    remark,
    signed,
    source_link,
    worst,
)

TONES = {"pass": "good", "FAIL": "bad", "undecided": "fair", "better": "good", "worse": "bad", "": ""}
# Queries and chunks of each that a terminal shows at first, and when all is wanted; disagreements.
FIRST_QUERIES, FIRST_CHUNKS, CHUNKS, FIRST_DISAGREEMENTS = 3, 2, 3, 3


def numbers(*names: str, is_needed: bool = True) -> tuple[Column, ...]:
    """Return columns of numbers."""
    return tuple(Column(name, is_number=True, is_needed=is_needed) for name in names)


COMPARED = (
    Column("metric"),
    *numbers("before", "after", "difference"),
    Column("95% interval"),
    Column("win/tie/loss", is_needed=False),
    Column("", is_needed=False),
)


def metrics(report: Report, names: Sequence[str], *, remarks: bool = False) -> Section:
    """Return a table of metrics with interval and n, and either criteria or remarks."""
    last = Column("remark" if remarks else "criterion", is_needed=not remarks)
    rows = []
    for name in names:
        metric = report.metrics[name]
        beside = Cell(remark(metric), tone="dim") if remarks else _conditions(report, name)
        value = Cell(metric.value, figure(name, metric.value))
        interval = Cell(None, ends(name, metric.ci_low, metric.ci_high))
        rows.append((Cell(name), value, interval, Cell(metric.n, counted(metric)), beside))
    columns = (Column("metric"), *numbers("value", "95% interval", "n"), last)
    return Section(name="metrics", columns=columns, rows=rows)


def shown_metrics(report: Report, *, everything: bool) -> list[str]:
    """Return the metrics that are shown: all, or the headline; one with a criterion also without a value."""
    demanded = {gate.metric for gate in report.criteria}
    return [
        name
        for name, metric in report.metrics.items()
        if everything or name in demanded or (name in report.headline and has_something(metric))
    ]


def _conditions(report: Report, name: str) -> Cell:
    """Return the criteria on a metric with their answers; of two that are met the one of the baseline says less."""
    gates = [gate for gate in report.criteria if gate.metric == name]
    told = sorted(gates, key=lambda gate: (gate.passed, gate.condition == NO_WORSE))
    shown = [gate for n, gate in enumerate(told) if not (n and gate.passed and gate.condition == NO_WORSE)]
    text = ", ".join(f"{gate.condition} {gate.verdict}" for gate in shown)
    return Cell(None, text, TONES[shown[0].verdict] if shown else "")


def criteria(report: Report) -> Section:
    """Return the criteria with the answers of the run."""
    names = Column("verdict"), Column("criterion"), Column("condition")
    rows = [
        (
            Cell(gate.passed, gate.verdict, f"bold {TONES[gate.verdict]}"),
            *(Cell(gate.metric), Cell(gate.condition), Cell(gate.figure, figure(gate.metric, gate.figure))),
            Cell(gate.reason, tone="dim"),
        )
        for gate in report.criteria
    ]
    return Section(name="criteria", columns=(*names, *numbers("figure"), Column("", is_needed=False)), rows=rows)


def unmet(report: Report) -> Iterator[Line]:
    """Yield the criteria that are not met, a line each, with what was got."""
    for gate in report.criteria:
        if not gate.passed:
            got = f" {gate.metric} {gate.condition}, got {figure(gate.metric, gate.figure)} ({gate.reason})"
            yield line("  ", Cell(gate.verdict, tone=TONES[gate.verdict]), got)


def compared(section: ComparedSection, name: str) -> Section:
    """Return the differences to another run, as a table."""
    return Section(name=name, columns=COMPARED, rows=[difference(each) for each in section.differences])


def difference(one: Difference) -> tuple[Cell, ...]:
    """Return a difference as a row: both values, the difference with its interval, wins, ties and losses."""
    low, high = (one.paired.interval.low, one.paired.interval.high) if one.paired else (None, None)
    return (
        Cell(one.metric),
        *(Cell(value, figure(one.metric, value)) for value in (one.baseline, one.other)),
        Cell(one.difference, signed(one.metric, one.difference)),
        Cell(None, "–" if low is None else f"{signed(one.metric, low)} … {signed(one.metric, high)}"),
        Cell(None, f"{one.wins}/{one.paired.ties}/{one.losses}" if one.paired else "–"),
        Cell(one.verdict, tone=TONES[one.verdict]),
    )


def leading_slices(report: Report) -> Section | None:
    """Return the leading metric by query type, the lowest first; None where there are not two types."""
    name = first_of(LEADING, report.metrics) or ""
    parts = [(part.metrics[name], part) for part in report.slices if part.by == "query_type" and name in part.metrics]
    rows = [
        (
            Cell(part.name, f"  {part.name}"),
            Cell(metric.value, figure(name, metric.value)),
            Cell(None, ends(name, metric.ci_low, metric.ci_high)),
            Cell(metric.n),
        )
        for metric, part in sorted(parts, key=lambda each: each[0].value or 0.0)
    ]
    columns = (Column("  type"), *numbers("value", "95% interval", "n"))
    return Section(title=f"{name} by query type", columns=columns, rows=rows) if len(rows) > 1 else None


def slices(report: Report) -> Section | None:
    """Return the leading metrics by query type and tag; None where there are not two slices."""
    names = [name for name in report.headline if any(name in part.metrics for part in report.slices)]
    rows = []
    for part in report.slices:
        cells = [Cell(part.name), Cell(part.by, "type" if part.by == "query_type" else "tag", "dim"), Cell(part.n)]
        for name in names:
            one = part.metrics.get(name)
            text = f"{figure(name, one.value)} ({ends(name, one.ci_low, one.ci_high)}), n {one.n}" if one else "–"
            cells.append(Cell(one and one.value, text))
        rows.append(cells)
    columns = (Column("queries"), Column(""), *numbers("n"), *map(Column, names))
    return Section(name="slices", columns=columns, rows=rows) if len(rows) > 1 else None


def worst_queries(report: Report, *, everything: bool) -> Section | None:
    """Return the worst queries with what was retrieved instead, and why the judge found it useless; None without any.

    Args:
        report: The run.
        everything: Show more queries and chunks, and what was expected.
    """
    shown = worst(report.queries, WORST if everything else FIRST_QUERIES)
    which = "worst query" if len(shown) == 1 else f"{len(shown)} worst queries"
    lines = [each for row in shown for each in _worst(row, report, everything=everything)]
    return Section(title=f"The {which}, and what was retrieved instead", lines=lines) if shown else None


def _worst(row: QueryRow, report: Report, *, everything: bool) -> Iterator[Line]:
    tags = Cell(row.tags, f"  {' · '.join(row.tags)}" if row.tags else "", "dim")
    yield line(Cell(row.id, tone="bold"), f" {' '.join(row.query.split())}", tags, is_cut=True)
    for reason in reasons(row)[: 2 if everything else 1]:
        yield line(Cell(reason, f"  {reason}", "bad"), is_cut=True)
    for hit in row.retrieved[: CHUNKS if everything else FIRST_CHUNKS]:
        yield line("  ", *hit_cells(hit, source_link(hit.source, report.config)), is_cut=True)
        if hit.verdict == 0 or isinstance(hit.judge, FailedValue):
            found = "judged useless" if hit.verdict == 0 else "not judged"
            yield line(Cell(hit.said, f"     {found}: {hit.said}", "dim"))
    for expected in row.expected[:2] if everything else ():
        yield line(Cell(expected, f"  expected {expected}", "dim"), is_cut=True)


def disagreements(report: Report, *, everything: bool = True) -> Section | None:
    """Return where labels and judge differ, those that tell most first; None where nowhere."""
    if not report.judge or not (rows := report.judge.disagreements):
        return None
    shown = rows if everything else rows[:FIRST_DISAGREEMENTS]
    rest = "" if len(shown) == len(rows) else f"; the first {len(shown)}, all with --verbose and in the report"
    title = (
        f"Judge and labels differ on {len(rows)} of {report.judge.compared} verdicts: errors of the judge, or holes in "
        f"the labels{rest}"
    )
    cells = [
        (
            Cell(row.query_id),
            Cell(row.chunk_id, report.chunks[row.chunk_id].source if row.chunk_id in report.chunks else "", keep=0),
            Cell(row.label, "relevant" if row.label else "not relevant"),
            Cell(1 - row.label, "useless" if row.label else "useful"),
            Cell(row.reason, tone="dim"),
        )
        for row in shown
    ]
    columns = (*map(Column, ("query", "chunk", "labelled", "judged")), Column("the judge's reason", is_needed=False))
    return Section(name="disagreements", title=title, columns=columns, rows=cells)

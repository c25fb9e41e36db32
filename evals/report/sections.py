"""A run in words and in sections: metrics, criteria, slices, worst queries, the judge. Pure.

Terminal, page, Markdown and notebook show these; each metric, criterion, difference and chunk is put into words here.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import nsmallest
from math import inf
from statistics import fmean

from evals.collect.observations import Summary
from evals.judge.budget import Usage
from evals.metrics import NEED_A_JUDGE, declared
from evals.report.model import ComparedSection, DifferenceEntry, Facts, FailedValue, Hit, QueryRow, Report
from evals.report.section import Column, Line, Section, Styled, line, row_of
from retrievers.terminal.present import score_text

TONES = {"pass": "good", "FAIL": "bad", "undecided": "fair", "better": "good", "worse": "bad", "": ""}
# Worst queries, and disagreements of judge and labels, that a terminal shows at first.
FIRST = 3
# Chunks of a worst query.
CHUNKS = 2
ORDER = {"FAILURE": 0, "PARTIAL_SUCCESS": 1, "UNLABELLED": 2, "SUCCESS": 3}
# A query without labels is among the worst where a judge grades its result below this.
POOR = 0.5


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
        beside = Styled(remark(metric), "dim") if remarks else _conditions(report, name)
        rows.append(row_of(name, *value_texts(name, metric), counted(metric), beside))
    columns = (Column("metric"), *numbers("value", "95% interval", "n"), last)
    return Section(name="metrics", columns=columns, rows=rows)


def value_texts(name: str, metric: Summary) -> tuple[str, str]:
    """Return the value of a metric and its interval."""
    return figure(name, metric.value), ends(name, metric.ci_low, metric.ci_high)


def shown_metrics(report: Report, *, everything: bool) -> list[str]:
    """Return the metrics that are shown: all, or the headline and those with a criterion."""
    demanded = {*report.headline, *(gate.metric for gate in report.criteria)}
    return [name for name in report.metrics if everything or name in demanded]


def _conditions(report: Report, name: str) -> Styled:
    """Return the criteria on a metric with their answers, those that are not met first."""
    gates = sorted((gate for gate in report.criteria if gate.metric == name), key=lambda gate: gate.passed)
    text = ", ".join(f"{gate.condition} {gate.answer}" for gate in gates)
    return Styled(text, TONES[gates[0].answer] if gates else "")


def criteria(report: Report) -> Section:
    """Return the criteria with the answers of the run."""
    names = Column("verdict"), Column("criterion"), Column("condition")
    rows = [
        row_of(
            Styled(gate.answer, f"bold {TONES[gate.answer]}"),
            *(gate.metric, gate.condition, figure(gate.metric, gate.figure)),
            Styled(gate.reason, "dim"),
        )
        for gate in report.criteria
    ]
    return Section(name="criteria", columns=(*names, *numbers("figure"), Column("", is_needed=False)), rows=rows)


def unmet(report: Report) -> Iterator[Line]:
    """Yield the criteria that are not met, a line each, with what was got."""
    for gate in report.criteria:
        if not gate.passed:
            got = f" {gate.metric} {gate.condition}, got {figure(gate.metric, gate.figure)} ({gate.reason})"
            yield line("  ", Styled(gate.answer, TONES[gate.answer]), got)


def compared(section: ComparedSection, name: str) -> Section:
    """Return the differences to another run, as a table."""
    return Section(name=name, columns=COMPARED, rows=[difference(each) for each in section.differences])


def difference(entry: DifferenceEntry) -> tuple[Styled, ...]:
    """Return a difference as a row: both values, the difference with its interval, wins, ties and losses."""
    return row_of(
        entry.metric,
        *(figure(entry.metric, value) for value in (entry.baseline, entry.other)),
        signed(entry.metric, entry.difference),
        signed_ends(entry.metric, entry.low, entry.high),
        f"{entry.wins}/{entry.ties}/{entry.losses}" if entry.wins + entry.ties + entry.losses else "–",
        Styled(entry.verdict, TONES[entry.verdict]),
    )


def slices(report: Report, names: Sequence[str], *, by: Collection[str] = ("query_type", "tag")) -> Section | None:
    """Return metrics by query type and tag, the lowest of the first one first; None where there are not two slices."""
    names = [name for name in names if any(name in part.metrics for part in report.slices)]
    parts = [part for part in report.slices if part.by in by and not part.metrics.keys().isdisjoint(names)]
    rows = []
    for part in sorted(parts, key=lambda part: (part.by, _value(part.metrics.get(names[0])))):
        texts = []
        for name in names:
            metric = part.metrics.get(name)
            counted = "" if metric is None or metric.n == part.n else f", n {metric.n}"
            texts.append("{} ({})".format(*value_texts(name, metric)) + counted if metric else "–")
        kind = Styled("type" if part.by == "query_type" else "tag", "dim")
        rows.append(row_of(part.name, kind, str(part.n), *texts))
    columns = (Column("queries"), Column(""), *numbers("n"), *map(Column, names))
    return Section(name="slices", columns=columns, rows=rows) if len(rows) > 1 else None


def _value(metric: Summary | None) -> float:
    return metric.value if metric and metric.value is not None else inf


def worst_queries(report: Report) -> Section | None:
    """Return the worst queries with what was retrieved instead, and what the judge said of it; None without any."""
    shown = worst(report.queries, FIRST)
    which = "worst query" if len(shown) == 1 else f"{len(shown)} worst queries"
    lines = [each for row in shown for each in _worst(row)]
    return Section(title=f"The {which}, and what was retrieved instead", lines=lines) if shown else None


def _worst(row: QueryRow) -> Iterator[Line]:
    tags = Styled(f"  {' · '.join(row.tags)}" if row.tags else "", "dim")
    yield line(Styled(row.id, "bold"), f" {' '.join(row.query.split())}", tags, is_cut=True)
    for reason in reasons(row)[:1]:
        yield line(Styled(f"  {reason}", "bad"), is_cut=True)
    for hit in row.retrieved[:CHUNKS]:
        text = Styled(f"  {hit.preview.lstrip('# ')}", "dim")
        yield line(f"  {rank_and_score(hit)}{hit.source}", text, is_cut=True)
        if hit.verdict == 0 or isinstance(hit.judge, FailedValue):
            found = "judged useless" if hit.verdict == 0 else "not judged"
            yield line(Styled(f"     {found}: {hit.said}", "dim"))
    for expected in row.expected[:1]:
        yield line(Styled(f"  expected {expected}", "dim"), is_cut=True)


def disagreements(report: Report, *, everything: bool = True) -> Section | None:
    """Return where labels and judge differ, those that tell most first; None where nowhere."""
    if not report.judge or not (rows := report.judge.disagreements):
        return None
    verdicts = rows if everything else rows[:FIRST]
    rest = "" if len(verdicts) == len(rows) else f"; the first {len(verdicts)}, all with --verbose and in the report"
    title = f"Judge and labels differ on {len(rows)} verdicts: errors of the judge, or holes in the labels{rest}"
    cells = [
        row_of(
            verdict.query_id,
            report.chunks[verdict.chunk_id].source if verdict.chunk_id in report.chunks else "",
            *(("relevant", "useless") if verdict.label else ("not relevant", "useful")),
            Styled(verdict.reason, "dim"),
        )
        for verdict in verdicts
    ]
    columns = (*map(Column, ("query", "chunk", "labelled", "judged")), Column("the judge's reason", is_needed=False))
    return Section(name="disagreements", title=title, columns=columns, rows=cells)


def figure(metric: str, value: float | None) -> str:
    """Return a value rounded as the metric's unit asks for, a dash for none."""
    return "–" if value is None else declared(metric).written(value)


def signed(metric: str, value: float | None) -> str:
    """Return a difference rounded likewise, with its sign."""
    text = figure(metric, value)
    return text if text.startswith(("-", "–")) else f"+{text}"


def ends(metric: str, low: float | None, high: float | None) -> str:
    """Return the ends of an interval, rounded likewise; a dash for none."""
    return "–" if low is None else f"{figure(metric, low)} … {figure(metric, high)}"


def signed_ends(metric: str, low: float | None, high: float | None) -> str:
    """Return the ends of the interval of a difference, with their signs; a dash for none."""
    return "–" if low is None else f"{signed(metric, low)} … {signed(metric, high)}"


def counted(metric: Summary) -> str:
    """Return the number of scored queries; of a sample also how many its mean stands for."""
    return f"{metric.n} of {metric.sampled.queries}" if metric.sampled else str(metric.n)


def remark(metric: Summary) -> str:
    """Return what must be known beside a value: the counts of missing scores, the bounds these leave, its note."""
    unscored, sampled = 0 if metric.value is None else metric.n_unscored, metric.sampled
    counts = {"unscored": unscored, "failed": metric.n_failed, "of them missing": metric.n_missing}
    parts = [f"{count} {what}" for what, count in counts.items() if count]
    low, high = ("" if end is None else f"{end:.3f}" for end in (metric.bound_low, metric.bound_high))
    bounds = f"{low or '−∞'} … {high or '∞'}" if low or high else ""
    if sampled and metric.n < sampled.queries:
        by, weight = sampled.proxy, sampled.weight
        alone = f"mean of the judged queries alone, as {by} does not foretell the judge"
        parts.append(f"corrected by {by}, weight {weight:.2f}" if weight else alone)
        parts += [f"judging all would give {bounds} (95%)"] if bounds else []
    elif parts and bounds and not sampled:
        parts[-1] += f", {bounds}"
    return ": ".join(filter(None, ("; ".join(parts), metric.note)))


def searched(facts: Facts) -> str:
    """Return what was searched, in a few words."""
    if facts.collection is None:
        return "a retriever whose chunks cannot be listed"
    return f"{facts.collection.name} ({facts.collection.points:,} chunks)"


def judge_lines(report: Report) -> list[str]:
    """Return the judge of a run in a few lines: cost, correction, missing verdicts."""
    return report.judge.lines if report.judge else []


def spent(usage: Usage) -> str:
    """Return the cost of judging so far, in a few words."""
    parts = [
        f"{usage.calls:,} calls",
        f"{usage.hits:,} cached",
        f"{usage.failed:,} failed" if usage.failed else "",
        f"{usage.unanswered:,} without an answer, of unknown cost" if usage.unanswered else "",
        f"{usage.tokens_in + usage.tokens_out:,} tokens",
        "" if usage.usd is None else f"{usage.usd:.4f} USD",
    ]
    return ", ".join(filter(None, parts))


def verdict_lines(row: QueryRow) -> list[str]:
    """Return the verdicts on a query's returned chunks, a line each, in rank order."""
    words = {1: "useful", 0: "useless", None: "not judged"}
    return [f"{hit.rank}. {words[hit.verdict]}: {hit.said}" for hit in row.retrieved if hit.judge]


def rank_and_score(hit: Hit, *, scaled: bool = True) -> str:
    """Return rank, score and relevance of a chunk, the beginning of its line."""
    scale = f"{hit.scale} " if scaled and hit.scale not in ("", "unknown", "none") else ""
    return f"{hit.rank}. {scale}{score_text(hit.score)} {'✓' if hit.grade else ' '} "


def worst_first(rows: Iterable[QueryRow], most: int) -> list[QueryRow]:
    """Return the worst queries: by outcome, then by how little of the result was right, by its best score, by id."""

    def order(row: QueryRow) -> tuple[int, float, float, str]:
        best = max((hit.score for hit in row.retrieved if hit.score is not None), default=0.0)
        return ORDER[row.outcome], _right(row), -best, row.id

    return nsmallest(most, rows, key=order)


def worst(rows: Iterable[QueryRow], most: int) -> list[QueryRow]:
    """Return the worst of the queries that are no success, or without labels and poor by the judge, the worst first."""
    poor = (row for row in rows if row.outcome != "SUCCESS" and (row.outcome != "UNLABELLED" or _right(row) < POOR))
    return worst_first(poor, most)


def reasons(row: QueryRow) -> list[str]:
    """Return why a query is among the worst; the judge's scores where there are no labels."""
    if row.outcome != "UNLABELLED":
        return row.reasons
    return [f"by the judge: {', '.join(f'{name} {score:.3f}' for name, score in _judged_scores(row).items())}"]


def _right(row: QueryRow) -> float:
    """Return how much of a result was right, 0 to 1: by labels, or else the mean of the judge's scores."""
    if row.content_relevance is not None:
        return row.content_relevance
    graded = _judged_scores(row)
    return fmean(graded.values()) if graded else 1.0


def _judged_scores(row: QueryRow) -> dict[str, float]:
    return {name: float(s) for name, s in row.scores.items() if name in NEED_A_JUDGE and isinstance(s, float | int)}

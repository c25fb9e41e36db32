"""A run in sections: metrics, criteria, slices, worst queries, and the judge. Pure.

Terminal, page, Markdown and notebook show these sections. Metrics, criteria, differences and chunks are worded here.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import nsmallest
from math import inf
from statistics import fmean

from evals.collect.observations import Failure, Summary
from evals.judge.budget import Usage
from evals.metrics import NEED_A_JUDGE, declared
from evals.report.model import NO_WORSE, ComparedSection, DifferenceEntry, Facts, Hit, QueryRow, Report, preview
from evals.report.section import Column, Line, Section, Styled, line, row_of
from retrievers.terminal.present import score_text

TONES = {"pass": "good", "FAIL": "bad", "undecided": "fair", "better": "good", "worse": "bad", "": ""}
# Most worst queries, and most disagreements of judge and labels, that a terminal shows without --verbose.
FIRST = 3
# Most chunks that are shown of a worst query.
CHUNKS = 2
# Outcomes from the worst.
ORDER = {"FAILURE": 0, "PARTIAL_SUCCESS": 1, "UNLABELLED": 2, "SUCCESS": 3}
# A query without labels is among the worst if a judge grades its result below this.
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
    """Return a table of metrics: value, interval, n, and either criteria or remarks."""
    last = Column("remark" if remarks else "criterion", is_needed=not remarks)
    rows = []
    for name in names:
        metric = report.metrics[name]
        text = Styled(remark(metric), "dim") if remarks else _conditions(report, name)
        rows.append(row_of(name, *value_texts(name, metric), counted(metric), text))
    columns = (Column("metric"), *numbers("value", "95% interval", "n"), last)
    return Section(name="metrics", columns=columns, rows=rows)


def value_texts(name: str, metric: Summary) -> tuple[str, str]:
    """Return the value of a metric and its interval as texts."""
    interval = "–" if metric.ci_low is None else f"{figure(name, metric.ci_low)} … {figure(name, metric.ci_high)}"
    return figure(name, metric.value), interval


def shown_metrics(report: Report, *, everything: bool) -> list[str]:
    """Return the metrics that are shown: all, or those of the headline and those with a criterion."""
    names = {*report.headline, *(gate.metric for gate in report.criteria)}
    return [name for name in report.metrics if everything or name in names]


def _conditions(report: Report, name: str) -> Styled:
    """Return the criteria of a metric with their answers, unmet ones first; that of a baseline as the value there."""
    gates = sorted((gate for gate in report.criteria if gate.metric == name), key=lambda gate: gate.passed)
    before = {entry.metric: entry.baseline for entry in (report.baseline.differences if report.baseline else ())}
    was = f"was {figure(name, before.get(name))}"
    text = ", ".join(f"{was if gate.condition == NO_WORSE else gate.condition} {gate.answer}" for gate in gates)
    return Styled(text, TONES[gates[0].answer] if gates else "")


def criteria(report: Report) -> Section:
    """Return the criteria with the answers of the run."""
    names = Column("verdict"), Column("criterion"), Column("condition")
    rows = [
        row_of(
            Styled(gate.answer, f"bold {TONES[gate.answer]}"),
            *(gate.metric, "not proved worse" if gate.condition == NO_WORSE else gate.condition),
            figure(gate.metric, gate.figure),
            Styled(gate.reason, "dim"),
        )
        for gate in report.criteria
    ]
    return Section(name="criteria", columns=(*names, *numbers("figure"), Column("", is_needed=False)), rows=rows)


def unmet(report: Report) -> Iterator[Line]:
    """Yield a line for each criterion that is not met, with the figure of the run."""
    for gate in report.criteria:
        if not gate.passed:
            condition = "" if gate.condition == NO_WORSE else f" {gate.condition}, got"
            text = f" {gate.metric}{condition} {figure(gate.metric, gate.figure)} ({gate.reason})"
            yield line("  ", Styled(gate.answer, TONES[gate.answer]), text)


def compared(section: ComparedSection, name: str) -> Section:
    """Return the differences to another run as a table."""
    return Section(name=name, columns=COMPARED, rows=[difference(entry) for entry in section.differences])


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
    """Return metrics by query type and tag, the lowest value of the first metric first; None for fewer than two slices.

    Args:
        report: The run.
        names: Names of metrics.
        by: Kinds of slices.
    """
    names = [name for name in names if any(name in entry.metrics for entry in report.slices)]
    entries = [entry for entry in report.slices if entry.by in by and not entry.metrics.keys().isdisjoint(names)]
    rows = []
    for entry in sorted(entries, key=lambda entry: (entry.by, _value(entry.metrics.get(names[0])))):
        texts = []
        for name in names:
            metric = entry.metrics.get(name)
            n = "" if metric is None or metric.n == entry.n else f", n {metric.n}"
            texts.append("{} ({})".format(*value_texts(name, metric)) + n if metric else "–")
        kind = Styled("type" if entry.by == "query_type" else "tag", "dim")
        rows.append(row_of(entry.name, kind, str(entry.n), *texts))
    columns = (Column("queries"), Column(""), *numbers("n"), *map(Column, names))
    return Section(name="slices", columns=columns, rows=rows) if len(rows) > 1 else None


def _value(metric: Summary | None) -> float:
    return metric.value if metric and metric.value is not None else inf


def worst_queries(report: Report) -> Section | None:
    """Return the worst queries with their results and the judge's reasons; None if no query failed."""
    shown = worst(report.queries, FIRST)
    which = "worst query" if len(shown) == 1 else f"{len(shown)} worst queries"
    lines = [text for row in shown for text in _worst(row)]
    return Section(title=f"The {which}, and what was retrieved instead", lines=lines) if shown else None


def _worst(row: QueryRow) -> Iterator[Line]:
    tags = Styled(f"  {' · '.join(row.tags)}" if row.tags else "", "dim")
    yield line(Styled(row.id, "bold"), f" {' '.join(row.query.split())}", tags, is_cut=True)
    for reason in reasons(row)[:1]:
        yield line(Styled(f"  {reason}", "bad"), is_cut=True)
    for hit in row.retrieved[:CHUNKS]:
        text = Styled(f"  {preview(hit.chunk.text).lstrip('# ')}", "dim")
        yield line(f"  {rank_and_score(hit)}{hit.chunk.source}", text, is_cut=True)
        if hit.verdict == 0 or isinstance(hit.judge, Failure):
            verdict = "judged useless" if hit.verdict == 0 else "not judged"
            yield line(Styled(f"     {verdict}: {hit.said}", "dim"))
    for expected in row.expected[:1]:
        yield line(Styled(f"  expected {expected}", "dim"), is_cut=True)


def disagreements(report: Report, *, everything: bool = True) -> Section | None:
    """Return the verdicts on which labels and judge differ; None without any."""
    if not report.judge or not (differing := report.judge.disagreements):
        return None
    shown = differing if everything else differing[:FIRST]
    rest = "" if len(shown) == len(differing) else f"; the first {len(shown)}, all with --verbose and in the report"
    title = f"Judge and labels differ on {len(differing)} verdicts: errors of the judge, or holes in the labels{rest}"
    rows = [
        row_of(
            verdict.query_id,
            report.chunks[verdict.chunk_id].source if verdict.chunk_id in report.chunks else "",
            *(("relevant", "useless") if verdict.label else ("not relevant", "useful")),
            Styled(verdict.reason, "dim"),
        )
        for verdict in shown
    ]
    columns = (*map(Column, ("query", "chunk", "labelled", "judged")), Column("the judge's reason", is_needed=False))
    return Section(name="disagreements", title=title, columns=columns, rows=rows)


def figure(metric: str, value: float | None) -> str:
    """Return a value, rounded as the unit of its metric asks for; a dash for None."""
    return "–" if value is None else declared(metric).written(value)


def signed(metric: str, value: float | None) -> str:
    """Return a difference with its sign, rounded as the unit of its metric asks for; a dash for None."""
    text = figure(metric, value)
    return text if text.startswith(("-", "–")) else f"+{text}"


def signed_ends(metric: str, low: float | None, high: float | None) -> str:
    """Return the ends of the interval of a difference, with their signs; a dash for None."""
    return "–" if low is None else f"{signed(metric, low)} … {signed(metric, high)}"


def counted(metric: Summary) -> str:
    """Return the number of scored queries; for a sample also the number of queries that its mean stands for."""
    return f"{metric.n} of {metric.sampled.queries}" if metric.sampled else str(metric.n)


def remark(metric: Summary) -> str:
    """Return a remark on a value: the numbers of missing scores, the bounds that they leave, and the metric's note."""
    unscored, sampled = 0 if metric.value is None else metric.n_unscored, metric.sampled
    missing = "of them missing" if unscored else "missing"
    counts = {"unscored": unscored, "failed": metric.n_failed, missing: metric.n_missing}
    parts = [f"{count} {kind}" for kind, count in counts.items() if count]
    low, high = ("" if end is None else f"{end:.3f}" for end in (metric.bound_low, metric.bound_high))
    bounds = f"{low or '−∞'} … {high or '∞'}" if low or high else ""
    if sampled and metric.n < sampled.queries:
        proxy, weight = sampled.proxy, sampled.weight
        alone = f"mean of the judged queries alone, as {proxy} does not foretell the rest"
        parts.append(f"corrected by {proxy}, weight {weight:.2f}" if weight else alone)
        parts += [f"judging all would give {bounds} (95%)"] if bounds else []
    elif parts and bounds and not sampled:
        parts[-1] += f", {bounds}"
    return ": ".join(filter(None, ("; ".join(parts), metric.note)))


def searched(facts: Facts) -> str:
    """Return the searched collection in a few words."""
    if facts.collection is None:
        return "a retriever whose chunks cannot be listed"
    return f"{facts.collection.name} ({facts.collection.points:,} chunks)"


def judge_lines(report: Report) -> list[str]:
    """Return the judge of a run in a few lines: what was asked, its cost, its agreement; none without a judge."""
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
    """Return a line for each verdict on a returned chunk of a query, in rank order."""
    words = {1: "useful", 0: "useless", None: "not judged"}
    return [f"{hit.rank}. {words[hit.verdict]}: {hit.said}" for hit in row.retrieved if hit.judge]


def rank_and_score(hit: Hit, *, scaled: bool = True) -> str:
    """Return the beginning of a chunk's line: its rank, score, cosine if it is another score, and relevance."""
    scale = f"{hit.scale} " if scaled and hit.scale not in ("", "unknown", "none") else ""
    cosine = hit.scores.get("semantic") if scaled and hit.scale != "cosine" else None
    beside = "" if cosine is None else f" (cosine {score_text(cosine).strip()})"
    return f"{hit.rank}. {scale}{score_text(hit.score)}{beside} {'✓' if hit.grade else ' '} "


def worst_first(rows: Iterable[QueryRow], most: int) -> list[QueryRow]:
    """Return the worst queries: by outcome, then by the right share of the result, by its best score, and by id."""

    def order(row: QueryRow) -> tuple[int, float, float, str]:
        best = max((hit.score for hit in row.retrieved if hit.score is not None), default=0.0)
        return ORDER[row.outcome], _right_share(row), -best, row.id

    return nsmallest(most, rows, key=order)


def worst(rows: Iterable[QueryRow], most: int) -> list[QueryRow]:
    """Return the worst of the queries without success, the worst first. Unlabelled ones are poor by the judge."""
    failed = (r for r in rows if r.outcome != "SUCCESS" and (r.outcome != "UNLABELLED" or _right_share(r) < POOR))
    return worst_first(failed, most)


def reasons(row: QueryRow) -> list[str]:
    """Return why a query is among the worst: its reasons, or without labels the scores by the judge."""
    if row.outcome != "UNLABELLED":
        return row.reasons
    return [f"by the judge: {', '.join(f'{name} {score:.3f}' for name, score in _judged_scores(row).items())}"]


def _right_share(row: QueryRow) -> float:
    """Return the right share of a result, 0 to 1: by labels, or else as the mean of the judge's scores."""
    if row.content_relevance is not None:
        return row.content_relevance
    scores = _judged_scores(row)
    return fmean(scores.values()) if scores else 1.0


def _judged_scores(row: QueryRow) -> dict[str, float]:
    return {name: float(s) for name, s in row.scores.items() if name in NEED_A_JUDGE and isinstance(s, float | int)}

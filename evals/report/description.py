"""A run in Markdown: the description that the MLflow UI shows on its page. Pure."""

from collections.abc import Collection, Iterable, Iterator

from evals.report.figure_text import figure
from evals.report.headline import LEADING, deepest
from evals.report.judge_lines import judge_lines
from evals.report.model import Report
from evals.report.terminal import counted, interval


def description(report: Report) -> str:
    """Return the verdict in a sentence, the headline metrics with interval and n, then the criteria, as Markdown."""
    facts, validation = report.facts, report.validation
    lines = [
        report.head.verdict if report.head else f"{validation.passed} of {validation.total} queries pass.",
        *(["", f"**{report.grid.proof}**"] if report.grid and report.grid.proof else []),
        *(["", f"**{report.head.index}**"] if report.head and report.head.index else []),
        "",
        f"{facts.cases} queries ({facts.in_scope} in scope), {report.settings}",
        *_metrics(report),
    ]
    if report.head:
        lines += ["", report.head.criteria]
    lines += _criteria(report)
    if report.judge:
        lines += ["", *judge_lines(report.judge)]
    return "\n".join(lines)


def most_telling(report: Report) -> list[str]:
    """Return all metrics of a run that have a value, those that say most about it first."""
    demanded = (criterion.metric for criterion in report.criteria)
    measured = [name for name, metric in report.metrics.items() if metric.value is not None]
    return leading_first(measured, (*demanded, *report.headline))


def leading_first(names: Collection[str], further: Iterable[str] = ()) -> list[str]:
    """Return names of metrics: the leading ones, then those of `further`, then the rest."""
    order = dict.fromkeys((*(deepest(pattern, names) for pattern in LEADING), *further, *names))
    return [name for name in order if name in names]


def _metrics(report: Report) -> Iterator[str]:
    shown = [name for name in most_telling(report) if name in report.headline]
    if shown:
        yield from ("", "| metric | value | 95% interval | n |", "|---|---|---|---|")
    for name in shown:
        metric = report.metrics[name]
        yield f"| {name} | {figure(name, metric.value)} | {interval(name, metric)} | {counted(metric)} |"


def _criteria(report: Report) -> Iterator[str]:
    if report.criteria:
        yield from ("", "| criterion | figure | |", "|---|---|---|")
    for criterion in report.criteria:
        shown = figure(criterion.metric, criterion.figure)
        verdict = criterion.verdict if criterion.passed else f"**{criterion.verdict}**"
        yield f"| {criterion.metric} {criterion.condition} | {shown} | {verdict} |"

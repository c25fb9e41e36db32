"""A run as an engineer reads it at a glance: the table of metrics, the criteria, the worst queries."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evals.collect.observations import Gate, Summary
from evals.metrics.run_result import RunResult
from evals.report.console import SafeConsole
from evals.report.disagreements import print_disagreements
from evals.report.headline import headline
from evals.report.judge import judging_lines
from evals.report.worst import print_worst

COLORS = {"pass": "green", "FAIL": "red", "undecided": "yellow"}


def render(result: RunResult, *, width: int, color: bool, everything: bool = False) -> str:
    """The report for a terminal of that width; `everything` shows every metric."""
    console = SafeConsole(width=width, color=color)
    facts = result.facts
    console.print(
        f"[bold]{escape(result.name)}[/bold]  {facts['cases']} queries "
        f"({facts['in_scope']} in scope, {facts['out_of_scope']} out of scope)"
        f" · {escape(searched(facts))}"
    )
    console.print(escape(settings(result)), style="dim")
    console.print(_table(result, everything=everything))
    for note in result.notes:
        console.print(f"[yellow]Note:[/yellow] {escape(note)}")
    print_worst(console, result)
    print_disagreements(console, result, everything=everything)
    _print_outcome(console, result.gates)
    return console.text.getvalue()


def description(result: RunResult) -> str:
    """What a run came to, in a few lines of Markdown: the description that the MLflow UI shows on its page."""
    facts = result.facts
    lines = [
        f"{facts['cases']} queries ({facts['in_scope']} in scope), {settings(result)}",
        "",
        f"{result.validation.passed} of {result.validation.total} queries answered as they should be.",
    ]
    if result.gates:
        lines += ["", "| criterion | figure | |", "|---|---|---|"]
    for gate in result.gates:
        shown = figure(gate.metric, gate.figure)
        verdict = gate.verdict if gate.passed else f"**{gate.verdict}**"
        lines.append(f"| {gate.metric} {gate.condition} | {shown} | {verdict} |")
    if result.judging:
        lines += ["", *judging_lines(result.judging)]
    return "\n".join(lines)


def figure(metric: str, value: float | None) -> str:
    """A value rounded for reading: milliseconds and tokens to one place, dollars to four, the rest to three."""
    if value is None:
        return "–"
    if metric == "cost/judge_usd":
        return f"{value:,.4f}"
    if metric.startswith("cost/judge_"):
        return f"{value:,.0f}"
    return (
        f"{value:,.1f}" if metric.endswith("_ms") or "_ms_c" in metric or metric.startswith("cost/") else f"{value:.3f}"
    )


def searched(facts: Mapping[str, Any]) -> str:
    """What was searched, in a few words."""
    collection = facts["collection"]
    if collection is None:
        return "a retriever whose chunks cannot be listed"
    return f"collection {collection['name']} ({collection['points']:,} chunks)"


def settings(result: RunResult) -> str:
    """The settings that matter most, in a line."""
    retriever, facts = result.config["retriever"], result.facts
    foreign = retriever.get("python")
    threshold = retriever.get("threshold")
    parts = [
        *([f"python {foreign} ({facts['retriever']})"] if foreign else _retrieval(retriever)),
        f"top_k {retriever['top_k']}",
        "no threshold" if threshold is None else f"threshold {threshold:g}",
        f"candidates {retriever['candidates']}",
        facts["embedding"],
    ]
    return " · ".join(str(part) for part in parts if part)


def _retrieval(retriever: Mapping[str, Any]) -> list[str]:
    """The mode, and the fusion and the reranker that are in force; reranking by rrf is fusion by rrf."""
    rerank = retriever.get("rerank", "none")
    fusion = "rrf" if rerank == "rrf" else retriever.get("fusion")
    parts = [retriever["mode"]]
    if retriever["mode"] == "hybrid" and fusion:
        parts.append(f"fusion {fusion}")
    return parts if rerank in ("none", "rrf") else [*parts, f"rerank {rerank}"]


def _table(result: RunResult, *, everything: bool) -> Table:
    gates = {gate.metric: gate for gate in result.gates}
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("metric", no_wrap=True)
    for name in ("value", "95% interval", "n"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("criterion", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("", style="dim", overflow="fold")
    wanted = {*headline([summary.metric for summary in result.summaries]), *result.config.get("metrics", ())}
    for summary in result.summaries:
        if everything or summary.metric in gates or (summary.metric in wanted and _has_something(summary)):
            table.add_row(*_cells(summary, gates))
    return table


def _has_something(summary: Summary) -> bool:
    """Whether it was asked for, and there is something that it could be about."""
    return summary.value is not None or bool(summary.n_unscored or summary.n_failed)


def _cells(summary: Summary, gates: Mapping[str, Gate]) -> list[str]:
    gate = gates.get(summary.metric)
    low, high = figure(summary.metric, summary.ci_low), figure(summary.metric, summary.ci_high)
    return [
        summary.metric,
        figure(summary.metric, summary.value),
        f"{low} … {high}" if summary.ci_low is not None else "–",
        str(summary.n),
        gate.condition if gate else "",
        "" if gate is None else f"[{COLORS[gate.verdict]}]{gate.verdict}[/]",
        escape(remark(summary)),
    ]


def remark(summary: Summary) -> str:
    """What must be known beside a value: how many are missing from it, the bounds these leave open, its note."""
    parts = []
    if summary.n_unscored and summary.value is not None:
        parts.append(f"{summary.n_unscored} unscored")
    if summary.n_failed:
        parts.append(f"{summary.n_failed} failed")
    if summary.n_missing:
        parts.append(f"{summary.n_missing} of them missing")
    if parts and summary.bound_low is not None:
        parts[-1] += f", {summary.bound_low:.3f} … {summary.bound_high:.3f}"
    return ": ".join(part for part in ("; ".join(parts), summary.note) if part)


def _print_outcome(console: Console, gates: Sequence[Gate]) -> None:
    if not gates:
        console.print("\nNo criteria to meet.")
        return
    if all(gate.passed for gate in gates):
        console.print(f"\n[green]All {len(gates)} criteria are met.[/green]")
    for verdict, said in (("FAIL", "not met"), ("undecided", "undecided")):
        chosen = [gate for gate in gates if gate.verdict == verdict]
        if not chosen:
            continue
        console.print(f"\n[{COLORS[verdict]}]{len(chosen)} of {len(gates)} criteria are {said}:[/]")
        for gate in chosen:
            console.print(
                f"  {gate.metric} {gate.condition}, got {figure(gate.metric, gate.figure)} ({escape(gate.reason)})"
            )

"""The judge in lines of text, for terminal, page and MLflow, and where labels disagree with it."""

from collections.abc import Mapping

from rich.console import Console
from rich.markup import escape

from evals.collect.observations import Unscored
from evals.judge.budget import Usage
from evals.report.model import ClaimEntry, FailedValue, JudgeSection, QueryRow, Report, Verdict
from evals.report.model.judge import CorrectionEntry, Disagreement, JudgeUsage, TierEntry

SHOWN = 3


def judge_lines(judge: JudgeSection) -> list[str]:
    """Return the judge of a run in a few lines: cost, missing verdicts."""
    judges = sum(tier.usage is not None for tier in judge.tiers)
    lines = [] if judges == 1 else [f"{f'{judges} judges' if judges else judge.model}: {spent(judge.usage)}"]
    lines += map(_tier_line, judge.tiers)
    lines += map(_people_line, judge.trust.corrections if judge.trust else ())
    if judge.sample and judges < 2:
        lines.append(
            f"The judged sample is {judge.sample.drawn} of {judge.sample.queries} in-scope queries, drawn at "
            "random (judge.sample, judge.stop); means are corrected by what all have without a judge, as far as it "
            "foretells the judge"
        )
    if judge.incomplete:
        lines.append(f"Not everything was judged: {judge.incomplete}")
    return lines


def print_disagreements(console: Console, report: Report, *, everything: bool) -> None:
    """Print the first disagreements with the judge's reasons; nothing when there is none.

    Args:
        console: Console to print to.
        report: The run.
        everything: Print all of them.
    """
    trust = report.judge.trust if report.judge else None
    if trust is None or trust.agreement is None or not trust.agreement.disagreements:
        return
    rows = disagreements(report)
    shown = rows if everything else rows[:SHOWN]
    rest = "" if len(shown) == len(rows) else f"; the first {len(shown)}, all with --verbose and in the report"
    console.print(
        f"\n[bold]Judge and labels differ[/bold] on {len(rows)} of {trust.agreement.n_verdicts} verdicts: "
        f"errors of the judge, or holes in the labels{rest}"
    )
    for row, source in shown:
        judged, labelled = ("useless", "relevant") if row.label else ("useful", "not relevant")
        console.print(f"  {escape(row.query_id)}  {escape(source)}: labelled {labelled}, judged {judged}")
        console.print(f"    {escape(row.reason)}", style="dim", overflow="ellipsis", no_wrap=True)


def disagreements(report: Report) -> list[tuple[Disagreement, str]]:
    """Return the disagreements, those that tell most first, each with the source of its chunk."""
    trust = report.judge.trust if report.judge else None
    rows = trust.agreement.disagreements if trust and trust.agreement else []
    ids = {row.query_id for row in rows}
    sources = {(row.id, hit.chunk_id): hit.source for row in report.queries if row.id in ids for hit in row.retrieved}
    return [(row, sources.get((row.query_id, row.chunk_id), row.chunk_id)) for row in rows]


def _tier_line(tier: TierEntry) -> str:
    """Return a judge of a cascade, or people: queries, cost, agreement with the next, weight in the last's means."""
    cost = "without cost here" if tier.usage is None else spent(tier.usage)
    text = f"{tier.model}: {tier.queries:,} of {tier.queries_in_all:,} queries, {cost}"
    if tier.agreement is not None:
        kappa = "" if tier.kappa is None else f" (kappa {tier.kappa:.2f})"
        text += f"; says the same as the next on {tier.agreement:.0%} of {tier.verdicts:,} chunks{kappa}"
    if tier.weights:
        text += f"; weight {_weights(tier.weights)}"
    return text


def _people_line(correction: CorrectionEntry) -> str:
    """Return what people would have given all queries, beside what was judged, or why that is not known."""
    mean = correction.corrected
    if mean.value is None:
        return f"{correction.metric} by people: not computable, {mean.note}"
    ends = "" if mean.ci_low is None or mean.ci_high is None else f" ({mean.ci_low:.3f} … {mean.ci_high:.3f})"
    return f"{correction.metric} by people, from {mean.n_queries:,} queries: {mean.value:.3f}{ends}"


def _weights(weights: Mapping[str, float]) -> str:
    return ", ".join(f"{weight:.2f} in {metric}" for metric, weight in weights.items())


def spent(usage: Usage | JudgeUsage) -> str:
    """Return the cost of judging so far, in a few words."""
    parts = [f"{usage.calls:,} calls", f"{usage.hits:,} cached"]
    if usage.failed:
        parts.append(f"{usage.failed:,} failed")
    if usage.unanswered:
        parts.append(f"{usage.unanswered:,} without an answer, of unknown cost")
    parts.append(f"{usage.tokens_in + usage.tokens_out:,} tokens")
    if usage.usd is not None:
        parts.append(f"{usage.usd:.4f} USD")
    return ", ".join(parts)


def verdict_lines(row: QueryRow) -> list[str]:
    """Return the verdicts on a query's returned chunks, a line each, in rank order."""
    return [f"{hit.rank}. {_verdict_text(hit.judge)}" for hit in row.retrieved if hit.judge]


def claim_lines(row: QueryRow) -> list[str]:
    """Return the statements of a query's reference answer, a line each."""
    return [_claim_text(claim) for claim in row.claims]


def cause(value: Verdict | Unscored | FailedValue) -> str:
    """Return the reason why there is no verdict or score; empty where there is one."""
    if isinstance(value, Unscored):
        return value.reason
    return value.failed or (value.unscored if isinstance(value, Verdict) else None) or ""


def _verdict_text(verdict: Verdict) -> str:
    if verdict.verdict is None:
        return f"not judged: {cause(verdict)}"
    return f"{'useful' if verdict.verdict else 'useless'}: {verdict.reason}"


def _claim_text(claim: ClaimEntry) -> str:
    return f"{'supported' if claim.attributed else 'not supported'}: {claim.statement} ({claim.reason})"

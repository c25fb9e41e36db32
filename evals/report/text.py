"""What a report says, as text: figures, remarks, the judge's words, chunks in a line, and the worst queries. Pure."""

import re
from collections.abc import Iterable, Mapping
from heapq import nsmallest
from pathlib import Path
from statistics import fmean
from typing import Any

from evals.collect.observations import SampledMean, Summary, Unscored
from evals.judge.ask.budget import Usage
from evals.judge.verdicts import ChunkVerdict
from evals.metrics import NEED_A_JUDGE, declared
from evals.report.model import Facts, FailedValue, Hit, JudgeSection, QueryRow, TierEntry
from evals.report.section import Cell
from evals.sampling.corrected import FEWEST_REGRESSED
from retrievers.terminal.present import score_text

CACHES = {"embedding": "query vectors", "result": "results", "judge": "verdicts"}
# Queries that a page shows.
WORST = 5
ORDER = {"FAILURE": 0, "PARTIAL_SUCCESS": 1, "UNLABELLED": 2, "SUCCESS": 3}
# A query without labels is among the worst where a judge grades its result below this.
POOR = 0.5
# Path and first line of a source.
PLACE = re.compile(r"(?P<path>[^:]+):(?P<line>\d+)(-\d+)?")


def figure(metric: str, value: float | None) -> str:
    """Return a value rounded as the metric's unit asks for, a dash for none."""
    return "–" if value is None else declared(metric).written(value)


def signed(metric: str, value: float | None) -> str:
    """Return a difference rounded likewise, with its sign."""
    text = figure(metric, value)
    return text if value is None or text.startswith(("-", "–")) else f"+{text}"


def ends(metric: str, low: float | None, high: float | None) -> str:
    """Return the ends of an interval, rounded likewise; a dash for none."""
    return "–" if low is None else f"{figure(metric, low)} … {figure(metric, high)}"


def interval(name: str, metric: Summary) -> str:
    """Return the interval of a metric, rounded for reading."""
    return ends(name, metric.ci_low, metric.ci_high)


def counted(metric: Summary) -> str:
    """Return the number of scored queries; of a sample also how many its mean stands for."""
    return f"{metric.n} of {metric.sampled.queries}" if metric.sampled else str(metric.n)


def has_something(metric: Summary) -> bool:
    """Return True if there is a value, or a query that could have one."""
    return metric.value is not None or bool(metric.n_unscored or metric.n_failed)


def remark(metric: Summary) -> str:
    """Return what must be known beside a value: the counts of missing scores, the bounds these leave, its note."""
    parts = []
    if metric.n_unscored and metric.value is not None:
        parts.append(f"{metric.n_unscored} unscored")
    if metric.n_failed:
        parts.append(f"{metric.n_failed} failed")
    if metric.n_missing:
        parts.append(f"{metric.n_missing} of them missing")
    if metric.sampled:
        parts += _correction(metric, metric.sampled)
    elif parts and metric.bound_low is not None:
        parts[-1] += f", {metric.bound_low:.3f} … {metric.bound_high:.3f}"
    return ": ".join(part for part in ("; ".join(parts), metric.note) if part)


def _correction(metric: Summary, sampled: SampledMean) -> list[str]:
    """Return how the mean of a sample was corrected, what that gained, and what judging all queries would give."""
    own, alone = _width(metric.ci_low, metric.ci_high), _width(sampled.alone_low, sampled.alone_high)
    if metric.n == sampled.queries:
        return ["all its queries were judged"]
    if not sampled.weight:
        few = metric.n < FEWEST_REGRESSED
        why = f"fewer than {FEWEST_REGRESSED} are judged" if few else f"{sampled.proxy} does not foretell the judge"
        parts = [f"mean of the judged queries alone, because {why}"]
    elif own is None or alone is None:
        parts = [f"corrected by {sampled.proxy}, weight {sampled.weight:.2f}"]
    else:
        narrower = f"{1 - own / alone:.0%} narrower than" if own < alone else "no narrower than"
        parts = [
            f"corrected by {sampled.proxy}, weight {sampled.weight:.2f}: interval {own:.3f} wide, {narrower} without "
            f"({alone:.3f})"
        ]
    if metric.bound_low is not None and metric.bound_high is not None:
        parts.append(f"judging all would give {metric.bound_low:.3f} … {metric.bound_high:.3f} (95%)")
    return parts


def _width(low: float | None, high: float | None) -> float | None:
    return None if low is None or high is None else high - low


def searched(facts: Facts) -> str:
    """Return what was searched, in a few words."""
    if facts.collection is None:
        return "a retriever whose chunks cannot be listed"
    return f"{facts.collection.name} ({facts.collection.points:,} chunks)"


def cache_line(caches: Mapping[str, tuple[int, int]]) -> str:
    """Return the hit rates of the caches that were asked; empty where none was."""
    asked = [
        f"{CACHES.get(name, name)} {hits:,} of {lookups:,} ({hits / lookups:.0%})"
        for name, (hits, lookups) in caches.items()
        if lookups
    ]
    return f"From caches: {', '.join(asked)}" if asked else ""


def judge_lines(judge: JudgeSection) -> list[str]:
    """Return the judge of a run in a few lines: cost, missing verdicts."""
    judges = sum(tier.usage is not None for tier in judge.tiers)
    lines = [] if judges == 1 else [f"{f'{judges} judges' if judges else judge.model}: {spent(judge.usage)}"]
    lines += [_tier_line(tier, judge.queries) for tier in judge.tiers]
    lines += judge.by_people
    if judge.drawn is not None and judges < 2:
        lines.append(
            f"The judged sample is {judge.drawn} of {judge.queries} in-scope queries, drawn at "
            "random (judge.sample, judge.stop); means are corrected by what all have without a judge, as far as it "
            "foretells the judge"
        )
    if judge.incomplete:
        lines.append(f"Not everything was judged: {judge.incomplete}")
    return lines


def _tier_line(tier: TierEntry, queries: int) -> str:
    """Return a judge of a cascade, or people: queries, cost, agreement with the next, weight in the last's means."""
    cost = "without cost here" if tier.usage is None else spent(tier.usage)
    text = f"{tier.model}: {tier.queries:,} of {queries:,} queries, {cost}"
    if tier.agreement is not None:
        kappa = "" if tier.kappa is None else f" (kappa {tier.kappa:.2f})"
        text += f"; says the same as the next on {tier.agreement:.0%} of {tier.verdicts:,} chunks{kappa}"
    if tier.weights:
        text += f"; weight {', '.join(f'{weight:.2f} in {metric}' for metric, weight in tier.weights.items())}"
    return text


def spent(usage: Usage) -> str:
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
    return [f"{hit.rank}. {_verdict(hit.judge)}" for hit in row.retrieved if hit.judge]


def claim_lines(row: QueryRow) -> list[str]:
    """Return the statements of a query's reference answer, a line each."""
    return [
        f"{'supported' if claim.attributed else 'not supported'}: {claim.statement} ({claim.reason})"
        for claim in row.claims
    ]


def _verdict(verdict: ChunkVerdict | Unscored | FailedValue) -> str:
    if isinstance(verdict, ChunkVerdict):
        return f"{'useful' if verdict.verdict else 'useless'}: {verdict.reason}"
    return f"not judged: {verdict.failed if isinstance(verdict, FailedValue) else verdict.reason}"


def rank_and_score(hit: Hit, *, scaled: bool = True) -> str:
    """Return rank, score and relevance of a chunk, the beginning of its line."""
    scale = f"{hit.scale} " if scaled and hit.scale not in ("", "unknown", "none") else ""
    return f"{hit.rank}. {scale}{score_text(hit.score)} {'✓' if hit.grade else ' '} "


def hit_cells(hit: Hit, address: str = "") -> list[Cell]:
    """Return a chunk in a line: rank, scale and score, relevance, source, the beginning of its text."""
    return [
        Cell(hit, rank_and_score(hit)),
        Cell(hit.source, link=address, keep=0),
        Cell(hit.preview, f"  {hit.preview.lstrip('# ')}", "dim"),
    ]


def source_link(source: str, config: Mapping[str, Any]) -> str:
    """Return the address of a chunk's first line (`file:///…#L8`); empty where its file is not known.

    Args:
        source: `path:start-end` of the chunk, the path below the folder of the source pages.
        config: The configuration of the run.
    """
    folder = (config.get("sources") or {}).get("dir")
    match = PLACE.fullmatch(source)
    # An address of a site, or a path that leads out of the folder, is no file of it.
    if not folder or match is None or match["path"].startswith("/") or ".." in Path(match["path"]).parts:
        return ""
    return f"{(Path(folder).absolute() / match['path']).as_uri()}#L{match['line']}"


def worst_first(rows: Iterable[QueryRow], most: int) -> list[QueryRow]:
    """Return the worst queries: by outcome, then by how little of the result was right, by its best score, by id.

    Of a query without labels the judge says how much was right.

    Args:
        rows: The queries.
        most: Number of queries, at most.
    """
    return nsmallest(most, rows, key=lambda row: (ORDER[row.outcome], _right(row), -_best_score(row), row.id))


def worst(rows: Iterable[QueryRow], most: int = WORST) -> list[QueryRow]:
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
    """Return the scores that the judge gave."""
    return {name: float(s) for name, s in row.scores.items() if name in NEED_A_JUDGE and isinstance(s, float | int)}


def _best_score(row: QueryRow) -> float:
    return max((hit.score for hit in row.retrieved if hit.score is not None), default=0.0)

"""What a report says, as text: figures, remarks, the judge's words, chunks in a line, and the worst queries. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from heapq import nsmallest
from pathlib import Path
from statistics import fmean
from typing import Any

from evals.collect.observations import SampledMean, Summary
from evals.judge.budget import Usage
from evals.metrics import NEED_A_JUDGE, declared
from evals.report.model import Facts, Hit, JudgeSection, QueryRow
from evals.report.section import Cell
from evals.sampling.corrected import FEWEST_REGRESSED
from retrievers.terminal.present import score_text

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
    return text if text.startswith(("-", "–")) else f"+{text}"


def ends(metric: str, low: float | None, high: float | None) -> str:
    """Return the ends of an interval, rounded likewise; a dash for none."""
    return "–" if low is None else f"{figure(metric, low)} … {figure(metric, high)}"


def counted(metric: Summary) -> str:
    """Return the number of scored queries; of a sample also how many its mean stands for."""
    return f"{metric.n} of {metric.sampled.queries}" if metric.sampled else str(metric.n)


def has_something(metric: Summary) -> bool:
    """Return True if there is a value, or a query that could have one."""
    return metric.value is not None or bool(metric.n_unscored or metric.n_failed)


def remark(metric: Summary) -> str:
    """Return what must be known beside a value: the counts of missing scores, the bounds these leave, its note."""
    unscored = 0 if metric.value is None else metric.n_unscored
    counts = {"unscored": unscored, "failed": metric.n_failed, "of them missing": metric.n_missing}
    parts = [f"{count} {what}" for what, count in counts.items() if count]
    if metric.sampled:
        parts += _correction(metric, metric.sampled)
    elif parts and metric.bound_low is not None:
        parts[-1] += f", {metric.bound_low:.3f} … {metric.bound_high:.3f}"
    return ": ".join(filter(None, ("; ".join(parts), metric.note)))


def _correction(metric: Summary, sampled: SampledMean) -> Iterator[str]:
    """Yield how the mean of a sample was corrected, what that gained, and what judging all queries would give."""
    if metric.n == sampled.queries:
        yield "all its queries were judged"
        return
    if sampled.weight:
        yield f"corrected by {sampled.proxy}, weight {sampled.weight:.2f}{_gain(metric, sampled)}"
    else:
        few = f"fewer than {FEWEST_REGRESSED} are judged" if metric.n < FEWEST_REGRESSED else ""
        yield f"mean of the judged queries alone, because {few or f'{sampled.proxy} does not foretell the judge'}"
    if metric.bound_low is not None:
        yield f"judging all would give {metric.bound_low:.3f} … {metric.bound_high:.3f} (95%)"


def _gain(metric: Summary, sampled: SampledMean) -> str:
    if metric.ci_low is None or metric.ci_high is None or sampled.alone_low is None or sampled.alone_high is None:
        return ""
    own, alone = metric.ci_high - metric.ci_low, sampled.alone_high - sampled.alone_low
    narrower = f"{1 - own / alone:.0%} narrower than" if own < alone else "no narrower than"
    return f": interval {own:.3f} wide, {narrower} without ({alone:.3f})"


def searched(facts: Facts) -> str:
    """Return what was searched, in a few words."""
    found = facts.collection
    return f"{found.name} ({found.points:,} chunks)" if found else "a retriever whose chunks cannot be listed"


def judge_lines(judge: JudgeSection) -> list[str]:
    """Return the judge of a run in a few lines: cost, correction, missing verdicts."""
    missing = [f"Not everything was judged: {judge.incomplete}"] if judge.incomplete else []
    return [*judge.lines, *missing]


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


def hit_cells(hit: Hit, address: str = "") -> list[Cell]:
    """Return a chunk in a line: rank, scale and score, relevance, source, the beginning of its text."""
    beginning = Cell(hit.preview, f"  {hit.preview.lstrip('# ')}", "dim")
    return [Cell(hit, rank_and_score(hit)), Cell(hit.source, link=address, keep=0), beginning]


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
    """Return the worst queries: by outcome, then by how little of the result was right, by its best score, by id."""

    def order(row: QueryRow) -> tuple[int, float, float, str]:
        best = max((hit.score for hit in row.retrieved if hit.score is not None), default=0.0)
        return ORDER[row.outcome], _right(row), -best, row.id

    return nsmallest(most, rows, key=order)


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
    return {name: float(s) for name, s in row.scores.items() if name in NEED_A_JUDGE and isinstance(s, float | int)}

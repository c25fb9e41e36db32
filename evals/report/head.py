"""The run in a sentence, whether it passed, and the next command. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from evals.collect.observations import Gate
from evals.grid.axes import dotted
from evals.grid.measure import Measured, Swept
from evals.metrics import OF_AN_INDEX, declared
from evals.metrics.ranking import ENOUGH
from evals.report.headline import NO_WORSE, deepest
from evals.report.model import Cause, HeadSection, Report
from evals.report.rows import FAILURES
from retrievers.records import UNBOUNDED

# Share of the queries that must pass before a run is called good.
MOST = 0.5
NAMED = (
    ("ranking/hit_rate_at_K", "hit rate"),
    ("ranking/recall_at_K", "recall"),
    ("scope/false_answer", "false answers"),
)
# Besides, where queries have no labels.
JUDGED = (
    ("ragas/llm_context_precision", "context precision"),
    ("ragas/llm_context_recall", "context recall"),
    ("ragas/llm_context_relevance", "context relevance"),
)
PAGE = "--html report.html"
THRESHOLDS = "--sweep.threshold 0:0.6:0.05"
# Main cause of failure to flags of evals.run.
FLAGS: Mapping[Cause, str] = {
    "ranked too low": "--sweep.mode semantic,hybrid --sweep.top-k 3,5,10",
    "not a candidate": "--sweep.mode semantic,keyword,hybrid",
    "too few returned": f"--sweep.top-k 3,5,10 {THRESHOLDS}",
    "cut by the threshold": THRESHOLDS,
    "nothing returned": THRESHOLDS,
    "wrongly answered": THRESHOLDS,
}
# The same where the collection has no keywords to search: a deeper cut is what is left.
WITHOUT_KEYWORDS: Mapping[Cause, str] = {"ranked too low": "--sweep.top-k 3,5,10", "not a candidate": PAGE}


def decided(report: Report) -> Report:
    """Return a report with what its criteria and its gaps come down to: nothing else decides whether a run passed."""
    incomplete = _incomplete(report)
    passed = not incomplete and all(criterion.passed for criterion in report.criteria)
    good = (report.validation.pass_rate or 0) >= MOST
    tone = "bad" if not passed else "good" if good else "mixed"
    line = criteria_line(report.criteria, incomplete)
    head = report.head and report.head.model_copy(update={"tone": tone, "criteria": line})
    return report.model_copy(update={"passed": passed, "incomplete": incomplete, "head": head})


def _incomplete(report: Report) -> str:
    """Return why figures are not those of all queries; empty when all are."""
    changed, grid, ragas = report.facts.collection_changed, report.grid, report.ragas_check
    reasons = (
        f"the collection changed during the run: {changed}" if changed else "",
        report.judge.incomplete if report.judge else "",
        f"the cells are not ranked: {grid.ranking.reason}" if grid and grid.choice is None else "",
        ragas.problem if ragas else "",
    )
    unusable: dict[str, list[str]] = {}
    for name, entry in report.metrics.items():
        if not entry.usable:
            fault = f"{entry.n_failed} of {entry.n + entry.n_failed} failed ({entry.note})"
            unusable.setdefault(fault, []).append(name)
    failed = (f"{', '.join(names)}: {fault}" for fault, names in unusable.items())
    return "; ".join(filter(None, reasons)) or "; ".join(failed)


def head(result: Measured, causes: Iterable[Cause], sparse_vectors: Collection[str] | None = None) -> HeadSection:
    """Return the head of a run, in which nothing is decided yet.

    Args:
        result: The run.
        causes: The cause of every query's verdict.
        sparse_vectors: Names of those of the collection; None where they are not known.
    """
    failed = Counter(cause for cause in causes if cause in FAILURES)
    return HeadSection(
        verdict=_verdict(result, failed),
        tone="bad",
        criteria="",
        index=_index_line(result),
        next_flags=next_flags(result, failed.most_common(1)[0][0] if failed else None, sparse_vectors),
    )


def _index_line(result: Measured) -> str:
    """Return that the index loses near chunks; empty where it does not."""
    means = {name: s.value for s in result.summaries if (name := s.metric) in OF_AN_INDEX and s.value is not None}
    if not any(mean < ENOUGH for mean in means.values()):
        return ""
    exactly = " and ".join(f"{mean:.3f} of the exact {name.rpartition('_')[2]} nearest" for name, mean in means.items())
    return f"The index, not the model, loses near chunks: its search found {exactly}. See docs/search.md."


def criteria_line(criteria: Sequence[Gate], incomplete: str = "") -> str:
    """Return the criteria in a sentence; that all are met is not said of a run that is incomplete."""
    if not criteria and not incomplete:
        return "No criteria to meet."
    baseline = [criterion.verdict == "FAIL" for criterion in criteria if criterion.condition == NO_WORSE]
    own = [not criterion.passed for criterion in criteria if criterion.condition != NO_WORSE]
    parts = [f"Incomplete: {incomplete}."] if incomplete else []
    if any(baseline):
        parts.append(f"Worse than the baseline in {sum(baseline)} of {len(baseline)} metrics.")
    elif baseline and not incomplete:
        parts.append(f"No worse than the baseline in {len(baseline)} metrics.")
    if any(own):
        parts.append(f"{sum(own)} of {len(own)} criteria are not met.")
    elif own and not incomplete:
        parts.append(f"All {len(own)} criteria are met.")
    return " ".join(parts)


def _verdict(result: Measured, failed: Counter[Cause]) -> str:
    validation, values = result.validation, {summary.metric: summary.value for summary in result.summaries}
    figures = [
        f"{label} {declared(name).written(value)}"
        for pattern, label in (*NAMED, *(JUDGED if validation.unlabelled else ()))
        if (value := values.get(name := deepest(pattern, values))) is not None
    ]
    decided = validation.passed + validation.failed
    text = f"{validation.passed} of {decided} queries pass ({validation.pass_rate:.0%})" if decided else ""
    if validation.unlabelled:
        alone = f"the judge alone scores the {validation.unlabelled} queries without labels"
        text = f"{text}; {alone}" if text else f"{alone[0].upper()}{alone[1:]}"
    text = ": ".join(filter(None, (text, ", ".join(figures))))
    if not failed:
        return f"{text}."
    cause, count = failed.most_common(1)[0]
    return f"{text}; main cause of failure: {cause} ({count} of {failed.total()})."


def next_flags(result: Measured, cause: Cause | None, sparse_vectors: Collection[str] | None = None) -> str:
    """Return flags of evals.run for the next run: of a grid its recommended cell, else a grid against the main cause.

    Args:
        result: The run.
        cause: The main cause of failure, None where no query fails.
        sparse_vectors: Names of those of the collection; None where they are not known.
    """
    if result.swept:
        return PAGE if result.swept.chosen is None else _cell(result.swept, result.swept.chosen)
    # The settings of a user's own retriever are not known.
    retriever = result.config.retriever
    if cause is None or retriever.python is not None:
        return PAGE
    flags = FLAGS.get(cause, PAGE)
    if retriever.threshold_scale in UNBOUNDED and THRESHOLDS in flags:
        # Which scores there are without bounds is on the page alone.
        return PAGE
    if sparse_vectors is not None and retriever.keyword.vector_name not in sparse_vectors:
        flags = WITHOUT_KEYWORDS.get(cause, flags)
    if retriever.used_distance != "cosine":
        # Scores of other distances have no bounds, so a fusion that weighs them has no meaning.
        flags = flags.replace("hybrid", "hybrid --retriever.fusion rrf")
    return flags


def _cell(grid: Swept, chosen: int) -> str:
    cell = grid.grid.cell(chosen)
    return " ".join(
        f"--retriever.{dotted(name).replace('_', '-')} {value}"
        for name, value in cell.parameters.items()
        if value is not None
    )

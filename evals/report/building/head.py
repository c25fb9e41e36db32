"""The run in a sentence, and the next command. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from evals.collect.observations import Gate
from evals.grid.axes import dotted
from evals.grid.measure import Measured, Swept
from evals.metrics import OF_AN_INDEX, declared
from evals.metrics.ranking import ENOUGH
from evals.report.causes import FAILURES, Cause
from evals.report.headline import deepest
from evals.report.model import Criterion
from evals.report.model.report import HeadSection
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


def head(
    result: Measured, causes: Iterable[Cause], incomplete: str, sparse_vectors: Collection[str] | None = None
) -> HeadSection:
    """Return the head of a run.

    Args:
        result: The run.
        causes: The cause of every query's verdict.
        incomplete: Reason why figures are over a part of the queries; empty when none is.
        sparse_vectors: Names of those of the collection; None where they are not known.
    """
    failed = Counter(cause for cause in causes if cause in FAILURES)
    met = all(gate.passed for gate in result.gates) and not incomplete
    return HeadSection(
        verdict=_verdict(result, failed),
        tone="bad" if not met else "good" if (result.validation.pass_rate or 0) >= MOST else "mixed",
        criteria=criteria_line(result.gates),
        index=_index_line(result),
        causes=dict(failed.most_common()),
        next_flags=next_flags(result, failed.most_common(1)[0][0] if failed else None, sparse_vectors),
    )


def _index_line(result: Measured) -> str:
    """Return that the index loses near chunks; empty where it does not."""
    means = {name: s.value for s in result.summaries if (name := s.metric) in OF_AN_INDEX and s.value is not None}
    if not any(mean < ENOUGH for mean in means.values()):
        return ""
    exactly = " and ".join(f"{mean:.3f} of the exact {name.rpartition('_')[2]} nearest" for name, mean in means.items())
    return f"The index, not the model, loses near chunks: its search found {exactly}. See docs/index_recall.md."


def criteria_line(criteria: Sequence[Criterion | Gate]) -> str:
    """Return the criteria in a sentence."""
    if not criteria:
        return "No criteria to meet."
    unmet = sum(not criterion.passed for criterion in criteria)
    return f"{unmet} of {len(criteria)} criteria are not met." if unmet else f"All {len(criteria)} criteria are met."


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
    cell, settings = grid.grid.cell(chosen), grid.grid.settings(chosen)
    # A threshold that is none on cosines is one with its distance alone.
    distance = {} if cell.threshold is None or settings.distance is None else {"distance": settings.distance}
    return " ".join(
        f"--retriever.{dotted(name).replace('_', '-')} {value}"
        for name, value in {**cell.parameters, **distance}.items()
        if value is not None
    )

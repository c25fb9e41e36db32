"""The run in a sentence. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from evals.collect.observations import Gate
from evals.metrics import OF_AN_INDEX, declared
from evals.metrics.index import ENOUGH
from evals.metrics.run_result import RunResult
from evals.report.building.next_step import next_flags
from evals.report.causes import FAILURES, Cause
from evals.report.headline import deepest
from evals.report.model import Criterion
from evals.report.model.head import HeadSection

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


def head(
    result: RunResult, causes: Iterable[Cause], incomplete: str, sparse_vectors: Collection[str] | None = None
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
        index=index_line(result),
        causes=dict(failed.most_common()),
        next_flags=next_flags(result, failed.most_common(1)[0][0] if failed else None, sparse_vectors),
    )


def index_line(result: RunResult) -> str:
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


def _verdict(result: RunResult, failed: Counter[Cause]) -> str:
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

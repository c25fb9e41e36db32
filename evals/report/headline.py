"""The metrics that are shown without being asked for; the report has them all. Pure."""

from collections.abc import Collection, Sequence

from evals.metrics import declared

# The metrics that say most about a run, the first ones first; `_at_K` at the deepest that the run has.
LEADING = (
    "ranking/hit_rate_at_K",
    "queries/pass_rate",
    "scope/false_answer",
    "ragas/llm_context_precision",
    "ragas/llm_context_recall",
    "judge/agreement",
    "judge/self_agreement",
    "ranking/ndcg_at_K",
    "ranking/recall_at_K",
    "candidates/ndcg_at_10",
    "ranking/expected_top3_in_5",
    "scope/false_abstention",
    "ragas/id_context_precision",
    "latency/total_p95_ms",
    "scope/auroc",
    "ragas/nonllm_context_precision",
)
MOST = 12
# Condition on a metric that a baseline sets.
NO_WORSE = "no worse"


def leading(measured: Collection[str], wanted: Collection[str], most: int = MOST) -> list[str]:
    """Return the metrics of the first screen in their order: the wanted ones, filled up with the leading ones.

    Args:
        measured: The metrics of the run.
        wanted: Those that have a criterion, or that the experiment names; all are shown.
        most: Number of rows that are filled up.
    """
    shown = dict.fromkeys(name for name in measured if name in wanted)
    for name in (*(deepest(pattern, measured) for pattern in LEADING), *headline(measured)):
        if len(shown) < most and name in measured:
            shown[name] = None
    return [name for name in measured if name in shown]


def leading_first(names: Collection[str], further: Collection[str] = ()) -> list[str]:
    """Return names of metrics: the leading ones, then those of `further`, then the rest."""
    order = dict.fromkeys((*(deepest(pattern, names) for pattern in LEADING), *further, *names))
    return [name for name in order if name in names]


def headline(*measured: Collection[str]) -> list[str]:
    """Return the metrics that a comparison of runs shows, in their order; `_at_K` at the deepest that all runs have.

    Args:
        measured: The metrics of each run.
    """

    def is_shown(name: str) -> bool:
        shown, deep = declared(name).headline, name.rstrip("0123456789") + "K"
        return shown == "always" or (shown == "at the deepest" and name == deepest(deep, *measured))

    return [name for name in dict.fromkeys(name for names in measured for name in names) if is_shown(name)]


def deepest(pattern: str, *measured: Collection[str]) -> str:
    """Return the deepest name for a pattern that ends in `_at_K`, of those that all runs have; others as they are."""
    stem = pattern.removesuffix("K")
    if stem == pattern:
        return pattern
    of_metrics = [{int(name.removeprefix(stem)) for name in names if name.startswith(stem)} for names in measured]
    depths = set.intersection(*of_metrics) or set.union(*of_metrics)
    return f"{stem}{max(depths)}" if depths else pattern


def first_of(patterns: Sequence[str], names: Collection[str]) -> str | None:
    """Return the first of some patterns that a metric has, as that metric's name; None where none has."""
    return next((name for pattern in patterns if (name := deepest(pattern, names)) in names), None)

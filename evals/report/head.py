"""The head of a report: the run in a sentence, whether it passed, the next command, and the main metrics. Pure."""

import fnmatch
from collections import Counter
from collections.abc import Collection, Iterator
from importlib.resources import files
from shlex import quote
from typing import Any, get_args

from evals.collect.observations import Validation
from evals.collect.pool import Pool
from evals.grid.heldout import CHOSEN_ON, HELD_OUT
from evals.grid.measure import Measured, Swept
from evals.grid.objective import FALSE_ABSTENTION
from evals.grid.thresholds import best_scores, beyond, sweep_flag
from evals.metrics import DEPTH, METRICS, NEED_A_JUDGE, declared
from evals.report.model import NO_WORSE, Cause, Report
from evals.stats.abstention import thresholds_along
from evals.stats.intervals import SAME
from retrievers.config import RetrieverConfig

# The metrics that say most about a run, in order of importance. `_at_K` is read at the deepest K of the run.
LEADING = tuple(files("evals.report").joinpath("leading.txt").read_text(encoding="utf-8").split())
# Rows of the first screen.
MOST = 12
FAILURES = frozenset(get_args(Cause)) - {"right", "rightly nothing", "not labelled"}
# Share of queries that must pass for a run to be called good.
PASSING = 0.5
# Metrics in the sentence about a run, with the words for them.
NAMED = {"ranking/hit_rate_at_K": "hit rate", "ranking/recall_at_K": "recall", "scope/false_answer": "false answers"}
# Further ones, if queries have no labels.
JUDGED = {
    "ragas/llm_context_precision": "context precision",
    "ragas/llm_context_recall": "context recall",
    "ragas/llm_context_relevance": "context relevance",
}
PAGE = "--html report.html"


def decided(report: Report) -> Report:
    """Return the report with `passed` and `incomplete` set. Only this function decides whether a run passed."""
    incomplete = "; ".join(_incomplete(report))
    passed = not incomplete and all(criterion.passed for criterion in report.criteria)
    return report.model_copy(update={"passed": passed, "incomplete": incomplete})


def tone(report: Report) -> str:
    """Return the tone of a run. It is no better than `fair` if most queries fail, even if all criteria are met."""
    if not report.passed:
        return "bad"
    return "good" if (report.validation.pass_rate or 0) >= PASSING else "fair"


def _incomplete(report: Report) -> list[str]:
    """Return why figures are not those of all queries: what happened to the run, or else to single metrics."""
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
            note = "" if name.startswith("judge/") else entry.note  # there it says why there is no interval
            fault = f"{entry.n_failed} of {entry.n + entry.n_failed} failed ({note})".removesuffix(" ()")
            unusable.setdefault(fault, []).append(name)
    return [*filter(None, reasons)] or [
        f"{', '.join(names[:5])}{', …' * (len(names) > 5)}: {fault}" for fault, names in unusable.items()
    ]


def conclusion(result: Measured, causes: Counter[Cause]) -> str:
    """Return the run in a sentence: how many queries pass, the main figures, and the main cause of failure."""
    totals = Validation.of(result.validation.outcome)
    values = {summary.metric: summary.value for summary in result.summaries}
    decided, unlabelled = totals.passed + totals.failed, totals.unlabelled
    without = f"{unlabelled} {'query has' if unlabelled == 1 else 'queries have'} no labels" if unlabelled else ""
    figures = ", ".join(
        f"{label} {declared(name).written(value)}"
        for pattern, label in (NAMED | (JUDGED if unlabelled else {})).items()
        if (value := values.get(name := deepest(pattern, values))) is not None
    )
    begun = f"{totals.passed} of {decided} queries pass ({totals.pass_rate:.0%})" if decided else without
    # The figures are of the whole run, and so they do not follow the queries without labels.
    parts = [": ".join(filter(None, (begun, figures))), without if decided else ""]
    parts += [f"main cause of failure: {cause} ({n} of {causes.total()})" for cause, n in causes.most_common(1)]
    return f"{'; '.join(filter(None, parts))}."


def criteria_line(report: Report) -> str:
    """Return the criteria in sentences. For an incomplete run, they do not say that all criteria are met."""
    criteria, incomplete = report.criteria, report.incomplete
    if not criteria and not incomplete:
        return "No criteria to meet."
    worse = [criterion.answer == "FAIL" for criterion in criteria if criterion.condition == NO_WORSE]
    others = [criterion for criterion in criteria if criterion.condition != NO_WORSE]
    counts = Counter(criterion.answer for criterion in others if not criterion.passed)
    parts = [f"Incomplete: {incomplete}."] if incomplete else []
    if any(worse):
        parts.append(f"Worse than the baseline in {sum(worse)} of {len(worse)} metrics.")
    elif worse and not incomplete:
        parts.append(f"Not proved worse than the baseline in {len(worse)} metrics.")
    for answer, count in counts.items():
        state = {"FAIL": "not met"}.get(answer, answer)
        criteria_are = f"criteri{'on' if len(others) == 1 else 'a'} {'is' if count == 1 else 'are'}"
        parts.append(f"{count} of {len(others)} {criteria_are} {state}.")
    if others and not counts and not incomplete and not any(worse):
        named = ", ".join(f"{criterion.metric} {criterion.condition}" for criterion in others)
        parts.append(f"Met: {named}." if len(others) < 3 else f"All {len(others)} criteria are met.")
    return " ".join(parts)


def next_flags(result: Measured, cause: Cause | None, sparse_vectors: Collection[str] | None = None) -> str:
    """Return flags of a useful next run: after a grid its recommended cell, else a grid if a query fails.

    The grid is over mode, top_k and, where they can be weighed against wrong answers or cut too much, thresholds along
    the best scores. A grid after a run on the split `test`, or on all, is measured on `dev` if there are both, so
    that `test` has no part in the choice. A judge, which is paid for each cell, is left out if the choice reads none of
    its metrics; else the price of the grid is told first.

    The recommended cell is exported, and measured again on held-out queries if there are any; if its threshold has a
    promise, the same grid exports it. If a grid's thresholds
    end below the best scores, and a level of wrong answers lacks a cell, thresholds up to these are swept; and so they
    are if no cell answers a query in scope.

    Args:
        result: The run.
        cause: Main cause of failure; None if no query failed.
        sparse_vectors: Names of the sparse vectors of the collection; None if they are not known.
    """
    data = result.config.dataset
    if result.swept:  # if the cells are not ranked, the user must first mend why
        return "" if result.swept.chosen is None else " ".join(_after_grid(result, result.swept, result.swept.chosen))
    if result.judging and result.judging.incomplete:
        return ""  # the same command judges the rest
    flags = list(_grid(result, sparse_vectors)) if cause else []
    if flags and data.split in (None, HELD_OUT) and {CHOSEN_ON, HELD_OUT} <= {*result.splits} and not data.ids:
        flags.insert(0, f"--dataset.split {CHOSEN_ON}")
    return " ".join(flags) or PAGE


def _grid(result: Measured, sparse_vectors: Collection[str] | None) -> Iterator[str]:
    """Yield the flags of a grid; none without a query in scope, or for a retriever of the user's without scores."""
    retriever, scopes = result.config.retriever, {one.case.in_scope for one in result.observed.observations}
    has_modes = retriever.python is None or "mode" in retriever.model_fields_set  # that of an own store, once open
    is_unscored = not has_modes and retriever.threshold is None
    # A grid would take another threshold than the one that has a promise.
    if is_unscored or True not in scopes or result.config.threshold.false_answer is not None:
        return
    # Thresholds on a score of one mode say nothing of another mode.
    is_of_all_modes = retriever.threshold_on != "final" and retriever.threshold_signal in ("cosine", "rerank")
    has_words = retriever.mode != "semantic" or retriever.keyword.vector_name in (sparse_vectors or ())
    if has_modes and is_of_all_modes and (sparse_vectors is None or (sparse_vectors and has_words)):
        yield f"--sweep.mode {'keyword' if retriever.mode == 'keyword' else 'semantic'},hybrid"
    objective = result.config.objective
    deciding = {*objective.metrics, *objective.constraints, *result.config.criteria}
    # Without labels the objective is a judged one.
    has_labels = any(one.case.in_scope and not one.case.is_unlabelled for one in result.observed.observations)
    is_judged = result.judging and (not NEED_A_JUDGE.isdisjoint(deciding) or not has_labels)
    depth = min(max(10 if is_judged else 20, retriever.top_k), retriever.candidates)
    yield f"--sweep.top-k {f'3,5,{depth}' if is_judged and depth > 5 else f'1:{depth}'}"
    along = _along_scores(result.results.lists.pool, 0, retriever)
    if along and (False in scopes or retriever.threshold is not None):
        if has_modes and retriever.threshold_on == "each":
            yield "--sweep.threshold-on each,best"
        yield along
    if is_judged:
        yield "--plan"
    elif result.judging:
        of_others, named = METRICS.keys() - NEED_A_JUDGE, result.config.metrics
        others = [name for name in named if fnmatch.filter(of_others, name) or not fnmatch.filter(NEED_A_JUDGE, name)]
        yield "--judge.model null"
        if result.config.judge.second.model:
            yield "--judge.second.model null --judge.second.sample all"
        if len(others) < len(named):
            yield f"--metrics {quote(','.join(others) or '*')}"


def _after_grid(result: Measured, swept: Swept, chosen: int) -> Iterator[str]:
    """Yield the flags of what follows a grid, of which a cell is recommended."""
    config, grid, cell = result.config, swept.grid, swept.grid.cell(chosen)
    data, has_promise = config.dataset, config.threshold.false_answer is not None
    is_silent = grid.metrics[FALSE_ABSTENTION].mean >= 1 - SAME
    # Under a promise the same grid exports its choice: for one cell alone the threshold would be another one.
    further, again = "", dict(grid.plan.axes) if has_promise else dict[str, tuple[Any, ...]]()
    if is_silent[swept.ranking.allowed].all() and not has_promise:
        further = _along_scores(grid.pool, cell.variant, grid.variants[cell.variant].settings)
        if is_silent.all() and further:  # no cell is better than another, so that the other axes are swept again
            again = {name: values for name, values in grid.plan.axes.items() if name != "threshold"}
    elif "threshold" in grid.plan.axes and swept.decision and None in [level.cell for level in swept.decision.levels]:
        highest = float(grid.threshold_of.max())  # if constraints exclude it, a stricter one does not help
        further = beyond(swept.signals, highest) if swept.ranking.allowed[grid.threshold_of == highest].any() else ""
    # A spent budget leaves no figure on held-out queries, though there are some.
    has_unseen = swept.held_out or config.objective.held_out or (data.split == CHOSEN_ON and HELD_OUT in result.splits)
    is_held_out = has_unseen and data.split and not (data.ids or further or has_promise)
    if is_held_out:  # scores of queries that chose the cell are too high
        yield f"--dataset.split {config.objective.held_out or HELD_OUT}"
    # The command names a retriever by `python` already. Naming it anew would replace its other settings.
    left_out = {"python", *again, *(["threshold"] if further or has_promise else [])}
    parameters = {**grid.variants[cell.variant].parameters, "top_k": cell.top_k, "threshold": cell.threshold}
    for name, value in parameters.items():
        if value is not None and name not in left_out:
            yield f"--retriever.{name.replace('_', '-')} {value}"
    # Judging in rounds needs a grid, and a second judge of all queries needs rounds.
    if config.judge.stop.margin is not None:
        yield "--judge.stop.margin null"
    if config.judge.second.model is not None and config.judge.second.sample == "all":
        yield "--judge.second.sample auto"
    if is_held_out and data.limit is not None:
        yield "--dataset.limit null"
    is_exported = not (config.retriever.python or is_silent[swept.ranking.allowed].all() or further)
    for name, values in again.items():
        yield f"--sweep.{name.replace('_', '-')} {','.join(map(str, values))}"
    if further:
        yield further
    if is_exported:
        yield "--export retriever.yaml"


def _along_scores(pool: Pool, number: int, settings: RetrieverConfig) -> str:
    """Return the flag that sweeps the threshold along the best scores of the queries; empty without scores."""
    inside, outside = best_scores(pool, number, settings)
    return sweep_flag(thresholds_along([score for score in (*inside, *outside) if score]))


def leading(measured: Collection[str], wanted: Collection[str], most: int = MOST) -> list[str]:
    """Return the metrics of the first screen, in the order of `measured`: all wanted ones, then the leading ones.

    Args:
        measured: The metrics of the run.
        wanted: Metrics that have a criterion, or that the experiment names.
        most: Number of rows that the leading metrics fill up.
    """
    always = [name for name in measured if name in wanted]
    shown = [*dict.fromkeys((*always, *ranked(headline(measured))))][: max(most, len(always))]
    return [name for name in measured if name in shown]


def ranked(names: Collection[str], further: Collection[str] = ()) -> list[str]:
    """Return names of metrics by importance.

    First come those of `LEADING` at the deepest K, then `further`, then those of `LEADING` at another K, then the rest.
    """
    at_other_depths = (name for name in names if DEPTH.sub("_at_K", name) in LEADING)
    order = dict.fromkeys((*(deepest(pattern, names) for pattern in LEADING), *further, *at_other_depths, *names))
    return [name for name in order if name in names]


def headline(*measured: Collection[str]) -> list[str]:
    """Return the metrics that a comparison of runs shows, in their order. `_at_K` is at the deepest K of all runs.

    Args:
        measured: The metrics of each run.
    """

    def is_shown(name: str) -> bool:
        when, pattern = declared(name).headline, name.rstrip("0123456789") + "K"
        return when == "always" or (when == "at the deepest" and name == deepest(pattern, *measured))

    return [name for name in dict.fromkeys(name for names in measured for name in names) if is_shown(name)]


def deepest(pattern: str, *measured: Collection[str]) -> str:
    """Return the name for a pattern `…_at_K` with the deepest K that all runs have, or else that any run has.

    Any other pattern is returned as it is, and so is one that no run has.

    Args:
        pattern: Name of a metric, or such a pattern.
        measured: The metrics of each run.
    """
    if (stem := pattern.removesuffix("K")) == pattern:
        return pattern
    ends = ({name.removeprefix(stem) for name in names if name.startswith(stem)} for names in measured)
    of_runs = [{int(end) for end in of_run if end.isdecimal()} for of_run in ends]
    depths = set.intersection(*of_runs) or set.union(*of_runs)
    return f"{stem}{max(depths)}" if depths else pattern

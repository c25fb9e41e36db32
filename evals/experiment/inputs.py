"""The inputs of an experiment: checked settings, golden queries that some metric can score, and the baseline."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from evals.cases.reading import GoldenSet, golden_set, load_golden
from evals.cases.relevance import UNLISTED
from evals.comparison.mismatches import some
from evals.config.experiment import ExperimentConfig
from evals.errors import DatasetError, ExperimentError
from evals.experiment.baseline import open_baseline
from evals.grid.axes import Plan, plan
from evals.grid.decision import with_utility
from evals.grid.heldout import load_held_out
from evals.grid.measure import metrics_of
from evals.judge.tasks import JUDGED, PRECISION
from evals.metrics import NEED_A_JUDGE, declared, metric_named
from evals.metrics.llm import can_be_judged
from evals.report.model import Report
from retrievers.config import RetrieverConfig

if TYPE_CHECKING:
    from evals.collect.saved import SavedPool

# Objectives of a grid that names none: the first that can score the queries. If none can, a judge's precision is taken.
OBJECTIVES = ("ranking/ndcg_at_10", "ranking/mrr_at_10")
EXAMPLE = "cohere:command-a-03-2025"
TO_LABEL = "label them (python -m evals.golden label) or write labelled ones (python -m evals.golden synthesize)"


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """A checked experiment with its golden queries.

    Attributes:
        config: The experiment.
        golden: The golden queries.
        sweep: The plan of the grid; None for a single run.
        held_out: Golden queries on which the chosen cell of the grid is measured again; None without them.
        baseline: Report of the run that no metric may be worse than; None without a baseline.
        saved: The saved retrieval that the experiment starts from; None if it searches.
    """

    config: ExperimentConfig
    golden: GoldenSet
    sweep: Plan | None
    held_out: GoldenSet | None
    baseline: Report | None
    saved: "SavedPool | None" = None

    @property
    def settings(self) -> Sequence[RetrieverConfig]:
        """The settings of the retriever; for a sweep, those of each variant."""
        return [variant.settings for variant in self.sweep.variants] if self.sweep else [self.config.retriever]

    @property
    def splits(self) -> Sequence[GoldenSet]:
        """The golden queries, and the held-out ones if there are any."""
        return [self.golden, *filter(None, [self.held_out])]

    def searched_by(self, retriever: RetrieverConfig) -> "Inputs":
        """Return the experiment with other settings of its retriever, and the sweep that is planned for them."""
        config = self.config.model_copy(update={"retriever": retriever})
        return replace(self, config=config, sweep=plan(retriever, config.sweep) if self.sweep else None)


def load_inputs(config: ExperimentConfig, golden: GoldenSet | None = None) -> Inputs:
    """Check the metrics and the sweep, and read the golden queries and the baseline.

    Args:
        config: The experiment.
        golden: Golden queries in place of those that the experiment names. Its split, ids and limit choose among them.

    Raises:
        ExperimentError: A metric, a criterion, a sweep or its objective cannot be computed.
        DatasetError: The golden data have faults, or no query in scope that anything can score. Faults are all listed.
        ReportError: The baseline cannot be read, or has other golden data.
    """
    sweep = plan(config.retriever, config.sweep) if config.sweep.axes else None
    metrics = metrics_of(config, sweep)
    is_judged = sweep and config.judge.model and not NEED_A_JUDGE.isdisjoint(config.objective.metrics)
    if config.judge.stop.margin is not None and not is_judged:
        raise ExperimentError(
            "judge.stop.margin: expected a sweep whose objective a judge scores, for example --sweep.top-k 1:10 "
            f"--judge.model {EXAMPLE} --objective.metrics {PRECISION}"
        )
    load = partial(golden_set, golden) if golden else load_golden
    golden = load(config.dataset)
    held_out = load_held_out(config, golden, load) if sweep else None
    baseline = open_baseline(config.baseline, golden) if config.baseline else None
    inputs = Inputs(config=config, golden=golden, sweep=sweep, held_out=held_out, baseline=baseline)
    for queries in inputs.splits:
        _check_scored(queries, [name for name in metrics if name in JUDGED], judged=config.judge.model is not None)
    return inputs


def _check_scored(golden: GoldenSet, graded: Sequence[str], *, judged: bool) -> None:
    """Make sure that some query in scope can be scored: by its labels, or by a judge that grades some metric."""
    cases = [case for case in golden.cases if case.in_scope]
    if not cases or any(case.is_labelled or any(can_be_judged(g, case) for g in graded) for case in cases):
        return
    lacks = f"no metric such as {PRECISION} is asked for" if judged else f"there is no judge (--judge.model {EXAMPLE})"
    if graded:
        lacks = f"none has the reference_answer that {', '.join(graded)} needs"
    raise DatasetError(
        f"none of the {len(cases):,} in-scope cases has labels (evidence or relevant_ids of a grade above 0), and "
        f"{lacks}: {some([golden.places.get(case.id, case.id) for case in cases])}; add that, or {TO_LABEL}"
    )


def with_objective(inputs: Inputs, *, listed: bool) -> Inputs:
    """Return the inputs with an objective that can score the golden queries.

    An experiment that names no objective gets the first default that can. If it sweeps thresholds, and the data have
    queries of both kinds, the objective weighs wrong answers as well.

    Args:
        inputs: The experiment.
        listed: True if the chunks of the retriever can be listed.

    Raises:
        ExperimentError: The objective can score no query. The message names one that can.
    """
    config, sweep, golden = inputs.config, inputs.sweep, inputs.golden
    if sweep is None:
        return inputs
    objective = config.objective
    unusable = [(name, lacking) for name in objective.metrics if (lacking := _lacking(name, golden, listed))]
    if unusable:
        name, lacking = unusable[0]
        others = (*OBJECTIVES, PRECISION) if config.judge.model else OBJECTIVES
        usable = next((other for other in others if not _lacking(other, golden, listed)), "")
        fault = f"objective: {name} compares cells by {lacking}"
        if not usable or "metrics" in objective.model_fields_set:
            raise ExperimentError(f"{fault}; name one that can, such as --objective.metrics {usable or PRECISION}")
        objective = objective.model_copy(update={"metrics": {usable: 1.0}})
        sweep = replace(sweep, notes=(*sweep.notes, f"{fault}: they are compared by {usable}"))
    objective = with_utility(objective, sweep.variants[0].thresholds, golden.cases)
    return replace(inputs, config=config.model_copy(update={"objective": objective}), sweep=sweep)


def _lacking(metric: str, golden: GoldenSet, listed: bool) -> str:
    """Return what a metric needs and no query has, as the end of a sentence; empty if it can score a query."""
    if "labels" not in declared(metric).needs or not any(case.in_scope for case in golden.cases):
        return ""
    labelled = [case for case in golden.cases if case.is_labelled]
    if not labelled:
        return "labels, and no query has any"
    by_all = not listed and getattr(metric_named(metric), "all_relevant", False)
    return f"all relevant chunks, and {UNLISTED}" if by_all and all(case.relevant_evidence for case in labelled) else ""

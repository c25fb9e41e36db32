"""The inputs of an experiment: settings checked in full, golden queries that something can score, the baseline."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evals.cases.reading import GoldenSet, case_fingerprint, load_golden
from evals.cases.relevance import UNLISTED
from evals.comparison.mismatches import some
from evals.comparison.records import Run
from evals.config.experiment import ExperimentConfig
from evals.errors import DatasetError, ExperimentError, ReportError
from evals.grid.axes import Plan, plan
from evals.grid.decision import with_utility
from evals.grid.heldout import load_held_out
from evals.grid.measure import grid_metrics
from evals.judge.tasks import JUDGED, PRECISION, RELEVANCE
from evals.metrics import NEED_A_JUDGE, OWN, VERDICT_METRIC, choose, declared, metric_named, reach
from evals.metrics import criteria as gates
from evals.metrics.llm import can_be_judged
from evals.tracking.find import open_run

# Cases that are named.
SHOWN = 3
# What compares the cells of a grid that names no objective: the first that can; where there is a judge, what it says.
OBJECTIVES = ("ranking/ndcg_at_10", "ranking/mrr_at_10")
EXAMPLE = "cohere:command-a-03-2025"
TO_LABEL = (
    "label the queries: let people judge what a retriever finds (python -m evals.golden label FILE --config "
    "EXPERIMENT), add the passages that answer them, or have labelled queries written from your pages (python -m "
    "evals.golden synthesize)"
)


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """A checked experiment with its golden queries.

    Attributes:
        sweep: The grid that it asks for, None for a single run.
        reference: The experiment that this one is shown beside, None without one.
        baseline: The run against which nothing may be worse, None without one.
        held_out: The golden queries on which the chosen cell of the grid is measured again, None without any.
    """

    config: ExperimentConfig
    golden: GoldenSet
    sweep: Plan | None
    held_out: GoldenSet | None
    reference: ExperimentConfig | None = None
    baseline: Run | None = None


def load_inputs(config: ExperimentConfig, golden: GoldenSet | None = None) -> Inputs:
    """Check the names of metrics and the sweep, and read the golden queries.

    Args:
        config: The experiment.
        golden: Golden queries in place of those that the experiment names.

    Raises:
        ExperimentError: A metric, a criterion, a sweep or its objective cannot be computed.
        DatasetError: The golden data have faults; every one is listed.
        ReportError: The baseline cannot be read, or is of other golden data.
    """
    _check_metrics(config)
    sweep = _sweep(config)
    # Of other golden data than its own the experiment has neither.
    reference = None if golden else config.referenced
    baseline = None if golden else config.baseline
    golden, held_out = golden or load_golden(config.dataset), load_held_out(config) if sweep else None
    for queries in filter(None, (golden, held_out)):
        check_scored(config, queries)
    inputs = Inputs(
        config=config,
        golden=golden,
        sweep=sweep,
        held_out=held_out,
        reference=reference,
        baseline=open_baseline(baseline, golden) if baseline else None,
    )
    return with_objective(inputs, listed=True)


def _check_metrics(config: ExperimentConfig) -> None:
    judged = config.judge.model is not None
    length = reach(config.retriever, config.sweep.top_k, config.sweep.candidates)
    choose(config.metrics, config.latency.concurrency, judged=judged, reach=length)
    every = choose(["*"], config.latency.concurrency, judged=True, approximate=True)
    gates.check_names(config.criteria, [*every, *OWN, VERDICT_METRIC])
    choose([*config.criteria], config.latency.concurrency, judged=judged)
    if config.judge.stop.margin is not None:
        _check_stop(config)


def _check_stop(config: ExperimentConfig) -> None:
    """Make sure that cells are compared by what a judge says.

    Raises:
        ExperimentError: There is no sweep, no judge, or no judged metric in the objective.
    """
    optimised = ", ".join(config.objective.metrics)
    if not config.sweep.axes:
        raise ExperimentError(
            "judge.stop.margin: expected a sweep, whose cells are compared until one is proved near the best; got a "
            "single run, of which judge.sample judges a part of the queries"
        )
    if config.judge.model is None:
        raise ExperimentError(
            "judge.stop.margin: expected a judge, and there is none; name one, for example "
            "--judge.model cohere:command-a-03-2025"
        )
    if NEED_A_JUDGE.isdisjoint(config.objective.metrics):
        raise ExperimentError(
            f"judge.stop.margin: expected a judged metric in the objective, got {optimised}; for example "
            f"--objective.metrics {PRECISION}"
        )


def _sweep(config: ExperimentConfig) -> Plan | None:
    if not config.sweep.axes:
        return None
    grid_metrics(config)
    return plan(config.retriever, config.sweep)


def check_scored(config: ExperimentConfig, golden: GoldenSet) -> None:
    """Make sure that labels or a judge can score the results of every query in scope.

    Args:
        config: The experiment, its metrics checked.
        golden: Its golden queries.

    Raises:
        DatasetError: A query has no labels, and there is no judge, or no metric that a judge can grade of it; every
            such query is listed.
    """
    unlabelled = [case for case in golden.cases if case.is_unlabelled]
    if not unlabelled:
        return
    swept = config.objective.metrics if config.sweep.axes else ()
    chosen = choose(
        [*config.metrics, *config.criteria, *swept],
        config.latency.concurrency,
        judged=config.judge.model is not None,
    )
    graded = [name for name in chosen if name in JUDGED]
    unscored = [case for case in unlabelled if not any(can_be_judged(name, case) for name in graded)]
    if unscored:
        places = [golden.places.get(case.id, case.id) for case in unscored]
        more = f" and {len(places) - SHOWN:,} more" if len(places) > SHOWN else ""
        raise DatasetError(
            f"{len(unscored):,} of {sum(case.in_scope for case in golden.cases):,} in-scope cases have no labels "
            f"(evidence or relevant_ids of a grade above 0): {', '.join(places[:SHOWN])}{more}; "
            f"{_remedy(config, graded)}, or {TO_LABEL}"
        )


def with_objective(inputs: Inputs, *, listed: bool) -> Inputs:
    """Return an experiment whose objective can score its queries: of a grid that names none, the first that can.

    Args:
        inputs: The experiment.
        listed: True if the chunks of the retriever can be listed, or nothing is known of it yet.

    Raises:
        ExperimentError: The objective scores no query; one that does is named.
    """
    config, sweep = inputs.config, inputs.sweep
    idle = {name: why for name in config.objective.metrics if (why := _idle(name, inputs.golden, listed))}
    if sweep is None or not idle:
        return inputs
    name, why = next(iter(idle.items()))
    judged = [PRECISION] if config.judge.model else []
    able = next(each for each in (*OBJECTIVES, *judged, "") if not _idle(each, inputs.golden, listed))
    said = f"objective: {name} compares cells by {why}"
    if not able or "metrics" in config.objective.model_fields_set:
        example = able or PRECISION
        raise ExperimentError(f"{said}; expected a metric that can, for example --objective.metrics {example}")
    objective = config.objective.model_copy(update={"metrics": {able: 1.0}})
    return replace(
        inputs,
        config=config.model_copy(update={"objective": objective}),
        sweep=replace(sweep, notes=(*sweep.notes, f"{said}: they are compared by {able}")),
    )


def with_both_sides(inputs: Inputs) -> Inputs:
    """Return an experiment whose choice weighs wrong answers, where it sweeps thresholds and its data can tell."""
    config, sweep = inputs.config, inputs.sweep
    if sweep is None:
        return inputs
    objective = with_utility(config.objective, sweep.thresholds, inputs.golden.cases)
    return replace(inputs, config=config.model_copy(update={"objective": objective}))


def _idle(metric: str, golden: GoldenSet, listed: bool) -> str:
    """Return why a metric can score no query, as the end of a sentence; empty where it can."""
    if "labels" not in declared(metric).needs or not any(case.in_scope for case in golden.cases):
        return ""
    labelled = [case for case in golden.cases if case.is_labelled]
    if not labelled:
        return "labels, and no query has any"
    by_all = getattr(metric_named(metric), "all_relevant", False)
    unknown = by_all and not listed and all(case.relevant_evidence for case in labelled)
    return f"all relevant chunks, and {UNLISTED}" if unknown else ""


def _remedy(config: ExperimentConfig, graded: Sequence[str]) -> str:
    """Return what would let a judge score queries without labels."""
    if config.judge.model is None:
        return f"only a judge can score them, and there is none: name one (--judge.model {EXAMPLE})"
    if not graded:
        return f"only the judge can score them, and no metric of the run is one that it grades: add {PRECISION}"
    return (
        f"nor have they a reference_answer, which {', '.join(graded)} cannot do without: write one, or add {RELEVANCE} "
        "to the metrics"
    )


def open_baseline(file: Path, golden: GoldenSet) -> Run:
    """Read the baseline, restricted to the queries of a run.

    Args:
        file: A report.
        golden: The golden queries of the run, of which each must be in the baseline as it is.

    Raises:
        ReportError: It cannot be read, or lacks queries of the run.
    """
    if not file.name:
        raise ReportError(f"baseline: expected the path of a report of evals.run, got {str(file)!r}")
    run = open_run(str(file.with_suffix(file.suffix or ".json")), None, "")
    by_id = {row.id: row for row in run.report.queries}
    prints = {case.id: case_fingerprint(case) for case in golden.cases}
    other = [key for key, print_ in prints.items() if key not in by_id or by_id[key].fingerprint != print_]
    if other:
        raise ReportError(
            f"baseline {file}: expected a report of the golden data of this run ({golden.name}), got one of "
            f"{run.report.facts.dataset} that lacks {len(other)} of the {len(prints)} queries as they are now "
            f"({some(other)}); make it again from this data, or leave baseline out"
        )
    rows = [by_id[case.id] for case in golden.cases]
    facts = run.report.facts.model_copy(update={"dataset_fingerprint": golden.fingerprint})
    return replace(run, report=run.report.model_copy(update={"queries": rows, "facts": facts}))

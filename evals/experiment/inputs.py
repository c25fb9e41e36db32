"""The inputs of an experiment: settings checked in full, golden queries that something can score, the baseline."""

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
from evals.judge.tasks import JUDGED, PRECISION
from evals.metrics import NEED_A_JUDGE, OWN, VERDICT_METRIC, choose, declared, metric_named, reach
from evals.metrics import criteria as gates
from evals.metrics.llm import can_be_judged
from evals.tracking.find import open_run

# Cases that are named in an error.
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
    sweep = None
    if config.sweep.axes:
        grid_metrics(config)
        sweep = plan(config.retriever, config.sweep)
    # Of other golden data than its own the experiment has neither.
    reference, baseline = (None, None) if golden else (config.referenced, config.baseline)
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
    judged, concurrency, optimised = (
        config.judge.model is not None,
        config.latency.concurrency,
        config.objective.metrics,
    )
    length = reach(config.retriever, config.sweep.top_k, config.sweep.candidates)
    choose(config.metrics, concurrency, judged=judged, reach=length)
    every = choose(["*"], concurrency, judged=True)
    gates.check_names(config.criteria, [*every, *OWN, VERDICT_METRIC])
    choose([*config.criteria], concurrency, judged=judged)
    is_judged = judged and not NEED_A_JUDGE.isdisjoint(optimised)
    if config.judge.stop.margin is not None and not (config.sweep.axes and is_judged):
        raise ExperimentError(
            "judge.stop.margin: expected a sweep whose objective a judge scores, for example --sweep.top-k 1:10 "
            f"--judge.model {EXAMPLE} --objective.metrics {PRECISION}; got "
            f"{'a sweep' if config.sweep.axes else 'a single run'} by {', '.join(optimised)}, judge.model "
            f"{config.judge.model!r}"
        )


def check_scored(config: ExperimentConfig, golden: GoldenSet) -> None:
    """Make sure that labels or a judge can score the results of every query in scope.

    Args:
        config: The experiment, its metrics checked.
        golden: Its golden queries.

    Raises:
        DatasetError: A query has no labels, and there is no judge, or no metric that a judge can grade of it.
    """
    unlabelled = [case for case in golden.cases if case.is_unlabelled]
    if not unlabelled:
        return
    judged, swept = config.judge.model is not None, config.objective.metrics if config.sweep.axes else ()
    chosen = choose([*config.metrics, *config.criteria, *swept], config.latency.concurrency, judged=judged)
    graded = [name for name in chosen if name in JUDGED]
    unscored = [case for case in unlabelled if not any(can_be_judged(name, case) for name in graded)]
    if unscored:
        places = [golden.places.get(case.id, case.id) for case in unscored]
        more = f" and {len(places) - SHOWN:,} more" if len(places) > SHOWN else ""
        lacks = f"nor the reference_answer that {', '.join(graded)} needs"
        if not judged:
            lacks = f"and there is no judge to score them (--judge.model {EXAMPLE})"
        elif not graded:
            lacks = f"nor has the run a metric such as {PRECISION}"
        raise DatasetError(
            f"{len(unscored):,} of {sum(case.in_scope for case in golden.cases):,} in-scope cases have no labels "
            f"(evidence or relevant_ids of a grade above 0), {lacks}: {', '.join(places[:SHOWN])}{more}; add that, or "
            f"{TO_LABEL}"
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

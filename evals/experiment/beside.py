"""What a run is shown beside: its reference, measured on the same queries, and the baseline as criteria."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from evals.collect.observations import Gate
from evals.collect.pool import ground
from evals.comparison.comparing import ComparisonOptions, compare, moved
from evals.comparison.records import Comparison, Difference, Moved, Run
from evals.experiment.facts import gather
from evals.experiment.inputs import Inputs
from evals.grid.measure import measure
from evals.metrics import choose, declared, reach
from evals.metrics.collaborators import Collaborators
from evals.report.build import build_report
from evals.report.head import LEADING, NO_WORSE, decided, first_of, headline
from evals.report.model import ComparedSection, DifferenceEntry, FlipEntry, Report

# Needs of metrics that are not measured for the reference.
OF_THE_RUN_ALONE = {"latency", "determinism", "index", "judge", "judge usage"}
# Chunks of a result that a report keeps of the other run, and queries.
KEPT_HITS, MOST_FLIPS = 3, 20
# A metric that tells more of a query than whether it was answered.
GRADED = "ranking/ndcg_at_K"


def measured_reference(inputs: Inputs, bench: Collaborators) -> Report | None:
    """Return the report of the reference, which is measured now; None without one, and where the judge alone scores.

    Raises:
        RetrievalError: A search failed, or the evidence does not resolve in the reference's collection.
    """
    config, retriever = inputs.reference, bench.reference
    if config is None or retriever is None:
        return None
    shown = headline(choose(inputs.config.metrics, (1,), judged=True, reach=reach(config.retriever)))
    names = tuple(name for name in shown if declared(name).needs.isdisjoint(OF_THE_RUN_ALONE))
    if not names:
        return None
    own = config.model_copy(update={"metrics": names})
    grounds = ground(inputs.golden, retriever, bench.sources)
    result = measure(own, inputs.golden, grounds, replace(bench, retrievers=[retriever], judge=None))
    return build_report(result, gather(own, inputs.golden, retriever))


def set_beside(report: Report, reference: Report | None, baseline: Run | None) -> Report:
    """Return a report with what it is shown beside.

    Args:
        report: The run.
        reference: The report of the same queries under the settings that it is shown beside.
        baseline: The run against which no headline metric may be proved worse.

    Raises:
        ReportError: The runs must not be compared.
    """
    if reference:
        report = _with(report, "reference", _compared(Run.of(reference), report, [*reference.metrics]))
    if baseline:
        names = [name for name in report.headline if name in baseline.report.metrics]
        against = _compared(baseline, report, names)
        gates = _no_worse(against, undecided=bool(report.facts.collection_changed))
        report = _with(report, "baseline", against).model_copy(update={"criteria": (*report.criteria, *gates)})
    return decided(report)


def _compared(baseline: Run, report: Report, metrics: Sequence[str]) -> Comparison:
    [comparison] = compare(baseline, [Run.of(report)], ComparisonOptions(metrics=tuple(metrics)))
    return comparison


def _with(report: Report, name: str, comparison: Comparison) -> Report:
    """Return the report with a comparison, and the chunks that this names."""
    section = _section(comparison)
    others = {hit.chunk_id: hit.chunk for flip in section.flipped for hit in flip.retrieved}
    return report.model_copy(update={name: section, "chunks": {**others, **report.chunks}})


def _no_worse(comparison: Comparison, *, undecided: bool) -> Iterator[Gate]:
    """Yield a criterion for each metric compared: it fails where it is proved worse, by Holm's adjustment over all."""
    for each in comparison.differences:
        if not each.n or each.better == "neither":
            continue
        worse = each.verdict == "worse"
        reason = "the collection changed during the run" if undecided else ""
        if worse and each.baseline is not None:
            reason = f"proved worse than {each.baseline:.3f} of the baseline, p {each.p_adjusted:.4f} by Holm"
        yield Gate(
            metric=each.metric,
            condition=NO_WORSE,
            figure=each.other,
            passed=not worse and not undecided,
            reason=reason,
            undecided=undecided,
        )


def _section(comparison: Comparison) -> ComparedSection:
    """Return a comparison as a part of the report of its other run."""
    run, facts = comparison.baseline, comparison.baseline.report.facts
    paired = {each.metric: each for each in comparison.differences if each.n}
    leading, graded = first_of(LEADING, paired), first_of((GRADED, *LEADING), paired)
    moves = moved(comparison.pairing, [graded]) if graded else []
    return ComparedSection(
        name=Path(run.origin).name if run.origin.endswith(".json") else run.name,
        settings=run.report.settings,
        started_at=facts.started_at,
        commit=facts.commit,
        differences=tuple(DifferenceEntry.of(each) for each in comparison.differences if each.difference is not None),
        flipped=_flips(moved(comparison.pairing, [leading]), paired[leading]) if leading else [],
        by_query={graded: {move.other.id: move.after - move.before for move in moves}} if graded else {},
    )


def _flips(moves: Sequence[Moved], difference: Difference) -> list[FlipEntry]:
    """Return the queries that moved by a metric, those in the direction of the mean first."""
    better = difference.wins >= difference.losses

    def order(move: Moved) -> tuple[bool, bool, float]:
        # A query with two results shows more than one that returned nothing.
        is_empty = not (move.baseline.retrieved and move.other.retrieved)
        return (move.gain > 0) != better, is_empty, -abs(move.gain)

    return [
        FlipEntry.of(
            {name: getattr(move, name) for name in ("metric", "before", "after")}
            | {"id": move.baseline.id, "retrieved": move.baseline.retrieved[:KEPT_HITS]}
        )
        for move in sorted(moves, key=order)[:MOST_FLIPS]
    ]

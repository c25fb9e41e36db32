"""The baseline of an experiment: a committed report, against which no headline metric may be proved worse."""

from dataclasses import replace
from pathlib import Path

from evals.cases.reading import GoldenSet, case_fingerprint
from evals.collect.observations import Gate
from evals.errors import ReportError
from evals.report.building.compared import compared_section
from evals.report.building.head import decided
from evals.report.comparison.comparing import ComparisonOptions, compare
from evals.report.comparison.differences import verdict
from evals.report.comparison.mismatches import some
from evals.report.comparison.records import Difference, Run
from evals.report.headline import NO_WORSE
from evals.report.model import Criterion, Report
from evals.tracking.find import open_run, run_of


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


def against_baseline(report: Report, baseline: Run) -> Report:
    """Return the report with its comparison with the baseline, and a criterion for each headline metric compared.

    A metric fails where it is proved worse: paired by query, by Holm's adjustment over all of them.
    """
    own = run_of(report)
    names = [name for name in report.headline if name in baseline.report.metrics]
    [comparison] = compare(baseline, [own], ComparisonOptions(metrics=tuple(names)))
    tested = [
        difference for difference in comparison.differences if difference.paired and difference.better != "neither"
    ]
    gates = [_gate(difference, undecided=bool(report.facts.collection_changed)) for difference in tested]
    criteria = [*report.criteria, *(Criterion.of(gate) for gate in gates)]
    return decided(report.model_copy(update={"baseline": compared_section(comparison), "criteria": criteria}))


def _gate(difference: Difference, *, undecided: bool) -> Gate:
    worse = verdict(difference) == "worse"
    reason = ""
    if worse and difference.baseline is not None:
        reason = f"proved worse than {difference.baseline:.3f} of the baseline, p {difference.p_adjusted:.4f} by Holm"
    elif undecided:
        reason = "the collection changed during the run"
    return Gate(
        metric=difference.metric,
        condition=NO_WORSE,
        figure=difference.other,
        passed=not worse and not undecided,
        reason=reason,
        undecided=undecided,
    )

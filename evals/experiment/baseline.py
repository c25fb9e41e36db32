"""The baseline of an experiment: a committed report, against which no headline metric may be proved worse."""

from dataclasses import replace
from pathlib import Path

from evals.errors import ReportError
from evals.golden.loading import GoldenSet, case_fingerprint
from evals.report.comparison.mismatches import some
from evals.report.comparison.records import Run
from evals.tracking.find import open_run


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

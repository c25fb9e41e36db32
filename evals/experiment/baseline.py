"""The baseline of a run: an earlier report of the same queries. No headline metric may be proved worse than in it."""

import re
from collections.abc import Iterator
from pathlib import Path

from evals.cases.reading import GoldenSet, case_fingerprint
from evals.collect.observations import Gate
from evals.comparison.comparing import compare
from evals.comparison.differences import deepened
from evals.comparison.mismatches import line, some
from evals.comparison.records import Run, written_p
from evals.comparison.sections import Comparison
from evals.config.experiment import ExperimentConfig
from evals.errors import ReportError
from evals.report.head import decided, deepest
from evals.report.model import NO_WORSE, ComparedSection, DifferenceEntry, Report
from evals.tracking.store import read_report


def open_baseline(file: Path, golden: GoldenSet) -> Report:
    """Read the baseline, and keep the queries of a run.

    Args:
        file: A report.
        golden: The golden queries of the run. The baseline must have each of them, unchanged.

    Raises:
        ReportError: The report cannot be read, or lacks queries of the run.
    """
    report, _ = read_report(file)
    by_id = {row.id: row for row in report.queries}
    lacking = [c.id for c in golden.cases if c.id not in by_id or by_id[c.id].fingerprint != case_fingerprint(c)]
    if lacking:
        raise ReportError(
            f"baseline {file}: expected a report of the golden data of this run ({golden.name}), got one of "
            f"{report.facts.dataset} that lacks {len(lacking)} of the {len(golden.cases)} queries as they are now "
            f"({some(lacking)}); make it again from this data, or leave it out (--baseline null)"
        )
    facts = report.facts.model_copy(update={"dataset_fingerprint": golden.fingerprint})
    kept, gone = [by_id[case.id] for case in golden.cases], len(by_id) - len(golden.cases)
    # What was noted of its run is of no use here.
    notes = [f"{gone} of the {len(by_id)} queries of the baseline are not in this run"] if gone else []
    return report.model_copy(update={"queries": kept, "facts": facts, "notes": notes})


def against_baseline(report: Report, baseline: Report | None, config: ExperimentConfig) -> Report:
    """Compare a report with its baseline, and add a criterion for each headline metric of either run.

    A headline metric `_at_K` is compared at the depths of both runs.

    Args:
        report: The run.
        baseline: Report of the baseline. If there is none, the report notes whether one was left out.
        config: The experiment. It names the file of the baseline.

    Raises:
        ReportError: The runs must not be compared.
    """
    if baseline is None or config.baseline is None:
        return report.model_copy(update={"notes": [*report.notes, *config.left_out.values()]})
    runs = [run.metrics for run in deepened([baseline, report])]
    deep = (deepest(re.sub(r"(?<=_at_)\d+$", "K", name), runs[0] | runs[1]) for name in report.headline)
    headline = dict.fromkeys((*report.headline, *baseline.headline, *deep))
    names = tuple(name for name in headline if any(run[name].value is not None for run in runs if name in run))
    [comparison] = compare(Run.of(baseline), [Run.of(report)], metrics=names)
    facts = baseline.facts
    section = ComparedSection(
        about=f"{config.baseline.name}: {baseline.settings}, measured on {facts.started_at}, commit {facts.commit}.",
        differences=tuple(DifferenceEntry.of(d) for d in comparison.differences if d.difference is not None),
    )
    gates = _gates(comparison, undecided=bool(report.facts.collection_changed))
    further = {"criteria": (*report.criteria, *gates), "notes": [*report.notes, *baseline.notes, *_notes(comparison)]}
    return decided(report.model_copy(update={"baseline": section, **further}))


def _notes(comparison: Comparison) -> Iterator[str]:
    """Yield the facts besides the retrieval that may change figures, and the metrics that could not be compared."""
    yield from (f"not as in the baseline: {line(mismatch)}" for mismatch in comparison.mismatches if mismatch.meaning)
    missing = [entry for entry in comparison.differences if entry.difference is None]
    for reason in sorted({entry.note for entry in missing}):
        names = [entry.metric for entry in missing if entry.note == reason]
        yield f"not compared with the baseline: {', '.join(names)} ({reason.replace('the other run', 'this run')})"


def _gates(comparison: Comparison, *, undecided: bool) -> Iterator[Gate]:
    """Yield a criterion for each compared metric. It fails if the metric is proved worse, by Holm over all metrics."""
    for diff in comparison.differences:
        if not diff.n or diff.better == "neither":
            continue
        is_worse = diff.verdict == "worse"
        reason = "the collection changed during the run" if undecided else ""
        if is_worse and diff.baseline is not None and diff.p_adjusted is not None:
            reason = f"proved worse than {diff.baseline:.3f} of the baseline, p {written_p(diff.p_adjusted)} by Holm"
            reason += f"; {diff.note}" if diff.note else ""
        passed = not is_worse and not undecided
        yield Gate(
            metric=diff.metric,
            condition=NO_WORSE,
            figure=diff.other,
            passed=passed,
            reason=reason,
            undecided=undecided,
        )

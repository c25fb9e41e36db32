"""The baseline of a run: an earlier report of the same queries, and the criterion that nothing is worse than in it."""

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
from evals.errors import ReportError
from evals.report.head import NO_WORSE, decided, deepest
from evals.report.model import ComparedSection, DifferenceEntry, Report
from evals.tracking.store import read_report


def open_baseline(file: Path, golden: GoldenSet) -> Report:
    """Read the baseline, restricted to the queries of a run.

    Args:
        file: A report.
        golden: The golden queries of the run, of which each must be in the baseline as it is.

    Raises:
        ReportError: It cannot be read, or lacks queries of the run.
    """
    report, _ = read_report(file)
    by_id = {row.id: row for row in report.queries}
    other = [c.id for c in golden.cases if c.id not in by_id or by_id[c.id].fingerprint != case_fingerprint(c)]
    if other:
        raise ReportError(
            f"baseline {file}: expected a report of the golden data of this run ({golden.name}), got one of "
            f"{report.facts.dataset} that lacks {len(other)} of the {len(golden.cases)} queries as they are now "
            f"({some(other)}); make it again from this data, or leave it out (--baseline null)"
        )
    facts = report.facts.model_copy(update={"dataset_fingerprint": golden.fingerprint})
    return report.model_copy(update={"queries": [by_id[case.id] for case in golden.cases], "facts": facts})


def against_baseline(report: Report, baseline: Report | None, file: Path | None) -> Report:
    """Return a report beside its baseline, with a criterion for each headline metric of either, `_at_K` at both depths.

    Args:
        report: The run.
        baseline: The run against which no headline metric may be proved worse; without one the report stays as it is.
        file: The baseline's file, whose name it has in the report.

    Raises:
        ReportError: The runs must not be compared.
    """
    if baseline is None or file is None:
        return report
    runs = [run.metrics for run in deepened([baseline, report])]
    deep = (deepest(re.sub(r"(?<=_at_)\d+$", "K", name), runs[0] | runs[1]) for name in report.headline)
    headline = dict.fromkeys((*report.headline, *baseline.headline, *deep))
    names = tuple(name for name in headline if any(run[name].value is not None for run in runs if name in run))
    [comparison] = compare(Run.of(baseline), [Run.of(report)], metrics=names)
    facts = baseline.facts
    section = ComparedSection(
        about=f"{file.name}: {baseline.settings}, measured on {facts.started_at}, commit {facts.commit}.",
        differences=tuple(DifferenceEntry.of(each) for each in comparison.differences if each.difference is not None),
    )
    gates = _no_worse(comparison, undecided=bool(report.facts.collection_changed))
    further = {"criteria": (*report.criteria, *gates), "notes": [*report.notes, *_notes(comparison)]}
    return decided(report.model_copy(update={"baseline": section, **further}))


def _notes(comparison: Comparison) -> Iterator[str]:
    """Yield what figures may differ by besides the retrieval, and the metrics that could not be compared."""
    yield from (f"not as in the baseline: {line(each)}" for each in comparison.mismatches if each.meaning)
    reasons = {each.note for each in comparison.differences if each.difference is None}
    for reason in sorted(reasons):
        names = [each.metric for each in comparison.differences if each.difference is None and each.note == reason]
        yield f"not compared with the baseline: {', '.join(names)} ({reason.replace('the other run', 'this run')})"


def _no_worse(comparison: Comparison, *, undecided: bool) -> Iterator[Gate]:
    """Yield a criterion for each metric compared: it fails where it is proved worse, by Holm's adjustment over all."""
    for each in comparison.differences:
        if not each.n or each.better == "neither":
            continue
        worse, reason = each.verdict == "worse", "the collection changed during the run" if undecided else ""
        if worse and each.baseline is not None and each.p_adjusted is not None:
            reason = f"proved worse than {each.baseline:.3f} of the baseline, p {written_p(each.p_adjusted)} by Holm"
        passed = not worse and not undecided
        yield Gate(
            metric=each.metric, condition=NO_WORSE, figure=each.other, passed=passed, reason=reason, undecided=undecided
        )

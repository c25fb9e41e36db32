"""Which queries two runs have in common. Pure."""

from evals.report.comparison.records import Pairing
from evals.report.schema import Report


def pair(baseline: Report, other: Report) -> Pairing:
    """Match the queries of two runs by id; those that are the same in both are paired, in the baseline's order.

    With another golden dataset a query is the same when all of its case is that a score can depend on.
    """
    same = baseline.facts.dataset_fingerprint == other.facts.dataset_fingerprint
    theirs = {row.id: row for row in other.queries}
    shared = [(row, theirs[row.id]) for row in baseline.queries if row.id in theirs]
    paired = [(a, b) for a, b in shared if same or (a.fingerprint and a.fingerprint == b.fingerprint)]
    kept = {a.id for a, _ in paired}
    ours = {row.id for row in baseline.queries}
    return Pairing(
        rows=tuple(paired),
        only_baseline=tuple(row.id for row in baseline.queries if row.id not in theirs),
        only_other=tuple(row.id for row in other.queries if row.id not in ours),
        changed=tuple(a.id for a, _ in shared if a.id not in kept),
    )

"""The queries that two runs have in common. Pure."""

from evals.report.comparison.records import Pairing
from evals.report.model import Report


def pair(baseline: Report, other: Report) -> Pairing:
    """Match the queries of two runs by id; those that are the same in both are paired, in the baseline's order.

    With another golden dataset a query is the same when all of its case is that a score can depend on.
    """
    same = baseline.facts.dataset_fingerprint == other.facts.dataset_fingerprint
    mine, theirs = list(baseline.queries), {row.id: row for row in other.queries}
    shared = [(row, theirs[row.id]) for row in mine if row.id in theirs]
    paired = [(a, b) for a, b in shared if same or (a.fingerprint and a.fingerprint == b.fingerprint)]
    ids = {a.id for a, _ in paired}
    ours = {row.id for row in mine}
    return Pairing(
        rows=tuple(paired),
        only_baseline=tuple(row.id for row in mine if row.id not in theirs),
        only_other=tuple(query_id for query_id in theirs if query_id not in ours),
        changed=tuple(a.id for a, _ in shared if a.id not in ids),
    )

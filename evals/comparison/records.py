"""Records of a comparison of two runs. All frozen."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

from evals.metrics.declaration import Direction
from evals.report.model import DifferenceEntry, QueryRow, Report
from evals.stats.paired import ALPHA

# `lost` and `gained`: the query passed in the baseline alone, or in the other run alone. Else only its score changed.
Kind = Literal["lost", "gained", "worse", "better"]


def written_p(p: float | None) -> str:
    """Return a p value as it is shown: to four digits, never as 0; a dash for none."""
    return "–" if p is None else "<0.0001" if p < 0.0001 else f"{p:.4f}"


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run to compare.

    Attributes:
        reference: Reference that the user gave.
        origin: Source of the report: a file, or an MLflow run with its id.
        name: Name of the run in MLflow, or else in its report. Runs of one experiment have different names.
        report: Report of the run.
        run_id: Id of the run in MLflow; None for the report of a file.
    """

    reference: str
    origin: str
    name: str
    report: Report
    run_id: str | None = None

    @classmethod
    def of(cls, report: Report, **place: Any) -> Self:
        """Return the run of a report. `place` are the fields that say where it was read; without, it is not saved."""
        name = report.run or report.name
        return cls(report=report, **{"reference": name, "origin": "this program", "name": name} | place)


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """The queries of two runs: the rows of queries that are the same in both, and the ids of all other queries."""

    rows: tuple[tuple[QueryRow, QueryRow], ...]
    only_baseline: tuple[str, ...] = ()
    only_other: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    @property
    def left(self) -> int:
        """Number of queries that are left out, since they are not the same in both runs."""
        return len(self.only_baseline) + len(self.only_other) + len(self.changed)


class Difference(DifferenceEntry):
    """A metric in two runs as a report shows it, with what the difference rests on. Scores are paired by query.

    Attributes:
        better: Direction in which the metric is better.
        n: Number of queries scored in both runs; 0 for a statistic of the whole run.
        p: p value that agrees with the interval.
        p_adjusted: p value adjusted by Holm over all differences that are tested together.
        only_baseline: Ids of queries scored in the baseline only.
        only_other: Ids of queries scored in the other run only.
        failed: Ids of queries whose score failed in at least one of the runs.
        worst: Difference if every failed score were as bad for the other run as the metric allows. None if no score
            failed, or if the metric has no worst value.
        note: Reason for a missing difference, interval or p value.
    """

    better: Direction
    n: int = 0
    p: float | None = None
    p_adjusted: float | None = None
    only_baseline: tuple[str, ...] = ()
    only_other: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    worst: float | None = None
    note: str = ""

    def adjusted(self, p: float) -> Self:
        """Return the difference with its adjusted p value, and the verdict that follows: `better`, `worse` or none."""
        verdict = ""
        if p < ALPHA and self.difference and self.better != "neither":
            verdict = "better" if (self.difference > 0) == (self.better == "higher") else "worse"
        return self.model_copy(update={"p_adjusted": p, "verdict": verdict})


class Change(NamedTuple):
    """A setting or a fact in which two runs differ: its name, both values (None if not set), and what it means."""

    what: str
    baseline: Any
    other: Any
    meaning: str = ""


class Moved(NamedTuple):
    """A query that is lost or gained, or whose score by a metric changed. A negative `gain` is a worse score."""

    kind: Kind
    metric: str
    gain: float
    before: float
    after: float
    baseline: QueryRow
    other: QueryRow


class Regression(NamedTuple):
    """A tolerated drop of a metric, and whether the other run stays within it.

    Attributes:
        metric: Name of the metric.
        tolerance: Largest drop that is no regression.
        drop: How much worse the other run is; negative if it is better. If scores failed, this is the worst case.
        passed: True if the drop is known and within the tolerance.
        reason: Reason in words.
    """

    metric: str
    tolerance: float
    drop: float | None
    passed: bool
    reason: str

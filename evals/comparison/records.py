"""Records of a comparison of two runs. All frozen."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

from evals.metrics.declaration import Direction
from evals.report.model import DifferenceEntry, QueryRow, Report

# Of a query: it passed in the baseline alone, in the other run alone, or nothing but its score changed.
Kind = Literal["lost", "gained", "worse", "better"]
# Largest adjusted p value of a difference that is proved.
LEVEL = 0.05
# Columns of a comparison that a notebook or a prompt prints.
COLUMNS = 100


def written_p(p: float | None) -> str:
    """Return a p value as it is shown: to four digits, never as 0; a dash for none."""
    return "–" if p is None else "<0.0001" if p < 0.0001 else f"{p:.4f}"


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run to compare.

    Attributes:
        reference: Reference that the user gave.
        origin: Source of its report: a file, or an MLflow run with its id.
        name: MLflow's name of the run, or else that in its report, which tells two runs of an experiment apart.
        report: Its report.
        run_id: Its id in MLflow; None for the report of a file.
    """

    reference: str
    origin: str
    name: str
    report: Report
    run_id: str | None = None

    @classmethod
    def of(cls, report: Report, **place: Any) -> Self:
        """Return the run of a report, which was not saved unless `place` says from where it was read."""
        name = report.run or report.name
        return cls(report=report, **{"reference": name, "origin": "this program", "name": name} | place)


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """The queries of two runs: those that are the same in both, and the ids of the others."""

    rows: tuple[tuple[QueryRow, QueryRow], ...]
    only_baseline: tuple[str, ...] = ()
    only_other: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    @property
    def left(self) -> int:
        """Number of queries that are not the same in both."""
        return len(self.only_baseline) + len(self.only_other) + len(self.changed)


class Difference(DifferenceEntry):
    """A metric in two runs as a report shows it, and what that rests on; paired by query where it scores queries.

    Attributes:
        better: Which way is better.
        n: Queries scored in both; 0 for a statistic of the whole run.
        p: p value that agrees with the interval.
        p_adjusted: p value adjusted by Holm over all that was tested at once.
        only_baseline: Ids of queries scored in the baseline only.
        only_other: Ids of queries scored in the other only.
        failed: Ids of queries whose score failed in one of the runs.
        worst: Difference if every failed score had come out as badly for the other run as it can; None: none failed,
            or the metric's range has no such end.
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
        """Return the difference with its adjusted p value, by which it is `better`, `worse` or neither."""
        verdict = ""
        if p < LEVEL and self.difference and self.better != "neither":
            verdict = "better" if (self.difference > 0) == (self.better == "higher") else "worse"
        return self.model_copy(update={"p_adjusted": p, "verdict": verdict})


class Change(NamedTuple):
    """A setting, or a fact of a run, in which two runs differ, and what follows; None where it is not set."""

    what: str
    baseline: Any
    other: Any
    meaning: str = ""


class Moved(NamedTuple):
    """A query that is lost or gained, or whose score by a metric changed, by `gain`: negative where it got worse."""

    kind: Kind
    metric: str
    gain: float
    before: float
    after: float
    baseline: QueryRow
    other: QueryRow


class Regression(NamedTuple):
    """A tolerated drop and whether the other run stays within it.

    Attributes:
        metric: Name of the metric.
        tolerance: Largest drop that is no regression.
        drop: Drop of the other run, the worst case where scores failed; negative when it is better.
        passed: True if the drop is known and within the tolerance.
        reason: Reason, in words.
    """

    metric: str
    tolerance: float
    drop: float | None
    passed: bool
    reason: str


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison:
    """A run against the baseline; `moved` holds the queries that are lost, that are gained, then the others."""

    baseline: Run
    other: Run
    pairing: Pairing
    mismatches: Sequence[Change]
    changes: Sequence[Change]
    differences: Sequence[Difference] = ()
    moved: Sequence[Moved] = ()
    regressions: Sequence[Regression] = ()

    def __repr__(self) -> str:
        """Head and table, as the command shows them."""
        from evals.comparison.sections import render_head

        return render_head(self, width=COLUMNS, color=False).rstrip("\n")

    def _repr_html_(self) -> str:
        """The same for a notebook."""
        from evals.comparison.sections import render_head
        from evals.report.section import in_html

        return in_html(render_head(self, width=COLUMNS, color=True))

"""What a comparison of two runs deals in. All frozen."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from evals.report.schema import QueryRow, Report
from evals.stats.paired import Paired

Grade = Literal["forbids", "known"]
"""`forbids`: scores of the two runs must not be compared. `known`: they may be, by a reader who knows of it."""
Direction = Literal["higher", "lower", "neither"]


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run to compare.

    Attributes:
        reference: What the user called it by.
        origin: Where its report is: a file, or an MLflow run with its id.
        name: MLflow's name of the run, or else that of its experiment.
        digest: SHA-256 of the report, by which the same run given twice is noticed.
    """

    reference: str
    origin: str
    name: str
    report: Report
    digest: str


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """The queries of two runs: those that are the same in both, and the ids of the others."""

    rows: tuple[tuple[QueryRow, QueryRow], ...]
    only_baseline: tuple[str, ...] = ()
    only_other: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every query is in both runs, and the same."""
        return not (self.only_baseline or self.only_other or self.changed)


@dataclass(frozen=True, kw_only=True, slots=True)
class Mismatch:
    """Something in which two runs differ besides their settings, and what follows."""

    what: str
    grade: Grade
    baseline: str
    other: str
    meaning: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class SettingChange:
    """A setting with its value in either run; None where it is not set."""

    setting: str
    baseline: Any
    other: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """A metric in two runs.

    Attributes:
        better: Which way is better.
        baseline: Mean over the queries scored in both, or a statistic of the whole run; `other` likewise.
        paired: The paired comparison, None for a statistic of the whole run and where nothing is scored in both.
        p_adjusted: By Holm over all that was tested at once.
        only_baseline: Ids of queries scored in the baseline only; `only_other`, in the other only.
        failed: Ids of queries whose score failed in one of the runs.
        worst: Difference if every failed score had come out as badly for the other run as it can; None: none failed.
        note: Why there is no difference, no interval or no p value.
    """

    metric: str
    better: Direction
    baseline: float | None = None
    other: float | None = None
    paired: Paired | None = None
    p_adjusted: float | None = None
    only_baseline: tuple[str, ...] = ()
    only_other: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    worst: float | None = None
    note: str = ""

    @property
    def difference(self) -> float | None:
        """The other run's value less the baseline's."""
        return None if self.baseline is None or self.other is None else self.other - self.baseline

    @property
    def wins(self) -> int:
        """Queries on which the other run is better."""
        return 0 if self.paired is None else self.paired.falls if self.better == "lower" else self.paired.rises

    @property
    def losses(self) -> int:
        """Queries on which the other run is worse."""
        return 0 if self.paired is None else self.paired.rises if self.better == "lower" else self.paired.falls


@dataclass(frozen=True, kw_only=True, slots=True)
class Moved:
    """A query whose score changed.

    Attributes:
        metric: By which it moved.
        gain: By how much it got better; negative when it got worse.
    """

    metric: str
    gain: float
    before: float
    after: float
    baseline: QueryRow
    other: QueryRow


@dataclass(frozen=True, kw_only=True, slots=True)
class Regression:
    """A tolerated drop and whether the other run stays within it.

    Attributes:
        drop: By how much the other run is worse, the worst case where scores failed; negative when it is better.
        certain: Whether the 95% interval of the difference excludes 0; None when there is none.
        reason: In words.
    """

    metric: str
    tolerance: float
    drop: float | None
    passed: bool
    certain: bool | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A run against the baseline.

    Attributes:
        moved: Every query that moved, most first.
        restricted: Whether only a part of the queries is compared (`--common`).
    """

    baseline: Run
    other: Run
    pairing: Pairing
    mismatches: Sequence[Mismatch]
    changes: Sequence[SettingChange]
    restricted: bool
    differences: Sequence[Difference] = ()
    moved: Sequence[Moved] = ()
    regressions: Sequence[Regression] = ()

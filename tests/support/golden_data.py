"""Golden data read as a run reads it, and the order in which a judge is asked about it."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evals import Golden
from evals.cases.case import Case
from evals.cases.reading import golden_set
from evals.sampling import order as sampling


def load(path: Path) -> Golden:
    """Return the golden data of a file."""
    return golden_set(path)


def judging_order(rows: Iterable[Mapping[str, Any] | Case], seed: int) -> Sequence[str]:
    """Return the ids of the in-scope cases in the order in which a judge is asked about them."""
    return sampling.judging_order((Case.model_validate(row) for row in rows), seed)

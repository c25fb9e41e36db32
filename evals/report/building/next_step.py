"""The run that may say how to mend what fails. Pure."""

from collections.abc import Mapping

from evals.grid.evaluation import GridResult
from evals.metrics.run_result import RunResult
from evals.report.causes import Cause

PAGE = "--html report.html"
THRESHOLDS = "--sweep.threshold 0:0.6:0.05"
# Main cause of failure to flags of evals.run.
FLAGS: Mapping[Cause, str] = {
    "ranked too low": "--sweep.mode semantic,hybrid --sweep.top-k 3,5,10",
    "not a candidate": "--sweep.mode semantic,keyword,hybrid",
    "too few returned": f"--sweep.top-k 3,5,10 {THRESHOLDS}",
    "cut by the threshold": THRESHOLDS,
    "nothing returned": THRESHOLDS,
    "wrongly answered": THRESHOLDS,
}


def next_flags(result: RunResult, cause: Cause | None) -> str:
    """Return flags of evals.run for the next run: of a grid its recommended cell, else a grid against the main cause.

    Args:
        result: The run.
        cause: The main cause of failure, None where no query fails.
    """
    if isinstance(result, GridResult):
        return PAGE if result.chosen is None else _cell(result, result.chosen)
    # The settings of a user's own retriever are not known.
    if cause is None or result.config.retriever.python is not None:
        return PAGE
    return FLAGS.get(cause, PAGE)


def _cell(grid: GridResult, chosen: int) -> str:
    cell = grid.grid.cell(chosen)
    return " ".join(
        f"--retriever.{name.replace('_', '-')} {value}" for name, value in cell.parameters.items() if value is not None
    )

"""The run that may say how to mend what fails. Pure."""

from collections.abc import Collection, Mapping

from evals.grid.axes import dotted
from evals.grid.evaluation import GridResult
from evals.metrics.run_result import RunResult
from evals.report.causes import Cause
from retrievers.records import UNBOUNDED

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
# The same where the collection has no keywords to search: a deeper cut is what is left.
WITHOUT_KEYWORDS: Mapping[Cause, str] = {"ranked too low": "--sweep.top-k 3,5,10", "not a candidate": PAGE}


def next_flags(result: RunResult, cause: Cause | None, sparse_vectors: Collection[str] | None = None) -> str:
    """Return flags of evals.run for the next run: of a grid its recommended cell, else a grid against the main cause.

    Args:
        result: The run.
        cause: The main cause of failure, None where no query fails.
        sparse_vectors: Names of those of the collection; None where they are not known.
    """
    if isinstance(result, GridResult):
        return PAGE if result.chosen is None else _cell(result, result.chosen)
    # The settings of a user's own retriever are not known.
    retriever = result.config.retriever
    if cause is None or retriever.python is not None:
        return PAGE
    flags = FLAGS.get(cause, PAGE)
    if retriever.threshold_scale in UNBOUNDED and THRESHOLDS in flags:
        # Which scores there are without bounds is on the page alone.
        return PAGE
    if sparse_vectors is not None and retriever.keyword.vector_name not in sparse_vectors:
        flags = WITHOUT_KEYWORDS.get(cause, flags)
    if retriever.used_distance != "cosine":
        # Scores of other distances have no bounds, so a fusion that weighs them has no meaning.
        flags = flags.replace("hybrid", "hybrid --retriever.fusion rrf")
    return flags


def _cell(grid: GridResult, chosen: int) -> str:
    cell, settings = grid.grid.cell(chosen), grid.grid.settings(chosen)
    # A threshold that is none on cosines is one with its distance alone.
    distance = {} if cell.threshold is None or settings.distance is None else {"distance": settings.distance}
    return " ".join(
        f"--retriever.{dotted(name).replace('_', '-')} {value}"
        for name, value in {**cell.parameters, **distance}.items()
        if value is not None
    )

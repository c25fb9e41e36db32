"""What an experiment came to."""

from dataclasses import dataclass

from evals.experiment.output_files import Outputs
from evals.grid.evaluation import GridResult
from evals.metrics.run_result import RunResult


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What an experiment came to, and where it is kept.

    Attributes:
        result: The run; of a grid that of the cell it comes down to.
        outputs: The files that it is written to.
        grid: The grid, None for a single run.
        untracked: Why MLflow has not got all of it; empty where it has, or was not to.
    """

    result: RunResult
    outputs: Outputs
    grid: GridResult | None = None
    untracked: str = ""

    @property
    def incomplete(self) -> str:
        """Why something is missing; empty when nothing is."""
        unranked = ""
        if self.grid and self.grid.choice is None:
            unranked = f"the cells are not ranked: {self.grid.ranking.reason}"
        return self.untracked or "; ".join(filter(None, (self.result.incomplete, unranked))) or self.failures

    @property
    def failures(self) -> str:
        """The first metric of which too many scores failed, and how many; empty when there is none."""
        for summary in self.result.summaries:
            if not summary.usable:
                return f"{summary.metric}: {summary.n_failed} of {summary.n + summary.n_failed} failed ({summary.note})"
        return ""

"""Times of the stages of single searches."""

from typing import TYPE_CHECKING

from evals.grid.measure import Measured
from evals.metrics.timing import STAGES, stage_values
from evals.report.figures.canvas import LINE_WIDTH, ORANGE, canvas

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def latency_by_stage(result: Measured) -> "Figure | None":
    """Draw box plots of the stages' times at each concurrency; whiskers from p5 to p95."""
    boxes = [
        (f"{stage}\n×{timed.concurrency}", stage_values(timed, stage))
        for timed in result.observed.latency
        for stage in STAGES
        if stage_values(timed, stage)
    ]
    if not boxes:
        return None
    figure, axes = canvas()
    axes.boxplot(
        [values for _, values in boxes],
        tick_labels=[label for label, _ in boxes],
        whis=(5, 95),
        showfliers=False,
        medianprops={"color": ORANGE, "linewidth": LINE_WIDTH},
    )
    axes.set(ylabel="milliseconds", title="Latency of single calls by stage and concurrency")
    axes.set_ylim(bottom=0)
    return figure

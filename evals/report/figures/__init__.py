"""The figures of a run and of a grid: records in, matplotlib figures out, no files."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from evals.grid.measure import Measured, Swept
from evals.report.figures.agreement import judge_agreement
from evals.report.figures.canvas import Picture, style
from evals.report.figures.headroom import reranker_headroom
from evals.report.figures.heatmaps import heat_maps
from evals.report.figures.latency import latency_by_stage
from evals.report.figures.ranks import recall_by_rank
from evals.report.figures.sampled import judge_against_labels
from evals.report.figures.scores import roc, score_distribution, separation_of
from evals.report.figures.tradeoffs import precision_by_recall, quality_by_latency, quality_by_tokens
from evals.report.figures.why import queries_strip
from evals.report.model import QueryRow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Picture", "draw", "draw_grid"]

Painters = Mapping[str, tuple[Callable[[], "Figure | None"], str]]


def draw(result: Measured, queries: Iterable[QueryRow]) -> dict[str, Picture]:
    """Draw all figures that a run has data for, by name, those of its grid first; each says how to read it.

    Args:
        result: The run.
        queries: Its rows of the report.
    """
    with style():
        of_grid = draw_grid(result.swept) if result.swept else {}
        return {**of_grid, **_drawn(_of_run(result, queries))}


def draw_grid(grid: Swept) -> dict[str, Picture]:
    """Draw the figures of a grid as a whole."""
    painters: Painters = {
        "quality_by_tokens": (
            lambda: quality_by_tokens(grid),
            "Every cell that meets the constraints; on the line those that none beats in both, ★ the recommended one.",
        ),
        "precision_by_recall": (
            lambda: precision_by_recall(grid),
            "Along each line top_k grows from the one number to the other; ★ the recommended cell.",
        ),
        "quality_by_latency": (
            lambda: quality_by_latency(grid),
            "The best cell of each configuration with its 95% interval; top_k and threshold do not change the time.",
        ),
    }
    with style():
        return {**heat_maps(grid), **_drawn(painters)}


def _of_run(result: Measured, queries: Iterable[QueryRow]) -> Painters:
    abstention = result.swept.abstaining if result.swept else None
    separation = abstention.known if abstention else separation_of(result)
    retriever = result.config.retriever
    threshold = retriever.used_threshold
    agreement = result.context.trust.agreement if result.context.trust else None
    return {
        "queries": (
            lambda: queries_strip(queries, threshold, retriever.used_distance),
            "A tick a query; red and purple ones fail. The table of queries names them, with what was returned.",
        ),
        "score_distribution": (
            lambda: score_distribution(result),
            "The less the two kinds overlap, the better a threshold can tell what the documents do not answer.",
        ),
        "roc": (
            lambda: roc(separation, threshold) if separation else None,
            "Each point is a threshold on the best score; top left is best, on the dotted line it is chance.",
        ),
        "recall_by_rank": (
            lambda: recall_by_rank(result),
            "How many more would be found, were more candidates read; no top_k lifts recall above this line.",
        ),
        "reranker_headroom": (
            lambda: reranker_headroom(result),
            "The blue line is the most that a reranker of that many candidates can reach; what lies above the grey one "
            "is to be won.",
        ),
        "latency_by_stage": (
            lambda: latency_by_stage(result),
            "Boxes hold the middle half of the calls, whiskers reach from p5 to p95; ×n is the calls at once.",
        ),
        "judge_agreement": (
            lambda: judge_agreement(agreement),
            "Shares are of each label: off the diagonal the judge erred, or the labels have a hole.",
        ),
        "judge_against_labels": (
            lambda: judge_against_labels(result),
            "A point a judged query, larger for several; ★ the corrected mean, where the line of the weight meets the "
            "proxy's mean over all queries. Points along the line: the proxy foretells the judge, and corrects much.",
        ),
    }


def _drawn(painters: Painters) -> dict[str, Picture]:
    pictures = {name: (paint(), caption) for name, (paint, caption) in painters.items()}
    return {
        name: Picture(name=name, figure=figure, caption=caption)
        for name, (figure, caption) in pictures.items()
        if figure
    }

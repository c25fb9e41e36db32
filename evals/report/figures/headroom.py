"""What a reranker could win, by the depth of the candidates, beside what the chosen one won."""

from statistics import median
from typing import TYPE_CHECKING

from evals.grid.measure import Measured
from evals.metrics.ranking import CUT, ORACLE_DEPTHS, as_found, ndcg, oracle_ndcg
from evals.metrics.timing import stage_values
from evals.report.figures.canvas import BLUE, GREY, LINE_WIDTH, ORANGE, canvas

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def reranker_headroom(result: Measured) -> "Figure | None":
    """Draw the nDCG of perfectly ordered candidates by depth, and that of their order before and after reranking.

    None where relevant chunks or candidates may be missing, or no candidates are deep enough to be reordered.
    """
    settings = result.config.retriever
    _, r = result.results.candidates.of("in_scope", labelled=True)
    depths = [depth for depth in ORACLE_DEPTHS if depth <= settings.candidates]
    incomplete = [*(relevance.incomplete for relevance in r.lists.relevance), *r.of_table("incomplete")]
    if not len(r) or not depths or any(incomplete):
        return None
    oracle = [float(oracle_ndcg(r, result.context, depth=depth).mean()) for depth in depths]
    unordered = float(ndcg(as_found(r), CUT).mean())
    figure, axes = canvas()
    axes.plot(depths, oracle, color=BLUE, marker="o", linewidth=LINE_WIDTH, label="perfect order")
    axes.axhline(unordered, color=GREY, linestyle="--", label=f"as found: {unordered:.3f}")
    title = f"to win by reranking {depths[-1]}: {oracle[-1] - unordered:.3f}"
    if settings.reranker.make:
        reranked = float(ndcg(r, CUT).mean())
        axes.axhline(reranked, color=ORANGE, linewidth=LINE_WIDTH, label=_reranked(result, reranked))
        won, headroom = reranked - unordered, oracle[-1] - unordered
        title = f"{settings.rerank} won {won:.3f} of {headroom:.3f}"
        if won < 0:
            title = f"{settings.rerank} lost {-won:.3f}; {headroom:.3f} to win"
    axes.set(xlabel="candidates that are reordered", ylabel=f"nDCG@{CUT}", title=f"{title} (n = {len(r)})")
    axes.set_xticks(depths)
    axes.set_ylim(0, 1)
    axes.legend(frameon=False, loc="lower right")
    return figure


def _reranked(result: Measured, value: float) -> str:
    """Return the label of the chosen reranker, with the time that it takes where that was measured."""
    serial = next((timed for timed in result.observed.latency if timed.concurrency == 1), None)
    times = stage_values(serial, "rerank") if serial else ()
    took = f", {median(times):.1f} ms a query" if times else ""
    return f"after {result.config.retriever.rerank}: {value:.3f}{took}"

"""What a reranker could win, by the depth of the candidates, beside what the chosen one won."""

from statistics import fmean, median
from typing import TYPE_CHECKING

from evals.metrics.base import within
from evals.metrics.latency import stage_values
from evals.metrics.oracle import CUT, DEPTHS, as_found, best_ndcg
from evals.metrics.ranking import ndcg
from evals.metrics.run_result import RunResult
from evals.report.figures.canvas import BLUE, GREY, LINE_WIDTH, ORANGE, canvas

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def reranker_headroom(result: RunResult) -> "Figure | None":
    """Draw the nDCG of perfectly ordered candidates by depth, and that of their order before and after reranking.

    None where relevant chunks or candidates may be missing, or no candidates are deep enough to be reordered.
    """
    observations = [o for o in within(result.observed.observations, "in_scope") if o.case.is_labelled]
    settings = result.config.retriever
    depths = [depth for depth in DEPTHS if depth <= settings.candidates]
    if not observations or not depths or any(o.relevance.incomplete or o.candidates.incomplete for o in observations):
        return None
    grades = [o.relevance.grades for o in observations]
    before = [as_found(o) for o in observations]
    oracle = [fmean(best_ndcg(ids[:d], labels) for ids, labels in zip(before, grades, strict=True)) for d in depths]
    unordered = fmean(ndcg(ids, labels, CUT) for ids, labels in zip(before, grades, strict=True))
    figure, axes = canvas()
    axes.plot(depths, oracle, color=BLUE, marker="o", linewidth=LINE_WIDTH, label="perfect order")
    axes.axhline(unordered, color=GREY, linestyle="--", label=f"as found: {unordered:.3f}")
    title = f"to win by reranking {depths[-1]}: {oracle[-1] - unordered:.3f}"
    if settings.reranker.make:
        reranked = fmean(ndcg(o.candidate_ids, labels, CUT) for o, labels in zip(observations, grades, strict=True))
        axes.axhline(reranked, color=ORANGE, linewidth=LINE_WIDTH, label=_reranked(result, reranked))
        won, headroom = reranked - unordered, oracle[-1] - unordered
        title = f"{settings.rerank} won {won:.3f} of {headroom:.3f}"
        if won < 0:
            title = f"{settings.rerank} lost {-won:.3f}; {headroom:.3f} to win"
    axes.set(xlabel="candidates that are reordered", ylabel=f"nDCG@{CUT}", title=f"{title} (n = {len(before)})")
    axes.set_xticks(depths)
    axes.set_ylim(0, 1)
    axes.legend(frameon=False, loc="lower right")
    return figure


def _reranked(result: RunResult, value: float) -> str:
    """Return the label of the chosen reranker, with the time that it takes where that was measured."""
    serial = next((timed for timed in result.observed.latency if timed.concurrency == 1), None)
    times = stage_values(serial, "rerank") if serial else ()
    took = f", {median(times):.1f} ms a query" if times else ""
    return f"after {result.config.retriever.rerank}: {value:.3f}{took}"

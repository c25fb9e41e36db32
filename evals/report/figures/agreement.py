"""Agreement of a judge's verdicts with the golden labels."""

from typing import TYPE_CHECKING

import numpy as np

from evals.judge.trust.agreement import Agreement
from evals.report.figures.canvas import canvas

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def confusion(agreement: Agreement) -> tuple[tuple[int, int], tuple[int, int]]:
    """Count verdicts: (labelled 1: judged useful, useless), (labelled 0: judged useful, useless)."""
    over, missed = agreement.false_useful, agreement.false_useless
    wrong_0, wrong_1 = round((over.value or 0.0) * over.n), round((missed.value or 0.0) * missed.n)
    return (missed.n - wrong_1, wrong_1), (wrong_0, over.n - wrong_0)


def judge_agreement(agreement: Agreement | None) -> "Figure | None":
    """Draw verdict against label, with counts and the share of each label; None without verdicts on labelled chunks."""
    if agreement is None or not agreement.n_verdicts:
        return None
    counts = np.asarray(confusion(agreement), dtype=float)
    shares = counts / np.maximum(1.0, counts.sum(axis=1, keepdims=True))
    figure, axes = canvas((5.6, 3.0))
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="none")
    for (row, column), share in np.ndenumerate(shares):
        # The text is on the cell's own blue in both themes.
        shade = "#ffffff" if share > 0.55 else "#10151a"
        axes.text(column, row, f"{counts[row, column]:,.0f}\n{share:.1%}", ha="center", va="center", color=shade)
    axes.set_xticks([0, 1], ["judged useful", "judged useless"])
    axes.set_yticks([0, 1], ["labelled\nrelevant", "labelled\nnot relevant"])
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    kappa = agreement.kappa.value
    kappa_text = "" if kappa is None else f", Cohen's kappa {kappa:.2f}"
    axes.set_title(f"Judge and labels, {agreement.n_verdicts:,} verdicts{kappa_text}")
    return figure

"""Verdicts drawn within a query: those that decide are bought, of the others a part with known probabilities. Pure.

The score of a cell depends on some questions to the judge: chunks that it returns, or its whole selection. A question
matters as far as its answer moves differences between the leading cell and its rivals,

    importance = mean over rivals of (its influence on the rival − on the leading cell)²,

rivals that are close weighing most: 1 / (gap + margin)², as precision is needed there. A question that matters little
beside the most important one of its query is bought with a chance of 1/2 or 1/4 only; what was not bought is taken from
the labels. With s₀ the score when only questions with chance 1 have their verdicts, s₁ with those of 1/2 besides, s₂
with all, and one uniform number for each query, by which it is bought as far as s₀, s₁ or s₂,

    s₀ + [s₁ bought] (s₁ − s₀) · 2 + [s₂ bought] (s₂ − s₁) · 4

is unbiased for the score by all verdicts, given the query, whatever the metric (average precision is not linear in
verdicts) and however wrong the labels are: each difference is bought with the inverse of its weight. So scores of a
query are replaced by this, and every mean over drawn queries stays unbiased. The variance that it adds within a query
is Σₖ (1/pₖ − 1/pₖ₋₁)(s − sₖ₋₁)(s − sₖ₋₁)ᵀ, s the score by all verdicts: it is known where all were bought, and counts
there by the inverse of that chance.

Whether that pays is seen on the first queries, of which everything was bought: there both variances are known. All
verdicts of a query are bought unless variance × cost, the product that Neyman's allocation makes least, is smaller; and
where λ says that labels foretell little, as they tell neither what decides nor what was not bought.

Sources: Särndal, Swensson & Wretman (1992, Model assisted survey sampling, chapters 6 and 9), difference estimator and
two-phase sampling; Rhee & Glynn (2015), unbiased sums of differences cut at random; Neyman (1934).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evals.stats.corrected_mean import Bools, Floats
from evals.stats.returned_chunks import Places

# Chances of a question, by its importance; an influence (its root) of less than a quarter of the largest is below 1.
LEVELS = (1.0, 0.5, 0.25)
SURELY = 0.25
# λ below which labels are no help.
TRUSTED = 0.3


@dataclass(frozen=True, kw_only=True, eq=False)
class Questions:
    """What the judge can be asked of each query.

    Attributes:
        asked: [N, cells, questions], True where the score of a cell depends on a question.
        influence: [worlds, N, cells, questions], by how much the answer moves the score, in several likely worlds.
    """

    asked: Bools
    influence: NDArray[np.float32]

    def of(self, cells: Places) -> "Questions":
        """Some of the cells."""
        return Questions(asked=self.asked[:, cells], influence=self.influence[:, :, cells])

    @property
    def needed(self) -> Bools:
        """[N, questions], on which any cell depends."""
        needed: Bools = np.logical_or.reduce(self.asked, axis=1)
        return needed


@dataclass(frozen=True, kw_only=True, eq=False)
class Buying:
    """How the next queries are drawn, and which verdicts of them.

    Attributes:
        chances: [N, questions], of being bought once the query is drawn; 0 where no cell depends on it.
        favoured: [N], by which queries are drawn, in proportion.
    """

    chances: Floats
    favoured: Floats


def buy(
    questions: Questions,
    leading: int,
    gaps: Floats,
    margin: float,
    whole: Places,
    residuals: Floats,
    staged: Callable[[Floats], Sequence[Floats]],
) -> Buying:
    """Choose what to buy next.

    Args:
        questions: Of the remaining cells.
        leading: The leading one, by its place among them.
        gaps: [cells], how far each is estimated below it.
        margin: Wanted margin.
        whole: Queries that were judged whole.
        residuals: [whole, cells], their judged scores less what the labels foretell.
        staged: Their scores [whole, cells] at each level of chances [whole, questions].
    """
    closeness = 1 / (np.maximum(0, gaps) + max(margin, 1e-3)) ** 2
    closeness /= closeness.sum()
    needed = questions.needed
    weight = np.where(needed, importance(questions, leading, closeness), 0.0)
    chances = np.where(needed, _chances(weight), 0.0)
    apart = residuals - residuals[:, [leading]]
    between = float(closeness @ apart.var(axis=0))
    added = float(closeness @ _within(staged(chances[whole]), leading))
    if (between + added) * chances.sum() >= between * needed.sum():
        chances = needed.astype(float)
    spread = np.divide(weight, chances, out=np.zeros_like(weight), where=needed).sum(axis=1)
    return Buying(chances=chances, favoured=np.sqrt(spread / np.maximum(1, chances.sum(axis=1))))


def importance(questions: Questions, leading: int, closeness: Floats) -> Floats:
    """Return how much each question [N, questions] matters; `closeness` [cells] weights rivals."""
    total = np.zeros(questions.needed.shape)
    for influence in questions.influence:
        apart = influence - influence[:, [leading]]
        total += np.einsum("qcp,c->qp", apart**2, closeness)
    return total / len(questions.influence)


def _chances(weight: Floats) -> Floats:
    """Return the level [N, questions] of each question: its influence over that of the largest of its query."""
    root = np.sqrt(weight)
    share = np.divide(root, root.max(axis=1, keepdims=True), out=np.zeros_like(root), where=weight > 0)
    levels = np.array(LEVELS)
    # A level holds what is up to twice as important as the one below.
    deepest = (share[..., None] <= SURELY * levels[:-1]).sum(axis=-1)
    chances: Floats = levels[deepest]
    return chances


def _within(stages: Sequence[Floats], leading: int) -> Floats:
    """Return the mean variance within a query [cells], of differences to the leading cell."""
    total = np.zeros(stages[0].shape[1])
    for deeper in range(1, len(LEVELS)):
        # A verdict that failed says nothing.
        rest = np.nan_to_num(stages[-1] - stages[deeper - 1])
        total += (1 / LEVELS[deeper] - 1 / LEVELS[deeper - 1]) * ((rest - rest[:, [leading]]) ** 2).mean(axis=0)
    return total


def levels_bought(uniform: Floats) -> NDArray[np.int64]:
    """Return the deepest level at which each query with its uniform number is bought, from 0."""
    levels: NDArray[np.int64] = np.add.reduce(uniform[:, None] < np.array(LEVELS), axis=1, dtype=np.int64) - 1
    return levels


def is_whole(chances: Floats, bought: NDArray[np.int64]) -> Bools:
    """Return of which queries [n] everything is bought, with chances [n, questions], down to a level [n]."""
    left = (chances > 0) & (chances < np.array(LEVELS)[bought][:, None])
    whole: Bools = ~np.logical_or.reduce(left, axis=1)
    return whole


def expected_scores(
    stages: Sequence[Floats], chances: Floats, bought: NDArray[np.int64]
) -> tuple[Floats, NDArray[np.float64]]:
    """Return unbiased scores [n, cells], and errors [n, steps, cells] whose squares add up to their variance within.

    Args:
        stages: Scores [n, cells] at each level; at one that was not bought, anything finite.
        chances: [n, questions], of each question.
        bought: [n], the level down to which a query was bought.
    """
    scores, errors = stages[0].copy(), []
    smallest = np.where(chances > 0, chances, 1.0).min(axis=1, initial=1.0)
    whole = is_whole(chances, bought)
    for deeper in range(1, len(LEVELS)):
        chance, before = LEVELS[deeper], LEVELS[deeper - 1]
        reached = (bought >= deeper)[:, None]
        scores = scores + np.where(reached, (stages[deeper] - stages[deeper - 1]) / chance, 0.0)
        rest = np.where(whole[:, None], stages[-1] - stages[deeper - 1], 0.0)
        errors.append(np.sqrt((1 / chance - 1 / before) / smallest)[:, None] * rest)
    return scores, np.stack(errors, axis=1)

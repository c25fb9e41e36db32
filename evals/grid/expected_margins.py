"""What judging a grid in rounds is expected to prove, and for how many verdicts, before anything is bought. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evals.collect.observations import Observation
from evals.config.sweep import ObjectiveConfig
from evals.grid.cells import Grid
from evals.grid.judging_rounds import Stop, judge_until_proved
from evals.judge.tasks import PRECISION
from evals.judge.verdicts import ChunkVerdict, Judging
from evals.metrics.base import Context, Metric

MARGINS = (0.1, 0.05, 0.03, 0.02, 0.01)
# Judges that are made up, over which numbers of verdicts are averaged.
JUDGES = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpectedMargin:
    """Verdicts that proving a cell within a margin of the best is expected to take; `share`, of all."""

    margin: float
    verdicts: int
    share: float


def expected_margins(
    metrics: Mapping[str, Metric],
    objective: ObjectiveConfig,
    grid: Grid,
    context: Context,
    verdicts: Mapping[tuple[str, str], int],
    wrong: float,
) -> list[ExpectedMargin]:
    """Judge the grid in rounds by made-up verdicts, and count them as margins are proved.

    A stored verdict is taken as it is; every other is the label, turned over with the probability of disagreement.

    Args:
        metrics: Context precision alone, and metrics of the objective without a judge.
        objective: What is optimised; context precision is its only judged metric.
        grid: The cells, scored by what `known_without_a_judge` gives.
        context: Inputs of the metrics, without verdicts.
        verdicts: (case id, chunk id) to a stored verdict.
        wrong: Probability that another verdict is not the label.
    """
    needed: dict[float, list[int]] = {margin: [] for margin in MARGINS}
    every = 1
    for seed in range(JUDGES):
        judge, looks = _MadeUp(verdicts, wrong, seed), list[tuple[int, float]]()
        stop = Stop(margin=min(MARGINS), looked=lambda questions, bound, looks=looks: looks.append((questions, bound)))  # type: ignore[misc]
        _, proof = judge_until_proved(judge, stop, metrics, objective, grid, context)
        every = proof.all_questions
        for margin in MARGINS:
            needed[margin].append(next((questions for questions, bound in looks if bound <= margin), every))
    means = {margin: float(np.mean(questions)) for margin, questions in needed.items()}
    return [ExpectedMargin(margin=m, verdicts=round(mean), share=mean / max(1, every)) for m, mean in means.items()]


class _MadeUp:
    """A judge that gives stored verdicts, and else the labels with errors, the same whenever it is asked."""

    def __init__(self, verdicts: Mapping[tuple[str, str], int], wrong: float, seed: int) -> None:
        self._verdicts, self._wrong, self._rng = dict(verdicts), wrong, np.random.default_rng(seed)

    def __call__(self, results: Sequence[Observation]) -> Judging:
        asked: dict[tuple[str, str], ChunkVerdict] = {}
        for result in results:
            for chunk_id in result.ranked_ids:
                key = result.case.id, chunk_id
                if key not in self._verdicts:
                    label = int(chunk_id in result.relevance.grades)
                    self._verdicts[key] = label ^ int(self._rng.random() < self._wrong)
                asked[key] = ChunkVerdict(verdict=self._verdicts[key], reason="")
        return Judging(model="", verdicts=asked, scores={}, claims={})


def can_be_expected(objective: ObjectiveConfig, judged: Sequence[str]) -> bool:
    """Return True if context precision is the only judged metric of an objective."""
    return [name for name in objective.metrics if name in judged] == [PRECISION]

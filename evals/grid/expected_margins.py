"""What judging a grid in rounds is expected to prove, and for how many verdicts, before anything is bought. Pure."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from evals.config.judged_sample import Sample
from evals.config.sweep import ObjectiveConfig
from evals.grid.cells import Grid
from evals.grid.judging_rounds import Stop, judge_until_proved
from evals.judge.call_estimate import ExpectedMargin
from evals.judge.made_up_verdicts import USUAL_AGREEMENT, MadeUpJudge
from evals.judge.verdicts import Judging
from evals.metrics.base import Context, Metric

MARGINS = (0.1, 0.05, 0.03, 0.02, 0.01)
# Judges that are made up, over which numbers of verdicts are averaged.
JUDGES = 5


def expected_margins(
    metrics: Mapping[str, Metric],
    objective: ObjectiveConfig,
    grid: Grid,
    context: Context,
    stored: Judging,
    agreements: Mapping[str, float | None],
    sample: Sample = "all",
    *,
    within: bool = True,
) -> tuple[ExpectedMargin, ...]:
    """Judge the grid in rounds by made-up verdicts (`evals.judge.made_up_verdicts`), and count them to each margin.

    Verdicts on all judged metrics of the run are counted, as rounds buy them; the margins are the objective's.

    Args:
        metrics: Metrics of the run.
        objective: What is optimised, with at least one judged metric.
        grid: The cells, scored by what `known_without_a_judge` gives.
        context: Inputs of the metrics, without verdicts.
        stored: Answers of the judge in the store.
        agreements: Agreement of judge and labels by judged metric, None where it is to be assumed.
        sample: `judge.sample`, which limits the queries.
        within: `judge.stop.within`.
    """
    wrong = {name: 1 - (USUAL_AGREEMENT if share is None else share) for name, share in agreements.items()}
    asked = [name for name in objective.metrics if name in wrong]
    needed: dict[float, list[int]] = {margin: [] for margin in MARGINS}
    every = 1
    for seed in range(JUDGES):
        judge, looks = MadeUpJudge(stored, wrong, seed), list[tuple[int, float]]()
        stop = Stop(margin=min(MARGINS), sample=sample, within=within, looked=partial(_note, looks))
        _, proof = judge_until_proved(partial(judge.judge, asked), stop, metrics, objective, grid, context)
        every = proof.all_questions
        for margin in MARGINS:
            needed[margin] += [questions for questions, bound in looks if bound <= margin][:1]
    return tuple(_expected(margin, counts, every) for margin, counts in needed.items())


def _note(looks: list[tuple[int, float]], questions: int, bound: float) -> None:
    looks.append((questions, bound))


def _expected(margin: float, counts: Sequence[int], every: int) -> ExpectedMargin:
    if len(counts) < JUDGES:
        return ExpectedMargin(margin=margin)
    mean = float(np.mean(counts))
    return ExpectedMargin(
        margin=margin, verdicts=round(mean), least=min(counts), most=max(counts), share=mean / max(1, every)
    )

"""What rounds of judging are expected to prove: fewer verdicts for wider margins, and as many as a real run takes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from evals.config.judged_sample import Sample
from evals.grid.axes import plan
from evals.grid.building import build, configure
from evals.grid.evaluation import grid_metrics, retrieve
from evals.grid.expected_margins import MARGINS, expected_margins
from evals.grid.judging_rounds import CellProof, Stop, judge_until_proved, known_without_a_judge
from evals.judge.call_estimate import NOTHING_STORED, ExpectedMargin
from evals.judge.tasks import RECALL
from evals.judge.verdicts import Judging
from evals.metrics.collaborators import Collaborators
from evals.metrics.evaluation import context_of
from tests.support.experiment import silent
from tests.support.judged_rounds import PRECISION, JudgedRounds


@pytest.fixture(scope="module")
def world(judged_world: JudgedRounds) -> JudgedRounds:
    return judged_world


def expected(
    world: JudgedRounds, agreement: float | None, objective: str = PRECISION, sample: Sample = "all"
) -> tuple[ExpectedMargin, ...]:
    config = world.config.model_copy(
        update={
            "metrics": (PRECISION, objective),
            "objective": world.config.objective.model_copy(update={"metrics": {objective: 1.0}}),
        }
    )
    planned, metrics = plan(config.retriever, config.sweep), grid_metrics(config)
    with world.bench.opened([variant.settings for variant in planned.variants]) as (retrievers, grounds):
        collaborators = Collaborators(retrievers=retrievers, progress=silent, judge=None)
        retrieved = retrieve(config, planned, world.bench.golden, grounds, collaborators)
        context = context_of(config, grounds, None, None, retrieved[0].observed)
        known = known_without_a_judge(metrics, config.objective)
        grid = build(planned, config.sweep, configure(planned, retrieved), known, context)
        agreements = {PRECISION: agreement, RECALL: agreement}
        return expected_margins(metrics, config.objective, grid, context, NOTHING_STORED, agreements, sample)


def numbers(curve: Sequence[ExpectedMargin]) -> list[int]:
    return [each.verdicts or 0 for each in curve]


@pytest.mark.parametrize("objective", [PRECISION, RECALL])
def test_wider_margins_and_better_labels_take_fewer_verdicts(world: JudgedRounds, objective: str) -> None:
    close, apart = expected(world, 0.98, objective), expected(world, 0.75, objective)
    assert [each.margin for each in close] == [*MARGINS]
    for curve in (close, apart):
        assert numbers(curve) == sorted(numbers(curve)) and 0 < (curve[0].share or 0) <= (curve[-1].share or 2) <= 1
    assert sum(numbers(close)) < sum(numbers(apart))


def test_verdicts_on_all_judged_metrics_of_the_run_are_counted(world: JudgedRounds) -> None:
    both, alone = expected(world, 0.9, RECALL)[-1], expected(world, 0.9)[-1]
    assert both.verdicts and both.share and alone.verdicts and alone.share
    assert both.verdicts / both.share > 1.2 * alone.verdicts / alone.share


def test_a_sample_ends_before_narrow_margins_are_proved(world: JudgedRounds) -> None:
    curve = expected(world, None, sample=22)
    assert (curve[-1].verdicts, curve[-1].share) == (None, None)


def test_verdicts_that_complete_the_chosen_cell_are_counted(
    world: JudgedRounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = list[tuple[int, CellProof]]()

    def played(ask: Any, stop: Stop, *inputs: Any) -> tuple[Judging, CellProof]:
        counts = list[int]()
        wider = replace(stop, margin=0.05, looked=lambda questions, bound: counts.append(questions))
        judging, proof = judge_until_proved(ask, wider, *inputs)
        ends.append((counts[-1], proof))
        return judging, proof

    monkeypatch.setattr("evals.grid.expected_margins.judge_until_proved", played)
    expected(world, 0.9)
    assert [count for count, _ in ends] == [proof.questions for _, proof in ends]
    assert any(proof.partly and proof.is_by_verdicts for _, proof in ends)


@pytest.mark.slow
def test_a_run_takes_about_what_was_expected(world: JudgedRounds) -> None:
    with world.server() as server:
        result = world.grid(server, stop={"margin": 0.05})
    assert result.proof is not None
    [of_margin] = [verdicts for each in expected(world, None) if each.margin == 0.05 and (verdicts := each.verdicts)]
    assert 0.5 < of_margin / result.proof.questions < 2

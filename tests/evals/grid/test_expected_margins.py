"""What rounds of judging are expected to prove: fewer verdicts for wider margins, and as many as a real run takes."""

from typing import Any

import pytest

from evals.grid.axes import plan
from evals.grid.building import build, configure
from evals.grid.evaluation import grid_metrics, retrieve
from evals.grid.expected_margins import MARGINS, ExpectedMargin, can_be_expected, expected_margins
from evals.grid.judging_rounds import known_without_a_judge
from evals.metrics.collaborators import Collaborators
from evals.metrics.evaluation import context_of
from tests.support.experiment import silent
from tests.support.judged_rounds import PRECISION, JudgedRounds


@pytest.fixture(scope="module")
def world(judged_world: JudgedRounds) -> JudgedRounds:
    return judged_world


def expected(world: JudgedRounds, verdicts: dict[tuple[str, str], int], wrong: float) -> list[ExpectedMargin]:
    config = world.config
    planned, metrics = plan(config.retriever, config.sweep), {PRECISION: grid_metrics(config)[PRECISION]}
    with world.bench.opened([variant.settings for variant in planned.variants]) as (retrievers, grounds):
        collaborators = Collaborators(retrievers=retrievers, progress=silent, judge=None)
        retrieved = retrieve(config, planned, world.bench.golden, grounds, collaborators)
        context = context_of(config, grounds, None, None, retrieved[0].observed)
        known = known_without_a_judge(metrics, config.objective)
        grid = build(planned, config.sweep, configure(planned, retrieved), known, context)
        return expected_margins(metrics, config.objective, grid, context, verdicts, wrong)


def test_wider_margins_and_better_labels_take_fewer_verdicts(world: JudgedRounds) -> None:
    close, apart = expected(world, {}, 0.02), expected(world, {}, 0.25)
    assert [each.margin for each in close] == [*MARGINS]
    for curve in (close, apart):
        counts = [each.verdicts for each in curve]
        assert counts == sorted(counts) and 0 < curve[0].share <= curve[-1].share <= 1
    assert sum(each.verdicts for each in close) < sum(each.verdicts for each in apart)


@pytest.mark.slow
def test_a_run_takes_about_what_was_expected(world: JudgedRounds) -> None:
    with world.server() as server:
        result = world.grid(server, stop={"margin": 0.05})
    assert result.proof is not None
    of_margin = next(each for each in expected(world, {}, 0.07) if each.margin == 0.05)
    assert 0.5 < of_margin.verdicts / result.proof.questions < 2


def test_only_context_precision_can_be_made_up(world: JudgedRounds) -> None:
    def objective(**metrics: float) -> Any:
        named = {name.replace("__", "/"): weight for name, weight in metrics.items()}
        return world.config.objective.model_copy(update={"metrics": named})

    judged = [PRECISION, "ragas/llm_context_recall"]
    assert can_be_expected(objective(ragas__llm_context_precision=1, scope__abstention=1), judged)
    assert not can_be_expected(objective(ragas__llm_context_precision=1, ragas__llm_context_recall=1), judged)
    assert not can_be_expected(objective(ranking__ndcg_at_10=1), judged)

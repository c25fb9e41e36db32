"""Grids whose judging ends with a proof, a judge on the loopback that errs: what is asked, proved, and true."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evals.config.experiment import ExperimentConfig
from evals.grid.evaluation import GridResult
from evals.grid.judging_rounds import FIRST_ROUND, round_ends
from evals.judge.sampling import judging_order
from tests.support.chat_server import CohereChatServer
from tests.support.experiment import settings
from tests.support.golden_labels import golden_labels
from tests.support.grid_world import Bench, make_world
from tests.support.judged import judge_of
from tests.support.judging import Flaws, Labels, Oracle

PRECISION = "ragas/llm_context_precision"
QUERIES = 60


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> ExperimentConfig:
    made = make_world(tmp_path_factory.mktemp("world"), QUERIES)
    return settings(
        made,
        metrics=[PRECISION],
        objective__metrics={PRECISION: 1.0},
        retriever__candidates=8,
        sweep__mode=["semantic", "keyword", "hybrid"],
        sweep__top_k=[1, 2, 3, 5, 8],
        sweep__threshold=[0.0, 0.3],
        tracking__enabled=False,
        judge__model="cohere:command-a-03-2025",
    )


@pytest.fixture(scope="module")
def bench(config: ExperimentConfig) -> Bench:
    return Bench(config, {})


@pytest.fixture(scope="module")
def labels(config: ExperimentConfig, bench: Bench) -> dict[str, Labels]:
    with bench.opened([config.retriever]) as (retrievers, _):
        return golden_labels(bench.golden.cases, retrievers[0].chunks())


@pytest.fixture
def server(labels: dict[str, Labels]) -> Iterator[CohereChatServer]:
    with CohereChatServer(Oracle(labels, flaws=Flaws(false_useful=0.05, false_useless=0.1))) as running:
        yield running


def judged(bench: Bench, config: ExperimentConfig, server: CohereChatServer, **changes: Any) -> GridResult:
    with judge_of(server, **changes) as judge:
        return bench.grid(config, judge)


def test_cells_are_compared_after_a_first_round_and_then_in_steps_to_the_end() -> None:
    assert round_ends(60) == [20, 25, 30, 35, 40, 45, 50, 55, 60]
    assert round_ends(225)[:3] == [20, 31, 42] and round_ends(225)[-1] == 225
    assert round_ends(12) == [12] and round_ends(FIRST_ROUND) == [20]


def test_a_proof_is_true_of_all_verdicts_and_takes_fewer_of_them(
    bench: Bench, config: ExperimentConfig, server: CohereChatServer
) -> None:
    everything = judged(bench, config, server).grid.metrics[PRECISION].summaries.mean
    calls = len(server.chats)
    result = judged(bench, config, server, stop={"margin": 0.05})
    proof = result.proof
    assert proof is not None and result.chosen is not None
    # Of two chunks with the same text the model is asked once.
    assert proof.questions - 2 <= len(server.chats) - calls <= proof.questions < proof.all_questions / 2
    assert calls <= proof.all_questions <= calls + 2
    assert proof.within[result.chosen] <= 0.05
    below = everything.max() - everything
    known = np.isfinite(proof.within)
    assert (below[known] <= proof.within[known] + 1e-9).all()
    assert not proof.remaining[below > 0.15].any() and proof.remaining[int(everything.argmax())]


def test_a_dropped_cell_buys_nothing_further(bench: Bench, config: ExperimentConfig, server: CohereChatServer) -> None:
    result = judged(bench, config, server, stop={"margin": 0.0})
    proof, grid = result.proof, result.grid
    assert proof is not None and (~proof.remaining).any()
    order = judging_order((case for case in bench.golden.cases), config.seed)
    assert proof.queries.max() <= len(order) == QUERIES
    asked = {(chat.prompt) for chat in server.chats}
    texts = {case.id: case.query for case in bench.golden.cases}
    for cell in np.flatnonzero(~proof.remaining).tolist():
        judged_on = set(order[: int(proof.queries[cell])])
        scores = grid.scores(PRECISION, cell)
        assert {key for key, row in zip(grid.query_ids, proof.drawn[:, cell], strict=True) if row} == judged_on
        assert all(isinstance(scores[key], float) for key in judged_on)
    alive = [index for index in range(len(grid)) if proof.remaining[index]]
    last = order[int(proof.queries.max()) - 1]
    returned = {c.text for cell in alive for o in grid.observed(cell).observations if o.case.id == last
                for c in o.selection.chunks}  # fmt: skip
    assert sum(texts[last] in prompt for prompt in asked) == len(returned)


def test_all_verdicts_leave_nothing_open(bench: Bench, config: ExperimentConfig, server: CohereChatServer) -> None:
    """Cells that score alike on every query are never told apart, so these are judged on all, and nothing is open."""
    twins = config.model_copy(update={"sweep": config.sweep.model_copy(update={"threshold": (0.0, 1e-6)})})
    result, plain = (judged(bench, twins, server, **changes) for changes in ({"stop": {"margin": 0.0}}, {}))
    means = plain.grid.metrics[PRECISION].summaries.mean
    assert result.proof is not None and result.proof.queries.max() == QUERIES
    remaining = result.proof.remaining
    assert result.grid.metrics[PRECISION].summaries.mean[remaining] == pytest.approx(means[remaining])
    assert result.proof.within[remaining] == pytest.approx(means.max() - means[remaining])


def test_a_budget_that_ends_in_the_first_round_proves_nothing(
    bench: Bench, config: ExperimentConfig, server: CohereChatServer
) -> None:
    result = judged(bench, config, server, stop={"margin": 0.05}, budget={"calls": 6}, max_concurrency=1)
    assert result.proof is not None and result.chosen is None
    assert not np.isfinite(result.proof.within).any() and result.proof.remaining.all()
    assert "the budget of 6 calls is spent" in "".join(result.notes)


def test_verdicts_of_an_earlier_run_are_not_bought_again(
    bench: Bench, config: ExperimentConfig, server: CohereChatServer, tmp_path: Path
) -> None:
    first = judged(bench, config, server, store=tmp_path / "verdicts.sqlite", stop={"margin": 0.05})
    calls = len(server.chats)
    second = judged(bench, config, server, store=tmp_path / "verdicts.sqlite", stop={"margin": 0.05})
    assert len(server.chats) == calls and first.proof is not None and second.proof is not None
    assert np.array_equal(first.proof.within, second.proof.within, equal_nan=True)

"""Grids whose judging ends with a proof, a judge on the loopback that errs: what is asked, proved, and true."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.support.chat_server import CohereChatServer
from tests.support.grids import proof_of, swept_of
from tests.support.judged_rounds import PRECISION, QUERIES, JudgedRounds
from tests.support.scored import metric_of

RECALL = "ragas/llm_context_recall"


@pytest.fixture(scope="module")
def world(judged_world: JudgedRounds) -> JudgedRounds:
    return judged_world


@pytest.fixture
def server(world: JudgedRounds) -> Iterator[CohereChatServer]:
    with world.server() as running:
        yield running


def test_a_proof_is_true_of_all_verdicts_and_takes_fewer_of_them(world: JudgedRounds, server: CohereChatServer) -> None:
    everything = swept_of(world.grid(server)).grid.metrics[PRECISION].mean
    calls = len(server.chats)
    result = world.grid(server, stop={"margin": 0.05})
    proof = swept_of(result).proof
    assert proof is not None and swept_of(result).chosen is not None
    # Of two chunks with the same text the model is asked once.
    assert proof.questions - 2 <= len(server.chats) - calls <= proof.questions < proof.all_questions * 0.75
    assert calls <= proof.all_questions <= calls + 2
    assert proof.within[swept_of(result).chosen] <= 0.05
    below = everything.max() - everything
    known = np.isfinite(proof.within)
    assert (below[known] <= proof.within[known] + 1e-9).all()
    assert not proof.remaining[below > 0.15].any() and proof.remaining[int(everything.argmax())]


def test_a_dropped_cell_buys_nothing_further(world: JudgedRounds, server: CohereChatServer) -> None:
    result = world.grid(server, stop={"margin": 0.0})
    proof, grid = swept_of(result).proof, swept_of(result).grid
    assert proof is not None and (~proof.remaining).any()
    prompts = {chat.prompt for chat in server.chats}
    texts = {case.id: case.query for case in world.bench.golden.cases}
    drawn = proof.judged
    counts = drawn.sum(axis=0)
    dropped = counts < proof.queries
    assert dropped.any() and not dropped[proof.remaining].any()
    for cell in np.flatnonzero(dropped).tolist():
        inside = [case.in_scope for case in grid.pool.cases]
        scores = grid.matrix(metric_of(PRECISION), result.context)[:, cell]
        assert not np.isnan(scores[drawn[inside, cell]]).any()
    # On a query that none of these was judged on, the judge saw what the others return, and nothing else.
    late = np.flatnonzero(~drawn[:, dropped].any(axis=1) & drawn[:, ~dropped].all(axis=1)).tolist()
    for row in late:
        cells = np.flatnonzero(~dropped).tolist()
        own = [list(grid.results(cell).observations())[row] for cell in cells]
        returned = {chunk.text for observation in own for chunk in observation.selection.chunks}
        assert sum(texts[grid.pool.cases[row].id] in prompt for prompt in prompts) == len(returned)
    assert late


@pytest.mark.slow
def test_all_verdicts_leave_nothing_open(world: JudgedRounds, server: CohereChatServer) -> None:
    """Cells that score alike on every query are never told apart, so these are judged on all, and nothing is open."""
    twins = world.config.model_copy(update={"sweep": world.config.sweep.model_copy(update={"threshold": (0.0, 1e-6)})})
    result, plain = world.grid(server, twins, stop={"margin": 0.0}), world.grid(server, twins)
    means = swept_of(plain).grid.metrics[PRECISION].mean
    assert swept_of(result).proof is not None and proof_of(result).queries == QUERIES
    remaining = proof_of(result).remaining
    assert swept_of(result).grid.metrics[PRECISION].mean[remaining] == pytest.approx(means[remaining])
    assert proof_of(result).within[remaining] == pytest.approx(means.max() - means[remaining])


def test_a_budget_that_ends_in_the_first_round_proves_nothing(world: JudgedRounds, server: CohereChatServer) -> None:
    result = world.grid(server, stop={"margin": 0.05}, budget={"calls": 6}, max_concurrency=1)
    assert swept_of(result).proof is not None and swept_of(result).chosen is None
    assert not np.isfinite(proof_of(result).within).any() and proof_of(result).remaining.all()
    assert "the budget of 6 calls is spent" in "".join(result.notes)


@pytest.mark.slow
def test_a_budget_that_ends_later_leaves_what_was_proved_before(world: JudgedRounds, server: CohereChatServer) -> None:
    whole = world.grid(server, stop={"margin": 0.0})
    assert swept_of(whole).proof is not None
    calls = round(0.8 * proof_of(whole).questions)
    result = world.grid(server, stop={"margin": 0.0}, budget={"calls": calls}, max_concurrency=1)
    proof = swept_of(result).proof
    assert proof is not None and proof.chosen is not None and 20 <= proof.queries < proof_of(whole).queries
    assert result.judging is not None and result.judging.drawn is not None
    # Those that were judged whole enter the means.
    assert 20 <= len(result.judging.drawn) <= proof.queries and swept_of(result).choice is not None
    assert swept_of(result).grid.metrics[PRECISION].n_dropped == 0


@pytest.mark.slow
def test_verdicts_of_an_earlier_run_are_not_bought_again(
    world: JudgedRounds, server: CohereChatServer, tmp_path: Path
) -> None:
    first = world.grid(server, store=tmp_path / "verdicts.sqlite", stop={"margin": 0.05})
    calls = len(server.chats)
    second = world.grid(server, store=tmp_path / "verdicts.sqlite", stop={"margin": 0.05})
    assert len(server.chats) == calls and swept_of(first).proof is not None and swept_of(second).proof is not None
    assert np.array_equal(proof_of(first).within, proof_of(second).within, equal_nan=True)


@pytest.mark.slow
def test_a_run_with_two_judged_metrics_judges_whole_queries(world: JudgedRounds, server: CohereChatServer) -> None:
    config = world.config.model_copy(update={"metrics": (PRECISION, RECALL)})
    result = world.grid(server, config, stop={"margin": 0.05})
    assert swept_of(result).proof is not None and result.judging is not None and result.judging.drawn is not None
    assert len(result.judging.drawn) == proof_of(result).queries

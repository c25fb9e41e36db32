"""Grids whose judging ends with a proof, a judge on the loopback that errs: what is asked, proved, and true."""

from collections.abc import Iterator

import numpy as np
import pytest

from tests.support.chat_server import CohereChatServer
from tests.support.grids import proof_of, swept_of
from tests.support.judged_rounds import PRECISION, JudgedRounds
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
    dropped = counts < proof.n
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


def test_a_budget_that_ends_in_the_first_round_proves_nothing(world: JudgedRounds, server: CohereChatServer) -> None:
    result = world.grid(server, stop={"margin": 0.05}, budget={"calls": 6}, max_concurrency=1)
    assert swept_of(result).proof is not None and swept_of(result).chosen is None
    assert not np.isfinite(proof_of(result).within).any() and proof_of(result).remaining.all()
    assert "the budget of 6 calls is spent" in "".join(result.notes)

"""Grids whose judging ends with a proof, a judge on the loopback that errs: what is asked, proved, and true."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from evals.grid.judging import CellProof
from evals.grid.measure import Measured
from evals.report.grid import grid_section
from tests.support.chat_server import MODEL, CohereChatServer, OpenAIChatServer
from tests.support.grid_world import proof_of, swept_of
from tests.support.judged_experiment import PRECISION, JudgedRounds
from tests.support.judging import Flaws, Oracle
from tests.support.observed import metric_of

SMALL, LARGE = f"cohere:{MODEL}", f"openai:{MODEL}"
Servers = tuple[CohereChatServer, OpenAIChatServer]
# The judges agree with each other, and less with the labels.
STRONG = Flaws(false_useful=0.1, false_useless=0.35, seed=3)


@pytest.fixture
def server(judged_world: JudgedRounds) -> Iterator[CohereChatServer]:
    with judged_world.server() as running:
        yield running


@pytest.fixture
def servers(judged_world: JudgedRounds, monkeypatch: pytest.MonkeyPatch) -> Iterator[Servers]:
    with (
        CohereChatServer(Oracle(judged_world.labels, flaws=STRONG)) as small,
        OpenAIChatServer(Oracle(judged_world.labels, flaws=STRONG)) as large,
    ):
        monkeypatch.setenv("OPENAI_BASE_URL", large.base_url)
        yield small, large


def by_both(world: JudgedRounds, servers: Servers, **changes: Any) -> Measured:
    env = {"COHERE_API_KEY": CohereChatServer.key, "OPENAI_API_KEY": OpenAIChatServer.key}
    return world.grid(servers[0], env=env, second={"model": LARGE}, stop={"margin": 0.03}, **changes)


def holds(result: Measured, everything: Measured, margin: float) -> CellProof:
    """Return a proof that is true of all verdicts."""
    proof, means = proof_of(result), swept_of(everything).ranking.values
    assert swept_of(result).chosen is not None and proof.within[swept_of(result).chosen] <= margin
    below, known = means.max() - means, np.isfinite(proof.within)
    assert (below[known] <= proof.within[known] + 1e-9).all()
    assert not proof.remaining[below > 0.15].any() and proof.remaining[int(means.argmax())]
    return proof


def test_a_proof_is_true_of_all_verdicts_and_takes_fewer_of_them(
    judged_world: JudgedRounds, server: CohereChatServer
) -> None:
    """Where the labels have a part in the objective."""
    weights = {PRECISION: 0.5, "ranking/ndcg_at_3": 0.5}
    objective = judged_world.config.objective.model_copy(update={"metrics": weights})
    config = judged_world.config.model_copy(update={"objective": objective})
    everything = judged_world.grid(server, config)
    calls = len(server.chats)
    proof = holds(judged_world.grid(server, config, stop={"margin": 0.05}), everything, 0.05)
    # Of two chunks with the same text the model is asked once.
    assert proof.verdicts - 2 <= len(server.chats) - calls <= proof.verdicts < proof.all_questions * 0.75
    assert calls <= proof.all_questions <= calls + 2


def test_a_dropped_cell_buys_nothing_further(judged_world: JudgedRounds, server: CohereChatServer) -> None:
    result = judged_world.grid(server, stop={"margin": 0.0})
    proof, grid = proof_of(result), swept_of(result).grid
    prompts = {chat.prompt for chat in server.chats}
    texts = {case.id: case.query for case in judged_world.bench.golden.cases}
    drawn, inside = proof.judged, [case.in_scope for case in grid.pool.cases]
    dropped = drawn.sum(axis=0) < proof.n
    assert dropped.any() and not dropped[proof.remaining].any()
    for cell in np.flatnonzero(dropped).tolist():
        scores = grid.matrix(metric_of(PRECISION), result.context)[:, cell]
        assert not np.isnan(scores[drawn[inside, cell]]).any()
    # On a query that none of these was judged on, the judge saw what the others return, and nothing else.
    late = np.flatnonzero(~drawn[:, dropped].any(axis=1) & drawn[:, ~dropped].all(axis=1)).tolist()
    for row in late:
        own = [list(grid.results(cell).observations())[row] for cell in np.flatnonzero(~dropped).tolist()]
        returned = {chunk.text for observation in own for chunk in observation.selection.chunks}
        assert sum(texts[grid.pool.cases[row].id] in prompt for prompt in prompts) == len(returned)
    assert late


def test_what_the_cheap_judge_foretells_is_proved_with_fewer_verdicts_of_the_strong_one(
    judged_world: JudgedRounds, servers: Servers
) -> None:
    result = by_both(judged_world, servers)
    asked = [len(server.chats) for server in servers]
    with CohereChatServer(servers[1].oracle) as alone:
        proof = holds(result, judged_world.grid(alone), 0.03)
        by_labels = proof_of(judged_world.grid(alone, stop={"margin": 0.03}))
    # Of two chunks with the same text the model is asked once.
    assert proof.all_questions - 2 <= asked[0] <= proof.all_questions
    assert proof.verdicts - 2 <= asked[1] <= proof.verdicts < 0.85 * by_labels.verdicts
    assert result.judging is not None and [tier.usage.calls for tier in result.judging.tiers] == asked
    sample = swept_of(result).grid.metrics[PRECISION].sample
    assert sample is not None and sample.name == f"{PRECISION} by {SMALL}"


@pytest.mark.parametrize("calls", [6, 60])
def test_a_budget_that_ends_in_the_first_round_or_with_the_cheap_judge_proves_nothing(
    judged_world: JudgedRounds, servers: Servers, calls: int
) -> None:
    budget: dict[str, Any] = {"budget": {"calls": calls}, "max_concurrency": 1}
    if calls == 6:
        result = judged_world.grid(servers[0], stop={"margin": 0.05}, **budget)
        assert swept_of(result).chosen is None and proof_of(result).remaining.all()
    else:
        result = by_both(judged_world, servers, **budget)
    assert sum(len(server.chats) for server in servers) == calls
    assert proof_of(result).chosen is None and not np.isfinite(proof_of(result).within).any()
    assert f"the budget of {calls} calls is spent" in "".join(result.notes)
    section = grid_section(swept_of(result))
    assert f"cannot be compared, as the budget of {calls} calls is spent, with" in section.proof
    if calls == 6:  # a call is a verdict
        assert f"with 6 of {proof_of(result).all_questions} verdicts" in section.proof

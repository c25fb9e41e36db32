"""A cascade whose strongest judge judges in rounds: two judges on the loopback, what each is asked, and proofs."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from evals.errors import JudgeError
from evals.grid.measure import Measured
from tests.support.chat_server import MODEL, CohereChatServer
from tests.support.grids import proof_of, swept_of
from tests.support.judged_rounds import PRECISION, JudgedRounds
from tests.support.judging import Flaws, Oracle
from tests.support.openai_server import OpenAIChatServer

SMALL, LARGE = f"cohere:{MODEL}", f"openai:{MODEL}"
Servers = tuple[CohereChatServer, OpenAIChatServer]
# The judges agree with each other, and less with the labels.
STRONG = Flaws(false_useful=0.1, false_useless=0.35, seed=3)


@pytest.fixture
def servers(judged_world: JudgedRounds, monkeypatch: pytest.MonkeyPatch) -> Iterator[Servers]:
    with (
        CohereChatServer(Oracle(judged_world.labels, flaws=STRONG)) as small,
        OpenAIChatServer(Oracle(judged_world.labels, flaws=STRONG)) as large,
    ):
        monkeypatch.setenv("OPENAI_BASE_URL", large.base_url)
        yield small, large


def judged(world: JudgedRounds, servers: Servers, **changes: Any) -> Measured:
    small, _ = servers
    env = {"COHERE_API_KEY": CohereChatServer.key, "OPENAI_API_KEY": OpenAIChatServer.key}
    return world.grid(small, env=env, second={"model": LARGE}, stop={"margin": 0.03}, **changes)


def test_what_the_cheap_judge_foretells_is_proved_with_fewer_verdicts_of_the_strong_one(
    judged_world: JudgedRounds, servers: Servers
) -> None:
    result = judged(judged_world, servers)
    _, large = servers
    proof = swept_of(result).proof
    assert proof is not None and swept_of(result).chosen is not None and result.judging is not None
    asked = [len(server.chats) for server in servers]
    # Of two chunks with the same text the model is asked once.
    assert proof.all_questions - 2 <= asked[0] <= proof.all_questions
    assert proof.questions - 2 <= asked[1] <= proof.questions < proof.all_questions
    assert [tier.usage.calls for tier in result.judging.tiers] == asked
    with CohereChatServer(large.oracle) as alone:
        everything = swept_of(judged_world.grid(alone)).grid.metrics[PRECISION].mean
        by_labels = swept_of(judged_world.grid(alone, stop={"margin": 0.03})).proof
    assert proof.within[swept_of(result).chosen] <= 0.03
    below, compared = everything.max() - everything, np.isfinite(proof.within)
    assert (below[compared] <= proof.within[compared] + 1e-9).all()
    assert by_labels is not None and proof.questions < 0.85 * by_labels.questions
    sample = swept_of(result).grid.metrics[PRECISION].sample
    assert sample is not None and sample.name == f"{PRECISION} by {SMALL}"


@pytest.mark.parametrize("refusing", [0, 1])
def test_a_judge_that_refuses_the_key_ends_it_after_one_query(
    judged_world: JudgedRounds, servers: Servers, refusing: int
) -> None:
    servers[refusing].key = "another"
    with pytest.raises(JudgeError, match=f"{(SMALL, LARGE)[refusing]} failed at the first call"):
        judged(judged_world, servers)
    assert len(servers[1 - refusing].chats) <= 24


def test_a_budget_that_ends_with_the_cheap_judge_proves_nothing(judged_world: JudgedRounds, servers: Servers) -> None:
    result = judged(judged_world, servers, budget={"calls": 60}, max_concurrency=1)
    assert sum(len(server.chats) for server in servers) == 60
    assert result.judging is not None and "the budget of 60 calls is spent" in result.judging.incomplete
    assert swept_of(result).proof is not None and proof_of(result).chosen is None

"""What a result costs to read."""

import pytest

from evals.metrics.declaration import summarise
from retrievers.embedding.tokens import count_tokens
from tests.support.observed import make_chunk, make_context, observe, results
from tests.support.scored import scored, scorer

context_tokens = scorer("cost/context_tokens")


def test_adds_up_the_recorded_tokens() -> None:
    returned = results(make_chunk("a", chunk_token_count=12), make_chunk("b", chunk_token_count=30))
    assert context_tokens(observe(returned), make_context()) == 42.0


def test_counts_where_nothing_is_recorded() -> None:
    text = "A topic carries messages."
    returned = results(make_chunk("a", text), make_chunk("b", chunk_token_count=30))
    assert context_tokens(observe(returned), make_context()) == 30 + count_tokens(text) > 34


def test_an_empty_result_costs_nothing() -> None:
    assert context_tokens(observe(), make_context()) == 0.0


@pytest.mark.parametrize("empties", [40, 39])
def test_tokens_are_an_amount_not_a_share(empties: int) -> None:
    """Forty empty results have no interval; with one of 400 tokens it reaches beyond 1."""
    observations = [observe()] * empties + [observe(results(make_chunk("a", chunk_token_count=400)))] * (40 - empties)
    found = summarise("cost/context_tokens", scored("cost/context_tokens", observations), "amount")
    assert found.value == 10.0 * (40 - empties)
    assert found.ci_high is None if empties == 40 else found.ci_high is not None and found.ci_high > 20

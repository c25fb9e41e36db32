import pytest

from retrievers.config.filters import to_filter
from tests.support.fuzz import fuzz, mutated

SEEDS = (
    "module = arms",
    "module = arms and (tags contains [qos, 'a b'] or chunk_token_count >= 200) and not sidebar_position > 5",
    'a in [1, 2.5, true, x] or not (b != "say \\"hi\\"")',
    "a == 1 or b <= -2 and c < 3",
)
JOINS = (" and ", " or ", "not ", "a = 1 or ", "a = 1 and ", "a in [", "1, ", " contains ")
TOKENS = (*"()[],.9-=\"'\\", *JOINS, "!=", ">=")


@pytest.mark.slow
def test_any_text_is_a_filter_or_refused() -> None:
    fuzzed = fuzz(to_filter, lambda random: mutated(random, SEEDS, TOKENS), refusals=ValueError)
    assert fuzzed.read > 1_000 and fuzzed.refused > 1_000

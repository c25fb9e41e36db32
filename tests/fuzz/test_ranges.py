from random import Random

import pytest

from evals.config.values import numbers
from tests.support.fuzz import fuzz, mutated

SEEDS = ("5", "1:20", "0:0.95:0.05", "1, 2, 5:9", "[0.1, 0.2]", "-1:1:0.25", "1e2:1e3:1e2")
TOKENS = (":", ",", ".", "0", "9", "-", "e", "1e-999999", "1e999999", "NaN", "inf", "_", "[", "]", "0:1:0.0001,")


@pytest.mark.slow
def test_any_range_is_read_or_refused() -> None:
    def make(random: Random) -> str:
        return mutated(random, SEEDS, TOKENS)

    fuzzed = fuzz(numbers, make, refusals=ValueError)
    assert fuzzed.read > 1_000 and fuzzed.refused > 1_000

import os
import signal
import time
from random import Random

import pytest

from retrievers.errors import ConfigError
from tests.support.fuzz import fuzz, mutated


def number(random: Random) -> int:
    return random.randrange(10)


def refuse_even(value: int) -> None:
    if value % 2 == 0:
        raise ConfigError("even")


def test_inputs_that_are_read_and_refused_are_counted() -> None:
    fuzzed = fuzz(refuse_even, number, count=200)
    assert fuzzed.read + fuzzed.refused == 200
    assert 60 < fuzzed.refused < 140
    assert fuzzed.slowest_s < 1 and fuzzed.peak_mb < 50


def fail(value: int) -> None:
    raise KeyError(value)


def exhaust(value: int) -> None:
    bytearray(300_000_000)[::4096] = b"x" * 73_243


def spin(value: int) -> None:
    begun = time.process_time()
    while time.process_time() - begun < 10.1:
        pass


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parse", "said"),
    [
        (fail, "KeyError"),
        (exhaust, "raised the peak of the memory by 3"),
        (spin, "took 10.1 s"),
        (lambda value: os.kill(os.getpid(), signal.SIGKILL), "ended the process with -9"),
        (lambda value: bytearray(1 << 40), "MemoryError"),
    ],
)
def test_an_input_that_breaks_the_parser_is_named(parse: object, said: str) -> None:
    assert callable(parse)
    with pytest.raises(AssertionError, match=f"(?s)input 0 of seed 7: .*{said}.*\n{number(Random('7:0'))}"):
        fuzz(parse, number, count=3, seed=7)


def test_mutations_repeat_themselves_and_differ() -> None:
    made = [mutated(Random(f"0:{number}"), ["a = b", "[c]"], ["not "]) for number in range(100)]
    assert made == [mutated(Random(f"0:{number}"), ["a = b", "[c]"], ["not "]) for number in range(100)]
    assert len(set(made)) > 60
    assert {"a = b", "[c]"} < set(made)

import pytest
from yaml import YAMLError

from retrievers.config.yaml_files import load_flag
from tests.support.fuzz import fuzz, mutated

VALUES = ("null", "2024-02-30", "0x", "0b", ".inf", ".nan", "1e999", '"\\0"', '"\\ud800"', "'1:9999'", "!!int ")
MARKS = ("  ", ": ", "- ", "- [", "&a ", "*a", "*r, ", "<<: ", "|\n", "? ", "a: &b [*b]", "---\n", "!!python/name:os ")
TOKENS = (*"\n[]{}'\">#%@`~9.", *VALUES, *MARKS, "name: ", "top_k: ", "retriever.", "key: 1\n", "sweep: ")
FLAGS = ("[a, b]", "{a: 1, b: [c, '*']}", "a, b", '"x"', "ranking/*, content/*")


@pytest.mark.slow
def test_any_flag_is_read_or_refused() -> None:
    fuzzed = fuzz(load_flag, lambda random: mutated(random, FLAGS, TOKENS, most=2_000), refusals=YAMLError)
    assert fuzzed.read > 1_000 and fuzzed.refused > 1_000

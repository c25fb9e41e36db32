from random import Random

import pytest
from yaml import YAMLError

from retrievers.config.filters import parse
from retrievers.config.yaml_files import load
from retrievers.errors import RetrievalError
from tests.support.fuzz import fuzz, mutated

SEEDS = (
    "module = arms",
    "module = arms and (tags contains [qos, 'a b'] or chunk_token_count >= 200) and not sidebar_position > 5",
    'a in [1, 2.5, true, x] or not (b != "say \\"hi\\"")',
    "a == 1 or b <= -2 and c < 3",
)
JOINS = (" and ", " or ", "not ", "a = 1 or ", "a = 1 and ", "a in [", "1, ", " contains ")
TOKENS = (*"()[],.9-=\"'\\", *JOINS, "!=", ">=")
MAPPINGS = (
    "{module: arms, any: [{tags: {contains: qos}}, {chunk_token_count: {gte: 200}}], not: {sidebar_position: {gt: 5}}}",
    "{a: [1, 2], b: {in: [x, y]}, c: {ne: 3}, all: [{d: true}, {e: 1.5}]}",
)
MARKS = (*"[]}", "{not: ", "{any: [", "{all: [", "]}", "a: 1, ", "null", "&a ", "*a", "1e999", ".inf", "{a: {gt: ")


@pytest.mark.slow
def test_any_text_is_a_filter_or_refused() -> None:
    fuzzed = fuzz(parse, lambda random: mutated(random, SEEDS, TOKENS))
    assert fuzzed.read > 1_000 and fuzzed.refused > 1_000


@pytest.mark.slow
def test_any_mapping_is_a_filter_or_refused() -> None:
    """Of the mutations only those that are YAML are given to the parser; others count as refused."""

    def make(random: Random) -> str:
        return mutated(random, MAPPINGS, MARKS, most=200)

    def parse_mapping(text: str) -> None:
        parse(load(text)[0])

    fuzzed = fuzz(parse_mapping, make, refusals=(RetrievalError, YAMLError))
    assert fuzzed.read > 1_000 and fuzzed.refused > 1_000

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.config.patterns import compiled, found

ADDRESSES = (
    "",
    "/docs/a",
    "/docs/arms/reach",
    "https://h:80/docs/a?b#d",
    "/docs/Grüße/ß",
    "/a\nb",
    "/docs/a1-b_2.html",
)


@pytest.mark.parametrize(
    "pattern",
    ["^/docs/", "topics$", "a|b", "/docs/[a-z]+(?:/[a-z]+)?$", r"\.html$", "(?i)ARMS", r"\bdocs\b", "", "(a)(b)?",
     "a{1,3}", "Grü+ße", r"[^/]+/[^/]+$", "(?P<name>reach)"],
)  # fmt: skip
def test_a_pattern_finds_what_the_standard_library_finds(pattern: str) -> None:
    for address in ADDRESSES:
        assert found(pattern, address) == bool(re.search(pattern, address)), address


@given(st.from_regex(r"\A(?:[ab/.]|[ab][*+?]|\([ab]\|[ab]\)){0,6}\Z"), st.text("ab/\n", max_size=12))
def test_simple_patterns_equal_the_standard_library(pattern: str, text: str) -> None:
    assert found(pattern, text) == bool(re.search(pattern, text))


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"^(/?[a-z-]+/?)+\d$", "/docs/" + "a-" * 5_000),
        (r"(a*)*b", "a" * 100_000),
        (r"(a|aa)+$", "a" * 100_000 + "b"),
        (r"(.*,){20}x", "1," * 5_000),
    ],
)
def test_no_pattern_hangs(pattern: str, text: str) -> None:
    begun = time.process_time()
    assert not found(pattern, text)
    assert time.process_time() - begun < 1


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(", "is not a regular expression of RE2's syntax"),
        ("[a", "missing ]: [a"),
        ("(?=a)", "no lookahead, lookbehind or back-reference: invalid perl operator: (?="),
        ("(?<!a)b", "no lookahead, lookbehind or back-reference"),
        (r"(a)\1", r"back-reference: invalid escape sequence: \1"),
        ("a{1001}", "invalid repetition size: {1001}"),
        ("a{99999999999}", "repeats more than 1,000 times"),
        ("a{2,99999999999}", "repeats more than 1,000 times"),
        ("((a{500}){500}){500}", "invalid repetition size"),
        ("(" * 999, "missing )"),
        ("(" * 5_000, "is a regular expression of 5,000 characters; expected at most 1,000"),
        ("a\ud800", "surrogates not allowed"),
    ],
)
def test_a_pattern_that_cannot_be_read_is_told(pattern: str, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        compiled(pattern)
    assert said in str(caught.value)


def test_an_address_that_is_not_unicode_is_no_fault() -> None:
    assert found("docs", "/docs/\udcff")

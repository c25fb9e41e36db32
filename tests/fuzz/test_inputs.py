"""Made inputs: each is read or refused, within its time and memory. A broken one is shrunk.

DRAWS=1 makes 2,000 for each parser, as the nightly run does; without it a hundred.
"""

import os
import re
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evals.cases.case import found
from evals.cases.pages import SourcePage
from evals.cases.reading import load_golden
from evals.config.experiment import DatasetConfig
from evals.config.values import numbers
from retrievers.config.filters import to_filter
from retrievers.errors import RetrievalError
from retrievers.indexing.chunking import chunk_page
from retrievers.indexing.markdown import PageError, parse_page
from retrievers.indexing.pages import html_page

# What breaks a parser may be long.
pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")
Input = TypeVar("Input")
Refusals = type[Exception]
COUNT = 2_000 if os.environ.get("DRAWS") else 100
MOST_S = 10.0
"""Processor time of one input, which a busy machine does not change; what hangs takes far more."""
MOST_MB = 200.0
"""How far all inputs together may raise the peak of the process's memory."""
ODD = ("\x00", "\x1b", "\ufeff", "\u2028", "\u202e", "\ud800", "é", "𝒳", "\t", "\r", "\n", "9" * 5_000, " " * 1_000)
SHARE = st.floats(0, 1)
SEEDS = Path(__file__).with_name("seeds")


def mutations(seeds: Sequence[str], more: str = "") -> st.SearchStrategy[str]:
    """Return seeds after up to eight changes: slices cut, doubled and borrowed, tokens inserted, once or often."""
    known = {*more.split(), *(found for seed in seeds for found in re.findall(r"\w+|[^\w\s]+|\s+", seed))}
    token, times = st.sampled_from(sorted(known)), st.sampled_from((2, 5, 20, 100, 500, 10_000))
    borrowed = st.builds(lambda seed, a, b: seed[_at(a, seed) : _at(b, seed)], st.sampled_from(seeds), SHARE, SHARE)
    piece = st.one_of(st.just(""), token, st.sampled_from(ODD), st.builds(str.__mul__, token, times), borrowed)
    inserted = st.builds(lambda place, text: (place, place, text), SHARE, piece)
    change = st.one_of(inserted, st.tuples(SHARE, SHARE, piece))
    return st.builds(_changed, st.sampled_from(seeds), st.lists(change, max_size=8))


def _changed(text: str, changes: Sequence[tuple[float, float, str]]) -> str:
    for begin, end, piece in changes:
        text = text[: _at(begin, text)] + piece + text[_at(end, text) :]
    return text


def _at(share: float, text: str) -> int:
    return int(share * len(text))


def fuzz(
    parse: Callable[[Input], object], inputs: st.SearchStrategy[Input], refusals: Refusals = RetrievalError
) -> tuple[int, int]:
    """Feed a parser; return how many inputs it read, and how many it refused by these errors."""
    read = refused = 0
    before = _peak_mb()

    @settings(max_examples=COUNT, deadline=None, derandomize=True, suppress_health_check=[*HealthCheck])
    @given(inputs)
    def each(made: Input) -> None:
        nonlocal read, refused
        begun = time.process_time()
        try:
            parse(made)
            read += 1
        except refusals:
            refused += 1
        assert time.process_time() - begun < MOST_S

    each()
    assert _peak_mb() - before < MOST_MB
    return read, refused


def _peak_mb() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def encoded(text: str) -> bytes:
    """UTF-8, in which half of a surrogate pair is no character."""
    return text.encode("utf-8", "surrogatepass")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parse", "seeds", "more"),
    [
        (to_filter, "filters.txt", "( ) [ ] ' \\ != a=1 in<"),
        (numbers, "ranges.txt", "NaN inf _ 1e-999999 1e999999 0:1:0.0001,"),
    ],
    ids=["a filter", "a range"],
)
def test_any_text_is_one_or_refused(parse: Callable[[str], object], seeds: str, more: str) -> None:
    read, refused = fuzz(parse, mutations((SEEDS / seeds).read_text("utf-8").splitlines(), more), ValueError)
    assert min(read, refused) > COUNT / 20


LINES = [file.read_text("utf-8") for file in sorted(SEEDS.glob("*.jsonl"))]
TABLES = [file.read_text("utf-8") for file in sorted(SEEDS.glob("*.csv"))]
BEIR = ('{"_id": "1", "text": "one"}\n{"_id": "2", "text": "two", "metadata": {}}',)
JSON = "\\ud800 \\u0000 null NaN 1e999 -1 a{99} (?= +)+ ( \\"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seeds"), [("g.jsonl", LINES), ("g.json", LINES), ("g.csv", TABLES)])
def test_any_file_is_golden_data_or_refused(name: str, seeds: Sequence[str], tmp_path: Path) -> None:
    def parse(text: str) -> None:
        (tmp_path / name).write_bytes(encoded(text))
        for case in load_golden(DatasetConfig(path=tmp_path / name)).cases:
            if case.source_url_pattern:
                found(case.source_url_pattern, "/docs/" + "a-" * 200)

    read, refused = fuzz(parse, mutations(seeds, JSON))
    assert min(read, refused) > COUNT / 40


@pytest.mark.slow
def test_any_test_collection_is_imported_or_refused(tmp_path: Path) -> None:
    (tmp_path / "qrels").mkdir()

    def parse(made: tuple[str, str]) -> None:
        for file, text in zip(("queries.jsonl", "qrels/test.tsv"), made, strict=True):
            (tmp_path / file).write_bytes(encoded(text))
        load_golden(DatasetConfig(path=tmp_path))

    judgements = mutations(["1\td\t1\n2\td\t1"], "9 - d")
    read, refused = fuzz(parse, st.tuples(mutations(BEIR, JSON), judgements))
    assert min(read, refused) > COUNT / 40


MARKDOWN = [file.read_text("utf-8") for file in sorted(SEEDS.glob("*.md"))]
MARKDOWN_MORE = "![ ~~~ <A <!-- &# [a]: export import &a *a <<: ../ \\uD800 a."
HTML = [file.read_text("utf-8") for file in sorted(SEEDS.glob("*.html"))]
HTML_MORE = (
    "<! <![ <![foo[ ]]> <? & &# </ /> <plaintext> <textarea> <select><option> <frameset> <template> <svg> <table> <td>"
    " <script> </script> <title> <nav> <p> </p> <a href= <h1> <b> <div>"
)


def index(text: str) -> None:
    page = parse_page(text.encode(errors="replace").decode(), "guide/page.md")  # a file is UTF-8
    source = SourcePage(page)
    for chunk in chunk_page(page, 16, lambda part: len(part.split()))[:20]:
        assert all(word in page.text for word in chunk.text.split())
        source.facts(chunk)


def read_html(text: str) -> None:
    page = SourcePage(html_page(text, "/docs/page"))
    page.text.encode()
    assert next(page.occurrences(page.text[:20]), None) is not None or not page.text


@pytest.mark.slow
def test_any_markdown_is_indexed_or_refused() -> None:
    read, refused = fuzz(index, mutations(MARKDOWN, MARKDOWN_MORE), PageError)
    assert read > COUNT / 2 and refused > COUNT / 100


@pytest.mark.slow
def test_any_page_of_a_site_is_read() -> None:
    assert fuzz(read_html, mutations(HTML, HTML_MORE), PageError)[1] == 0

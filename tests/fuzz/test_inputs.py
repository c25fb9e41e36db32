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
from typing import Any, NamedTuple

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


def _peak_mb() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def seeds(ending: str) -> list[str]:
    return [file.read_text("utf-8") for file in sorted(SEEDS.glob(f"*{ending}"))]


def golden_data(name: str) -> Callable[[str, Path], None]:
    def parse(text: str, folder: Path) -> None:
        (folder / name).write_bytes(encoded(text))
        for case in load_golden(DatasetConfig(path=folder / name)).cases:
            if case.source_url_pattern:
                found(case.source_url_pattern, "/docs/" + "a-" * 200)

    return parse


def collection(made: tuple[str, str], folder: Path) -> None:
    (folder / "qrels").mkdir(exist_ok=True)
    for file, text in zip(("queries.jsonl", "qrels/test.tsv"), made, strict=True):
        (folder / file).write_bytes(encoded(text))
    load_golden(DatasetConfig(path=folder))


def index(text: str, _: Path) -> None:
    page = parse_page(text.encode(errors="replace").decode(), "guide/page.md")  # a file is UTF-8
    source = SourcePage(page)
    for chunk in chunk_page(page, 16, lambda part: len(part.split()))[:20]:
        assert all(word in page.text for word in chunk.text.split())
        source.facts(chunk)


def read_html(text: str, _: Path) -> None:
    page = SourcePage(html_page(text, "/docs/page"))
    page.text.encode()
    assert next(page.occurrences(page.text[:20]), None) is not None or not page.text


class Target(NamedTuple):
    parse: Callable[[Any, Path], object]
    inputs: st.SearchStrategy[Any]
    read: float
    refused: float
    refusals: type[Exception] = RetrievalError


FILTERS = mutations(seeds("filters.txt")[0].splitlines(), "( ) [ ] ' \\ != a=1 in<")
RANGES = mutations(seeds("ranges.txt")[0].splitlines(), "NaN inf _ 1e-999999 1e999999 0:1:0.0001,")
JSON = "\\ud800 \\u0000 null NaN 1e999 -1 a{99} (?= +)+ ( \\"
LINES, TABLES = (mutations(seeds(ending), JSON) for ending in (".jsonl", ".csv"))
BEIR = mutations(['{"_id": "1", "text": "one"}\n{"_id": "2", "text": "two", "metadata": {}}'], JSON)
JUDGEMENTS = mutations(["1\td\t1\n2\td\t1"], "9 - d")
MARKDOWN = mutations(seeds(".md"), "![ ~~~ <A <!-- &# [a]: export import &a *a <<: ../ \\uD800 a.")
HTML = mutations(
    seeds(".html"),
    "<! <![ <![foo[ ]]> <? & &# </ /> <plaintext> <textarea> <select><option> <frameset> <template> <svg> <table> <td>"
    " <script> </script> <title> <nav> <p> </p> <a href= <h1> <b> <div>",
)
TARGETS = {
    "a filter": Target(lambda text, _: to_filter(text), FILTERS, 1 / 20, 1 / 20, ValueError),
    "a range": Target(lambda text, _: numbers(text), RANGES, 1 / 20, 1 / 20, ValueError),
    **{name: Target(golden_data(name), LINES, 1 / 40, 1 / 40) for name in ("g.jsonl", "g.json")},
    "g.csv": Target(golden_data("g.csv"), TABLES, 1 / 40, 1 / 40),
    "a test collection": Target(collection, st.tuples(BEIR, JUDGEMENTS), 1 / 40, 1 / 40),
    "Markdown": Target(index, MARKDOWN, 1 / 2, 1 / 100, PageError),
    "a page of a site": Target(read_html, HTML, 1 / 2, 0, PageError),  # nested too deeply
}


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_any_input_is_read_or_refused(target: Target, tmp_path: Path) -> None:
    read = refused = 0
    before = _peak_mb()

    @settings(max_examples=COUNT, deadline=None, derandomize=True, suppress_health_check=[*HealthCheck])
    @given(target.inputs)
    def each(made: Any) -> None:
        nonlocal read, refused
        begun = time.process_time()
        try:
            target.parse(made, tmp_path)
            read += 1
        except target.refusals:
            refused += 1
        assert time.process_time() - begun < MOST_S

    each()
    assert _peak_mb() - before < MOST_MB
    assert read > COUNT * target.read and refused >= COUNT * target.refused

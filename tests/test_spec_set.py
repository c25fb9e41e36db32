"""The set of the specifications: three sections for every query, whatever the chunking."""

from pathlib import Path
from typing import Any

import pytest

from evals.cases.case import Case
from evals.cases.reading import load_golden
from evals.cases.relevance import normalise, resolve
from evals.config.experiment import DatasetConfig
from retrievers.indexing.chunking import chunk_page
from retrievers.indexing.pages import read_corpus
from retrievers.records import Chunk

NAMED_IN_SCOPE = {
    "how do ROS 2 topics work",
    "What is forward kinematics?",
    "humanoid robot kinematics",
    "ROS2 nodes and topics",
    "How do I set up Isaac Sim?",
}
NAMED_OUT_OF_SCOPE = {"What is the capital of France?", "quantum computing in robotics"}


@pytest.fixture(scope="module")
def cases(handbook: Path) -> tuple[Case, ...]:
    return load_golden(DatasetConfig(path=handbook / "spec.jsonl")).cases


def chunks(handbook: Path, max_tokens: int, **settings: Any) -> list[Chunk]:
    pages = read_corpus(handbook / "docs").pages
    return [chunk for page in pages for chunk in chunk_page(page, max_tokens, lambda text: len(text) // 4, **settings)]


def test_it_holds_the_specifications_own_examples(cases: tuple[Case, ...]) -> None:
    inside = {case.query for case in cases if case.in_scope}
    outside = {case.query for case in cases if not case.in_scope}
    assert (len(inside), len(outside)) == (25, 8)
    assert inside >= NAMED_IN_SCOPE
    assert outside >= NAMED_OUT_OF_SCOPE


def test_every_query_expects_three_sections_and_at_least_three_chunks(cases: tuple[Case, ...]) -> None:
    for case in cases:
        if case.in_scope:
            assert len({(item.source_url, item.heading) for item in case.evidence}) == len(case.evidence) == 3, case.id
            assert case.min_results == 3
            assert case.reference_answer


@pytest.mark.parametrize("merge_small", [False, True])
@pytest.mark.parametrize("overlap", [0, 32])
@pytest.mark.parametrize("max_tokens", [64, 256, 512, 4096])
@pytest.mark.slow
def test_every_query_has_three_relevant_chunks_however_the_pages_are_cut(
    handbook: Path, cases: tuple[Case, ...], max_tokens: int, overlap: int, merge_small: bool
) -> None:
    cut = chunks(handbook, max_tokens, context="path", overlap=overlap, merge_small=merge_small)
    relevance = resolve(cases, cut, {})
    assert not [case.id for case in cases if case.in_scope and len(relevance[case.id].grades) < 3]


def test_every_quote_stands_word_for_word_under_its_heading(handbook: Path, cases: tuple[Case, ...]) -> None:
    whole = chunks(handbook, 100_000)
    for case in cases:
        for item in case.evidence:
            assert item.quote is not None
            texts = [c.text for c in whole if (c.source_url, c.heading) == (item.source_url, item.heading)]
            assert any(normalise(item.quote) in normalise(text) for text in texts), (case.id, item.quote)

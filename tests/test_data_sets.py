"""The data sets that come with the project keep what their README and the metrics promise."""

import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from evals.cases.case import Case, Evidence
from evals.cases.reading import load_golden
from evals.cases.relevance import resolve
from evals.config.experiment import DatasetConfig
from evals.golden.command import main
from retrievers.embedding.tokens import count_tokens
from retrievers.indexing.chunking import DEFAULT_MAX_TOKENS, chunk_page
from retrievers.indexing.pages import read_corpus
from retrievers.records import Chunk
from tests.support.command import call

FOLDER = Path(__file__).parents[1] / "datasets" / "physical_ai_handbook"
OF_SPECIFICATIONS = {
    True: {
        "how do ROS 2 topics work", "What is forward kinematics?", "humanoid robot kinematics",
        "ROS2 nodes and topics", "How do I set up Isaac Sim?",
    },
    False: {"What is the capital of France?", "quantum computing in robotics"},
}  # fmt: skip
"""Queries that the specifications name, in scope and out of it."""


def normal(text: str) -> str:
    return " ".join(text.split())


@cache
def pages() -> dict[str, str]:
    """The text of the pages by their address, white space normalised."""
    docs = FOLDER / "docs"
    return {
        f"/docs/{file.relative_to(docs).with_suffix('')}": normal(file.read_text(encoding="utf-8"))
        for file in docs.rglob("*.md*")
    }


@cache
def cases(name: str = "golden", in_scope: bool | None = None) -> list[Case]:
    """The cases of a file, or those in scope or out of it."""
    known = load_golden(DatasetConfig(path=FOLDER / f"{name}.jsonl")).cases
    return [case for case in known if in_scope in (None, case.in_scope)]


@cache
def chunks(max_tokens: int = DEFAULT_MAX_TOKENS, **settings: Any) -> tuple[Chunk, ...]:
    found = read_corpus(FOLDER / "docs").pages
    return tuple(chunk for page in found for chunk in chunk_page(page, max_tokens, count_tokens, **settings))


def sections_of(case: Case) -> set[tuple[str | None, str | None]]:
    return {(evidence.source_url, evidence.heading) for evidence in case.evidence}


def best_of(case: Case) -> list[Evidence]:
    return [evidence for evidence in case.evidence if evidence.grade == 3]


@pytest.mark.parametrize("name", ["golden", "spec"])
def test_golden_check_says_of_queries_types_splits_and_coverage_what_it_said(
    name: str, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    done = call(main, ["check", FOLDER / f"{name}.jsonl", "--docs", FOLDER / "docs"], capsys)
    assert (done.code, done.err) == (0, "")
    assert done.out.replace(str(FOLDER), "FOLDER") == snapshot


def test_the_readme_states_the_numbers_of_the_data_and_each_split_is_of_every_kind() -> None:
    readme = normal((FOLDER / "README.md").read_text("utf-8"))
    inside, outside = cases(in_scope=True), cases(in_scope=False)
    kinds = Counter(case.query_type for case in outside)
    for statement in (
        f"{len(pages())} pages",
        f"{len(cases())} queries",
        f"{len(inside)} in scope",
        f"{sum(len(sections_of(case)) >= 3 for case in inside)} of them with evidence in three or more sections",
        f"{len(outside)} out of scope ({kinds['general']} of general knowledge, {kinds['near_domain']} near",
    ):
        assert statement in readme
    for split in ("dev", "test"):
        types = Counter(case.query_type for case in inside if case.split == split)
        assert len(types) == 7 and min(types.values()) >= 5
        asked = {(e.source_url or "").split("/")[2] for case in inside if case.split == split for e in best_of(case)}
        assert len(asked) == 5, "every module"
    together: dict[frozenset[tuple[str | None, str | None]], set[str | None]] = {}
    for case in inside:
        together.setdefault(frozenset((e.source_url, e.quote) for e in best_of(case)), set()).add(case.split)
    assert all(len(splits) == 1 for splits in together.values()), "queries of the same evidence are in one split"


def test_evidence_is_graded_and_stands_word_for_word_once_on_its_page_and_not_in_the_query() -> None:
    for case in cases(in_scope=True):
        assert {evidence.grade for evidence in case.evidence} <= {1, 2, 3} and best_of(case)
        for evidence in case.evidence:
            quote = normal(evidence.quote or "")
            assert len(quote.split()) >= 4 and pages()[evidence.source_url or ""].count(quote) == 1
            assert not fours(case.query) & fours(quote), f"{case.id} copies four words of its evidence"


def fours(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return set(zip(words, words[1:], words[2:], words[3:], strict=False))


def test_evidence_meets_every_expectation() -> None:
    by_id, relevance = {chunk.chunk_id: chunk for chunk in chunks()}, resolve(cases(), chunks(), {})
    for case in cases(in_scope=True):
        holders = [by_id[chunk_id] for (chunk_id,) in relevance[case.id].items]
        assert [chunk.heading for chunk in holders] == [evidence.heading for evidence in case.evidence]
        text = normal(" ".join(f"{c.text} {c.section_path} {' '.join(c.tags or ())}" for c in holders)).lower()
        assert [topic for topic in case.expected_topics if topic.lower() not in text] == [], case.id
        assert len({chunk.chunk_id for chunk in holders}) >= case.min_results, case.id
        pattern = case.source_url_pattern
        assert not pattern or any(re.search(pattern, c.source_url or "") for c in holders), case.id


def test_the_set_of_the_specifications_expects_three_sections_of_every_query() -> None:
    for in_scope, named in OF_SPECIFICATIONS.items():
        assert {case.query for case in cases("spec", in_scope)} >= named
    for case in cases("spec", in_scope=True):
        assert len(sections_of(case)) == len(case.evidence) == case.min_results == 3, case.id


@pytest.mark.slow
@pytest.mark.parametrize("merge_small", [False, True])
@pytest.mark.parametrize("overlap", [0, 32])
@pytest.mark.parametrize("max_tokens", [64, 256, 512, 4096])
def test_its_queries_have_three_relevant_chunks_however_the_pages_are_cut(
    max_tokens: int, overlap: int, merge_small: bool
) -> None:
    cut = chunks(max_tokens, context="path", overlap=overlap, merge_small=merge_small)
    grades = {key: found.grades for key, found in resolve(cases("spec"), cut, {}).items()}
    assert not [case.id for case in cases("spec", in_scope=True) if len(grades[case.id]) < 3]

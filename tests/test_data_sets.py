"""The data sets that come with the project keep what their README and the metrics promise."""

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from evals.cases.case import Case
from evals.cases.reading import load_golden
from evals.cases.relevance import resolve
from evals.config.experiment import DatasetConfig
from evals.golden.command import main
from retrievers.embedding.tokens import count_tokens
from retrievers.indexing.chunking import DEFAULT_MAX_TOKENS, chunk_page
from retrievers.indexing.pages import read_corpus
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
def cases(name: str = "golden", in_scope: bool | None = None) -> list[Case]:
    known = load_golden(DatasetConfig(path=FOLDER / f"{name}.jsonl")).cases
    return [case for case in known if in_scope in (None, case.in_scope)]


def sections_of(case: Case) -> set[tuple[str | None, str | None]]:
    return {(evidence.source_url, evidence.heading) for evidence in case.evidence}


@pytest.mark.parametrize("name", ["golden", "spec"])
def test_golden_check_says_of_queries_types_splits_and_coverage_what_it_said(
    name: str, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    done = call(main, ["check", FOLDER / f"{name}.jsonl", "--docs", FOLDER / "docs"], capsys)
    assert (done.code, done.err) == (0, "")
    assert done.out.replace(str(FOLDER), "FOLDER") == snapshot


def test_the_readme_states_the_numbers_of_the_data_and_queries_of_the_same_evidence_are_in_one_split() -> None:
    readme = normal((FOLDER / "README.md").read_text("utf-8"))
    pages = len([*(FOLDER / "docs").rglob("*.md*")])
    inside, outside = cases(in_scope=True), cases(in_scope=False)
    kinds = Counter(case.query_type for case in outside)
    for statement in (
        f"{pages} pages",
        f"{len(cases())} queries",
        f"{len(inside)} in scope",
        f"{sum(len(sections_of(case)) >= 3 for case in inside)} of them with evidence in three or more sections",
        f"{len(outside)} out of scope ({kinds['general']} of general knowledge, {kinds['near_domain']} near",
    ):
        assert statement in readme
    together: dict[frozenset[tuple[str | None, str | None]], set[str | None]] = {}
    for case in inside:
        best = frozenset((e.source_url, e.quote) for e in case.evidence if e.grade == 3)
        together.setdefault(best, set()).add(case.split)
    assert all(len(splits) == 1 for splits in together.values())


def test_evidence_meets_every_expectation() -> None:
    pages = read_corpus(FOLDER / "docs").pages
    chunks = [chunk for page in pages for chunk in chunk_page(page, DEFAULT_MAX_TOKENS, count_tokens)]
    by_id, relevance = {chunk.chunk_id: chunk for chunk in chunks}, resolve(cases(), chunks, {})
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

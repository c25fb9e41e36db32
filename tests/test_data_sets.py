"""The data sets that come with the project keep what their README and the metrics promise.

Pages and quotes are read here by hand, without the project's own parser, except where the subject is how they resolve.
"""

import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
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
HEADING = re.compile(r"(#{1,6}) (.+)")
OF_SPECIFICATIONS = {
    True: {
        "how do ROS 2 topics work", "What is forward kinematics?", "humanoid robot kinematics",
        "ROS2 nodes and topics", "How do I set up Isaac Sim?",
    },
    False: {"What is the capital of France?", "quantum computing in robotics"},
}  # fmt: skip
"""Queries that the specifications name, in scope and out of it."""


class HandPage:
    """A page cut at its headings by a few lines of code that know fences and nothing else."""

    def __init__(self, text: str) -> None:
        _, matter, self.body = text.split("---\n", 2)
        self.matter: dict[str, Any] = yaml.safe_load(matter)
        self.sections, self.code, self.prose = list[tuple[str, str]](), list[str](), list[str]()
        heading, lines, in_code = self.matter["title"], list[str](), False
        for line in self.body.split("\n"):
            fence = line.lstrip().startswith("```")
            if not in_code and not fence and (found := HEADING.fullmatch(line)):
                self.sections.append((heading, normal("\n".join(lines))))
                heading, lines = found[2].replace("`", ""), []
            else:
                lines.append(line)
                (self.code if in_code else self.prose).append("" if fence else line)
            in_code ^= fence
        self.sections.append((heading, normal("\n".join(lines))))


def normal(text: str) -> str:
    return " ".join(text.split())


@cache
def pages() -> dict[str, HandPage]:
    """The pages by their address."""
    files = sorted((FOLDER / "docs").rglob("*.md*"))
    return {
        f"/docs/{file.relative_to(FOLDER / 'docs').with_suffix('')}": HandPage(file.read_text(encoding="utf-8"))
        for file in files
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


def test_pages_are_whole_of_every_kind_and_read_by_the_projects_parser_as_by_hand() -> None:
    texts = [text for page in pages().values() for _, text in page.sections if len(text) > 80]
    assert len(set(texts)) == len(texts), "no section is written twice"
    assert sum(any(HEADING.fullmatch(line) for line in page.code) for page in pages().values()) >= 15
    for mark, least in (("|", 15), (":::", 15), ("<Tabs>", 1), ("import ", 1)):
        assert sum(any(line.startswith(mark) for line in page.prose) for page in pages().values()) >= least
    corpus = read_corpus(FOLDER / "docs")
    assert corpus.faults == () and {page.source_url for page in corpus.pages} == set(pages())
    for page in corpus.pages:
        by_hand = pages()[page.source_url]
        assert isinstance(by_hand.matter["sidebar_position"], int) and len(by_hand.matter["tags"]) >= 2
        heads = [section.path[-1] if section.path else page.title for section in page.sections]
        assert heads == [heading for heading, text in by_hand.sections if text]
        prose = [line for line in by_hand.prose if not line.startswith(("import ", "<", "#"))]
        chunked = Counter(word for c in chunks() if c.source_url == page.source_url for word in c.text.split())
        lost = Counter(" ".join(prose).split()) - chunked
        assert not lost.keys() - {":::"}, "no prose is lost but the end of an admonition that was cut"


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


def test_evidence_is_graded_and_stands_word_for_word_once_under_its_heading() -> None:
    for case in (*cases(in_scope=True), *cases("spec", in_scope=True)):
        assert case.reference_answer and len(case.reference_answer.split()) >= 5
        named = [(e.source_url, e.heading, normal(e.quote or "")) for e in case.evidence]
        assert len(set(named)) == len(named), case.id
        for address, heading, quote in named:
            page = pages()[address or ""]
            assert any(name == heading and quote in text for name, text in page.sections), (case.id, quote)
    for case in cases(in_scope=True):
        assert {evidence.grade for evidence in case.evidence} <= {1, 2, 3} and best_of(case)
        for evidence in case.evidence:
            quote = normal(evidence.quote or "")
            assert len(quote.split()) >= 4 and normal(pages()[evidence.source_url or ""].body).count(quote) == 1
            assert not fours(case.query) & fours(quote), f"{case.id} copies four words of its evidence"


def fours(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return set(zip(words, words[1:], words[2:], words[3:], strict=False))


def test_evidence_resolves_to_the_chunk_that_holds_most_of_it_and_meets_every_expectation() -> None:
    by_id, relevance = {chunk.chunk_id: chunk for chunk in chunks()}, resolve(cases(), chunks(), {})
    for case in cases(in_scope=True):
        holders = [by_id[chunk_id] for (chunk_id,) in relevance[case.id].items]
        for evidence, chunk in zip(case.evidence, holders, strict=True):
            quote, text = normal(evidence.quote or ""), normal(chunk.text)
            assert (chunk.source_url, chunk.heading) == (evidence.source_url, evidence.heading)
            half = len(quote) // 2
            assert quote in text or any(quote[start : start + half] in text for start in range(half + 1))
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

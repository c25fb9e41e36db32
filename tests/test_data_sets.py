"""The data sets that come with the project keep what their README and the metrics promise.

Pages and quotes are read here by hand, without the project's own parser, except where the subject is how they resolve.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from evals.cases.case import Case, Evidence
from evals.cases.reading import load_golden
from evals.cases.relevance import Relevance, resolve
from evals.config.experiment import DatasetConfig
from retrievers.embedding.tokens import count_tokens
from retrievers.indexing.chunking import DEFAULT_MAX_TOKENS, chunk_page
from retrievers.indexing.pages import read_corpus
from retrievers.records import Chunk

FOLDER = Path(__file__).parents[1] / "datasets" / "physical_ai_handbook"
MODULES = ("0-foundations", "1-ros2", "2-digital-twin", "3-isaac", "4-vla-humanoids")
NEIGHBOURS = {
    "module-1-ros2": ("topics", "services", "actions"),
    "module-2-digital-twin": ("urdf", "sdf"),
    "module-0-foundations": (
        "forward-kinematics", "inverse-kinematics", "imu", "force-torque-sensors", "joint-encoders"
    ),
}  # fmt: skip
"""Pages that a weak retriever confuses."""
IN_SCOPE_TYPES = {"factual", "conceptual", "procedural", "comparison", "keyword", "colloquial", "misspelt"}
HEADING = re.compile(r"(#{1,6}) (.+)")
OF_SPECIFICATIONS = {
    True: {
        "how do ROS 2 topics work", "What is forward kinematics?", "humanoid robot kinematics",
        "ROS2 nodes and topics", "How do I set up Isaac Sim?",
    },
    False: {"What is the capital of France?", "quantum computing in robotics"},
}  # fmt: skip
"""Queries that the specifications name, in scope and out of it."""


@dataclass(frozen=True)
class HandPage:
    """A page cut at its headings by a few lines of code that know fences and nothing else."""

    matter: dict[str, Any]
    body: str
    sections: list[tuple[str, str]] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    prose: list[str] = field(default_factory=list)


def normal(text: str) -> str:
    return " ".join(text.split())


def read_page(file: Path) -> HandPage:
    _, matter, body = file.read_text(encoding="utf-8").split("---\n", 2)
    page = HandPage(yaml.safe_load(matter), body)
    heading, lines, in_code = page.matter["title"], list[str](), False
    for line in body.split("\n"):
        fence = line.lstrip().startswith("```")
        if not in_code and not fence and (found := HEADING.fullmatch(line)):
            page.sections.append((heading, normal("\n".join(lines))))
            heading, lines = found[2].replace("`", ""), []
        else:
            lines.append(line)
            (page.code if in_code else page.prose).append("" if fence else line)
        in_code ^= fence
    page.sections.append((heading, normal("\n".join(lines))))
    return page


@cache
def pages() -> dict[str, HandPage]:
    """The pages by their address."""
    files = sorted((FOLDER / "docs").rglob("*.md*"))
    return {f"/docs/{file.relative_to(FOLDER / 'docs').with_suffix('')}": read_page(file) for file in files}


@cache
def cases(name: str = "golden", in_scope: bool | None = None) -> list[Case]:
    """The cases of a file, or those in scope or out of it."""
    known = load_golden(DatasetConfig(path=FOLDER / f"{name}.jsonl")).cases
    return [case for case in known if in_scope in (None, case.in_scope)]


@cache
def chunks(max_tokens: int = DEFAULT_MAX_TOKENS, **settings: Any) -> tuple[Chunk, ...]:
    found = read_corpus(FOLDER / "docs").pages
    return tuple(chunk for page in found for chunk in chunk_page(page, max_tokens, count_tokens, **settings))


@cache
def relevance() -> dict[str, Relevance]:
    return resolve(cases(), chunks(), {})


def sections_of(case: Case) -> set[tuple[str | None, str | None]]:
    return {(evidence.source_url, evidence.heading) for evidence in case.evidence}


def best_of(case: Case) -> list[Evidence]:
    return [evidence for evidence in case.evidence if evidence.grade == 3]


def test_pages_are_many_whole_and_of_every_kind() -> None:
    modules = Counter(address.split("/")[2].removeprefix("module-") for address in pages())
    assert set(modules) == set(MODULES) and min(modules.values()) >= 6 and len(pages()) >= 30
    assert sum(len(normal(" ".join(page.prose)).split()) for page in pages().values()) >= 20_000
    for page in pages().values():
        title, position, tags = (page.matter[name] for name in ("title", "sidebar_position", "tags"))
        assert title and isinstance(position, int) and len(tags) >= 2 and all(isinstance(tag, str) for tag in tags)
    assert {f"/docs/{module}/{name}" for module, names in NEIGHBOURS.items() for name in names} <= set(pages())
    assert sum(any(HEADING.fullmatch(line) for line in page.code) for page in pages().values()) >= 15
    for mark, least in (("|", 15), (":::", 15), ("<Tabs>", 1), ("import ", 1)):
        assert sum(any(line.startswith(mark) for line in page.prose) for page in pages().values()) >= least
    texts = [text for page in pages().values() for _, text in page.sections if len(text) > 80]
    assert len(set(texts)) == len(texts), "no section is written twice"


def test_the_projects_own_parser_agrees_with_the_reading_by_hand() -> None:
    corpus = read_corpus(FOLDER / "docs")
    assert corpus.faults == () and {page.source_url for page in corpus.pages} == set(pages())
    for page in corpus.pages:
        by_hand = pages()[page.source_url]
        heads = [section.path[-1] if section.path else page.title for section in page.sections]
        assert heads == [heading for heading, text in by_hand.sections if text]
        prose = [line for line in by_hand.prose if not line.startswith(("import ", "<", "#"))]
        chunked = Counter(word for c in chunks() if c.source_url == page.source_url for word in c.text.split())
        assert not Counter(" ".join(prose).split()) - chunked, "no prose is lost"


def test_queries_are_distinct_and_of_every_kind_in_both_splits() -> None:
    inside, outside = cases(in_scope=True), cases(in_scope=False)
    assert len({case.id for case in cases()}) == len(cases())
    assert len({" ".join(re.findall(r"\w+", case.query.lower())) for case in cases()}) == len(cases())
    assert len(inside) >= 80 and sum(len(sections_of(case)) >= 3 for case in inside) >= 40
    for split in ("dev", "test"):
        types = Counter(case.query_type for case in inside if case.split == split)
        assert set(types) == IN_SCOPE_TYPES and min(types.values()) >= 5
        asked = {(e.source_url or "").split("/")[2] for case in inside if case.split == split for e in best_of(case)}
        assert asked == {f"module-{module}" for module in MODULES}
    kinds = Counter(case.query_type for case in outside)
    assert set(kinds) == {"general", "near_domain"} and kinds["general"] >= 8 and kinds["near_domain"] >= 16
    for kind in (IN_SCOPE_TYPES, {"general"}, {"near_domain"}):
        splits = Counter(case.split for case in cases() if case.query_type in kind)
        assert set(splits) == {"dev", "test"} and splits["dev"] == splits["test"]
    together: dict[frozenset[tuple[str | None, str | None]], set[str | None]] = {}
    for case in inside:
        together.setdefault(frozenset((e.source_url, e.quote) for e in best_of(case)), set()).add(case.split)
    assert all(len(splits) == 1 for splits in together.values()), "queries of the same evidence are in one split"


def test_the_readme_states_the_numbers_of_the_data() -> None:
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


def resolved() -> Iterator[tuple[Case, list[Chunk]]]:
    """Yield each case in scope with the one chunk that holds each of its evidence."""
    by_id = {chunk.chunk_id: chunk for chunk in chunks()}
    for case in cases(in_scope=True):
        items = relevance()[case.id].items
        assert [len(holders) for holders in items] == [1] * len(case.evidence)
        yield case, [by_id[chunk_id] for (chunk_id,) in items]


def test_evidence_resolves_to_the_chunk_that_holds_most_of_it_and_meets_every_expectation() -> None:
    for case, holders in resolved():
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
    inside, outside = cases("spec", in_scope=True), cases("spec", in_scope=False)
    assert (len(inside), len(outside)) == (25, 8)
    assert {case.query for case in inside} >= OF_SPECIFICATIONS[True]
    assert {case.query for case in outside} >= OF_SPECIFICATIONS[False]
    for case in inside:
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

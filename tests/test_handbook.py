"""The data set that comes with the project keeps what its README and the metrics promise.

Pages and quotes are read here by hand, without the project's own parser, except where the subject is how they resolve.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from evals.cases.case import Case
from evals.cases.reading import load_golden
from evals.cases.relevance import Relevance, resolve
from evals.config.experiment import DatasetConfig
from retrievers.embedding.tokens import count_tokens
from retrievers.indexing.chunking import DEFAULT_MAX_TOKENS, chunk_page
from retrievers.indexing.pages import read_corpus
from retrievers.records import Chunk

FOLDER = Path(__file__).parents[1] / "datasets" / "physical_ai_handbook"
MODULES = (
    "module-0-foundations",
    "module-1-ros2",
    "module-2-digital-twin",
    "module-3-isaac",
    "module-4-vla-humanoids",
)
NEIGHBOURS = {
    "module-1-ros2": ("topics", "services", "actions"),
    "module-2-digital-twin": ("urdf", "sdf"),
    "module-0-foundations": (
        "forward-kinematics",
        "inverse-kinematics",
        "imu",
        "force-torque-sensors",
        "joint-encoders",
    ),
}
IN_SCOPE_TYPES = {"factual", "conceptual", "procedural", "comparison", "keyword", "colloquial", "misspelt"}
HEADING = re.compile(r"(#{1,6}) (.+)")


@dataclass(frozen=True)
class HandPage:
    """A page cut at its headings by a few lines of code that know fences and nothing else."""

    name: str
    matter: dict[str, Any]
    body: str
    sections: list[tuple[str, str]] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    prose: list[str] = field(default_factory=list)
    levels: list[int] = field(default_factory=list)

    @property
    def address(self) -> str:
        return "/docs/" + self.name.rsplit(".", 1)[0]


def normal(text: str) -> str:
    return " ".join(text.split())


def read_page(file: Path) -> HandPage:
    _, matter, body = file.read_text(encoding="utf-8").split("---\n", 2)
    page = HandPage(file.relative_to(FOLDER / "docs").as_posix(), yaml.safe_load(matter), body)
    heading, lines, in_code = page.matter["title"], list[str](), False
    for line in body.split("\n"):
        fence = line.lstrip().startswith("```")
        found = None if in_code or fence else HEADING.fullmatch(line)
        if found:
            page.sections.append((heading, normal("\n".join(lines))))
            page.levels.append(len(found[1]))
            heading, lines = found[2].replace("`", ""), []
        else:
            lines.append(line)
            (page.code if in_code else page.prose).append("" if fence else line)
        in_code ^= fence
    page.sections.append((heading, normal("\n".join(lines))))
    return page


@cache
def pages() -> dict[str, HandPage]:
    files = sorted((FOLDER / "docs").rglob("*.md*"))
    return {page.address: page for page in map(read_page, files)}


@cache
def cases() -> tuple[Case, ...]:
    return load_golden(DatasetConfig.model_validate({"path": FOLDER / "golden.jsonl"})).cases


def in_scope() -> list[Case]:
    return [case for case in cases() if case.in_scope]


def out_of_scope() -> list[Case]:
    return [case for case in cases() if not case.in_scope]


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def fours(text: str) -> set[tuple[str, ...]]:
    found = words(text)
    return set(zip(found, found[1:], found[2:], found[3:], strict=False))


class TestPages:
    def test_there_are_five_modules_of_pages(self) -> None:
        found = Counter(page.name.split("/")[0] for page in pages().values())
        assert set(found) == set(MODULES)
        assert min(found.values()) >= 6
        assert len(pages()) >= 30

    def test_prose_has_at_least_20_000_words(self) -> None:
        assert sum(len(normal(" ".join(page.prose)).split()) for page in pages().values()) >= 20_000

    def test_front_matter_has_title_position_and_tags(self) -> None:
        for page in pages().values():
            assert isinstance(page.matter["title"], str) and page.matter["title"]
            assert isinstance(page.matter["sidebar_position"], int)
            assert len(page.matter["tags"]) >= 2 and all(isinstance(tag, str) for tag in page.matter["tags"])

    @pytest.mark.parametrize(("module", "names"), NEIGHBOURS.items())
    def test_neighbours_that_a_weak_retriever_confuses_are_there(self, module: str, names: tuple[str, ...]) -> None:
        assert {f"/docs/{module}/{name}" for name in names} <= set(pages())

    def test_code_holds_comments_that_look_like_headings(self) -> None:
        with_comments = [page for page in pages().values() if any(HEADING.fullmatch(line) for line in page.code)]
        assert len(with_comments) >= 15

    @pytest.mark.parametrize(("mark", "least"), [("|", 15), (":::", 15), ("<Tabs>", 1), ("import ", 1)])
    def test_tables_admonitions_and_mdx_occur(self, mark: str, least: int) -> None:
        assert sum(any(line.startswith(mark) for line in page.prose) for page in pages().values()) >= least

    def test_no_section_is_written_twice(self) -> None:
        texts = [text for page in pages().values() for _, text in page.sections if len(text) > 80]
        assert len(set(texts)) == len(texts)


class TestPagesAsRead:
    """Return the project's own parse of the pages, to compare with the hand-made reading."""

    def test_no_page_is_broken_and_addresses_agree(self) -> None:
        corpus = read_corpus(FOLDER / "docs")
        assert corpus.faults == ()
        assert {page.source_url for page in corpus.pages} == set(pages())

    def test_headings_agree(self) -> None:
        for page in read_corpus(FOLDER / "docs").pages:
            with_text = [heading for heading, text in pages()[page.source_url].sections if text]
            heads = [section.path[-1] if section.path else page.title for section in page.sections]
            assert heads == [heading for heading in with_text if heading in heads]
            assert set(with_text) - set(heads) == set()

    def test_no_prose_is_lost(self) -> None:
        for address, found in chunks_by_page().items():
            lines = [line for line in pages()[address].prose if not line.startswith(("import ", "<", "#"))]
            chunked = Counter(word for chunk in found for word in chunk.text.split())
            assert not Counter(" ".join(lines).split()) - chunked


@cache
def chunks() -> tuple[Chunk, ...]:
    corpus = read_corpus(FOLDER / "docs")
    return tuple(chunk for page in corpus.pages for chunk in chunk_page(page, DEFAULT_MAX_TOKENS, count_tokens))


def chunks_by_page() -> dict[str, list[Chunk]]:
    found: dict[str, list[Chunk]] = {}
    for chunk in chunks():
        found.setdefault(chunk.source_url or "", []).append(chunk)
    return found


@cache
def relevance() -> dict[str, Relevance]:
    return resolve(cases(), chunks(), {})


class TestGoldenQueries:
    def test_ids_and_queries_are_unique(self) -> None:
        assert len({case.id for case in cases()}) == len(cases())
        assert len({" ".join(words(case.query)) for case in cases()}) == len(cases())

    def test_at_least_80_are_in_scope_and_40_of_them_span_three_sections(self) -> None:
        spread = [len({(e.source_url, e.heading) for e in case.evidence}) for case in in_scope()]
        assert len(spread) >= 80
        assert sum(sections >= 3 for sections in spread) >= 40

    def test_every_type_is_in_both_splits(self) -> None:
        for split in ("dev", "test"):
            found = Counter(case.query_type for case in in_scope() if case.split == split)
            assert set(found) == IN_SCOPE_TYPES
            assert min(found.values()) >= 5

    def test_out_of_scope_are_general_and_near_the_domain(self) -> None:
        found = Counter(case.query_type for case in out_of_scope())
        assert set(found) == {"general", "near_domain"}
        assert found["general"] >= 8
        assert found["near_domain"] >= 16

    @pytest.mark.parametrize("kind", ["in scope", "general", "near_domain"])
    def test_half_is_dev_and_half_is_test(self, kind: str) -> None:
        chosen = [case for case in cases() if kind in ("in scope" if case.in_scope else "", case.query_type)]
        found = Counter(case.split for case in chosen)
        assert set(found) == {"dev", "test"}
        assert found["dev"] == found["test"]

    def test_in_scope_has_an_answer_and_evidence_of_the_highest_grade(self) -> None:
        for case in in_scope():
            assert case.reference_answer and len(case.reference_answer.split()) >= 5
            assert {evidence.grade for evidence in case.evidence} <= {1, 2, 3}
            assert max(evidence.grade for evidence in case.evidence) == 3

    def test_no_evidence_is_named_twice_in_a_case(self) -> None:
        for case in in_scope():
            named = [(e.source_url, e.heading, normal(e.quote or "")) for e in case.evidence]
            assert len(set(named)) == len(named), case.id

    def test_queries_that_share_all_best_evidence_are_in_one_split(self) -> None:
        splits: dict[frozenset[tuple[str | None, str | None]], set[str | None]] = {}
        for case in in_scope():
            best = frozenset((e.source_url, e.quote) for e in case.evidence if e.grade == 3)
            splits.setdefault(best, set()).add(case.split)
        assert all(len(found) == 1 for found in splits.values())

    def test_every_module_is_asked_about_in_both_splits(self) -> None:
        best = [(e.source_url or "", case.split) for case in in_scope() for e in case.evidence if e.grade == 3]
        asked = {(url.split("/")[2], split) for url, split in best}
        assert asked == {(module, split) for module in MODULES for split in ("dev", "test")}


class TestEvidence:
    def items(self) -> Iterator[tuple[str, str, str, str]]:
        for case in in_scope():
            for evidence in case.evidence:
                assert evidence.source_url and evidence.heading and evidence.quote, case.id
                yield case.id, evidence.source_url, evidence.heading, normal(evidence.quote)

    def test_quotes_are_verbatim_under_their_heading(self) -> None:
        wrong = [
            (case_id, heading, quote)
            for case_id, address, heading, quote in self.items()
            if not any(name == heading and quote in text for name, text in pages()[address].sections)
        ]
        assert wrong == []

    def test_quotes_are_long_enough_to_name_one_place(self) -> None:
        for case_id, address, _, quote in self.items():
            assert len(quote.split()) >= 4, case_id
            assert normal(pages()[address].body).count(quote) == 1, (case_id, quote)

    def test_no_four_words_of_a_query_in_a_row_stand_in_its_evidence(self) -> None:
        copied = [
            (case.id, " ".join(run))
            for case in in_scope()
            for evidence in case.evidence
            for run in fours(case.query) & fours(evidence.quote or "")
        ]
        assert copied == []

    def test_resolves_in_the_default_chunking_to_one_chunk_each(self) -> None:
        for case in in_scope():
            assert [len(holders) for holders in relevance()[case.id].items] == [1] * len(case.evidence)

    def test_resolves_to_the_chunk_that_holds_most_of_the_quote(self) -> None:
        by_id = {chunk.chunk_id: chunk for chunk in chunks()}
        for case in in_scope():
            for evidence, (holder,) in zip(case.evidence, relevance()[case.id].items, strict=True):
                chunk, quote = by_id[holder], normal(evidence.quote or "")
                assert (chunk.source_url, chunk.heading) == (evidence.source_url, evidence.heading)
                assert quote in normal(chunk.text) or any(
                    quote[i : i + len(quote) // 2] in normal(chunk.text) for i in range(len(quote) // 2 + 1)
                )

    def test_a_perfect_retrieval_meets_every_expectation_of_a_case(self) -> None:
        by_id = {chunk.chunk_id: chunk for chunk in chunks()}
        for case in in_scope():
            relevant = [by_id[chunk_id] for chunk_id in relevance()[case.id].grades]
            text = normal(" ".join(f"{c.text} {c.section_path} {' '.join(c.tags or ())}" for c in relevant)).lower()
            assert [topic for topic in case.expected_topics if topic.lower() not in text] == [], case.id
            assert len(relevant) >= case.min_results, case.id
            if case.source_url_pattern:
                assert any(re.search(case.source_url_pattern, c.source_url or "") for c in relevant), case.id


class TestReadme:
    def readme(self) -> str:
        return normal((FOLDER / "README.md").read_text(encoding="utf-8"))

    def test_states_the_numbers_of_the_data(self) -> None:
        spread = sum(len({(e.source_url, e.heading) for e in case.evidence}) >= 3 for case in in_scope())
        kinds = Counter(case.query_type for case in out_of_scope())
        for statement in (
            f"{len(pages())} pages",
            f"{len(cases())} queries",
            f"{len(in_scope())} in scope",
            f"{spread} of them with evidence in three or more sections",
            f"{len(out_of_scope())} out of scope ({kinds['general']} of general knowledge, {kinds['near_domain']} near",
        ):
            assert statement in self.readme()


def test_golden_file_is_one_json_object_a_line() -> None:
    lines = (FOLDER / "golden.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(cases())
    assert all(isinstance(json.loads(line), dict) for line in lines)

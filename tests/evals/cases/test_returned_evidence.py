"""Relevance where the chunks cannot be listed, against that of a listed collection."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evals.cases.case import Case
from evals.cases.pages import SourcePages, Sources
from evals.cases.reading import load_golden
from evals.cases.relevance import UNLISTED, Relevance, check_evidence, resolve, resolve_returned
from evals.cases.web_pages import WebPages
from evals.config.experiment import DatasetConfig
from evals.errors import DatasetError, ExperimentError
from evals.metrics.ranking import MEASURES
from retrievers.embedding.tokens import count_tokens
from retrievers.indexing.chunking import chunk_page
from retrievers.indexing.pages import read_corpus
from retrievers.records import Chunk
from tests.support.observed import observe, results
from tests.support.scored import on_list, scorer

hit_rate, precision, reciprocal_rank = (on_list(MEASURES[name].measure) for name in ("hit_rate", "precision", "mrr"))
PAGE = "/docs/a"
QUOTE = "the base frame is fixed to the torso of the robot"


def chunk(name: str, text: str, **fields: Any) -> Chunk:
    values = {"source_url": PAGE, "section_path": "Frames", "heading": "Frames", **fields}
    return Chunk(chunk_id=name, point_id=name, text=text, **values)


def case(*evidence: dict[str, Any], **values: Any) -> Case:
    return Case.model_validate({"id": "q", "query": "q", "evidence": list(evidence), **values})


def passage(quote: str | None = QUOTE, heading: str | None = None, grade: int = 1, page: str = PAGE) -> dict[str, Any]:
    return {"source_url": page, "quote": quote, "heading": heading, "grade": grade}


def found(one: Case, *chunks: Chunk, sources: Sources | None = None) -> Relevance:
    return resolve_returned([one], {"q": chunks}, sources)["q"]


A, B = chunk("a", f"Now: {QUOTE}."), chunk("b", "Something else.")


def test_a_returned_chunk_that_holds_half_of_the_quote_is_relevant() -> None:
    half = chunk("h", QUOTE[: len(QUOTE) // 2 + 1])
    less = chunk("l", QUOTE[: len(QUOTE) // 2 - 1])
    assert found(case(passage(grade=3)), A, B, half, less) == Relevance(
        grades={"a": 3, "h": 3}, items=(frozenset("ah"),), incomplete=UNLISTED
    )


def test_where_none_holds_half_none_is_relevant_though_one_holds_most() -> None:
    """Check that a chunk with less than half of the quote is not relevant, since other chunks are unknown."""
    less = chunk("l", QUOTE[: len(QUOTE) // 2 - 1])
    assert found(case(passage()), less) == Relevance(items=(frozenset(),), incomplete=UNLISTED)


def test_an_item_that_did_not_come_back_counts_as_not_found() -> None:
    relevance = found(case(passage(), passage("another passage of the page")), A)
    recall = scorer("ranking/evidence_recall_at_5")
    assert recall(observe(results("a"), relevance.grades, items=relevance.items)) == 0.5
    assert recall(observe((), relevance.grades, items=relevance.items, candidates=results("a"))) == 0.0


def test_a_quote_counts_on_its_own_page_alone() -> None:
    assert found(case(passage()), replace(A, source_url="/docs/b")).grades == {}


def test_the_highest_grade_counts() -> None:
    relevance = found(case(passage(grade=1), passage("Now: the base frame", grade=3)), A)
    assert (relevance.grades, relevance.items) == ({"a": 3}, (frozenset("a"), frozenset("a")))


@pytest.mark.parametrize(("heading", "ids"), [("Frames", "ab"), ("Joints", "c"), ("Arms", "c"), ("Legs", "")])
def test_without_a_quote_the_chunks_under_the_heading_are_relevant(heading: str, ids: str) -> None:
    joints = chunk("c", "On joints.", section_path="Arms > Joints", heading="Joints")
    assert set(found(case(passage(None, heading)), A, B, joints).grades) == set(ids)


def test_labelled_ids_are_taken_as_they_are_and_are_all_there_are() -> None:
    one = case(relevant_ids={"x": 2, "y": 0})
    assert found(one, A) == Relevance(grades={"x": 2}, items=(frozenset("x"),), irrelevant=frozenset("y"))
    both = case(passage(), relevant_ids={"x": 2})
    assert found(both, A) == Relevance(grades={"x": 2, "a": 1}, items=(frozenset("x"), frozenset("a")),
                                       incomplete=UNLISTED)  # fmt: skip


def test_a_query_out_of_scope_has_nothing_relevant_and_nothing_unknown() -> None:
    assert found(case(in_scope=False), A) == Relevance()


def test_nothing_returned_is_nothing_found() -> None:
    assert found(case(passage())) == Relevance(items=(frozenset(),), incomplete=UNLISTED)


class TestMetadata:
    def test_documents_that_do_not_say_their_page_are_a_fault(self) -> None:
        with pytest.raises(ExperimentError, match=r"case 'q'.*metadata.map \{source_url: KEY\}"):
            found(case(passage()), replace(A, source_url=None))

    def test_one_that_does_is_enough_and_the_others_count_as_not_relevant(self) -> None:
        assert found(case(passage()), replace(A, source_url=None), B).grades == {}

    def test_labelled_ids_need_no_page(self) -> None:
        assert found(case(relevant_ids={"a": 1}), replace(A, source_url=None)).grades == {"a": 1}

    def test_headings_alone_need_documents_that_name_theirs(self) -> None:
        bare = replace(A, section_path=None, heading=None)
        with pytest.raises(ExperimentError, match=r"a heading and no quote \(case 'q'\).*or sources.dir"):
            found(case(passage(None, "Frames")), bare)
        assert set(found(case(passage(QUOTE, "Frames")), bare).grades) == {"a"}


TEXT = f"# A page\n\n{QUOTE}\n\n## Joints\n\nJoints have encoders, and encoders have indices.\n"


@pytest.fixture
def sources(tmp_path: Path) -> SourcePages:
    (tmp_path / "a.md").write_text(TEXT)
    return SourcePages.read(tmp_path, "/docs")


class TestPages:
    JOINTS = "Joints have encoders, and encoders have indices."

    def test_tell_page_and_heading_of_a_document_that_does_not(self, sources: SourcePages) -> None:
        by_file = Chunk(chunk_id="f", point_id="f", text=self.JOINTS, file_path="a.md")
        by_url = replace(by_file, chunk_id="u", file_path=None, source_url=PAGE)
        one = case(passage(None, "Joints"))
        assert set(found(one, by_file, by_url, sources=sources).grades) == {"f", "u"}
        assert found(case(passage(None, "Legs")), by_file, sources=sources).grades == {}

    def test_do_not_overrule_what_a_document_says(self, sources: SourcePages) -> None:
        own = chunk("o", self.JOINTS, section_path="Other", heading="Other")
        assert found(case(passage(None, "Joints")), own, sources=sources).grades == {}

    def test_a_text_that_is_on_no_page_has_no_heading(self, sources: SourcePages) -> None:
        unknown = Chunk(chunk_id="x", point_id="x", text="made up", source_url=PAGE)
        elsewhere = replace(unknown, source_url="/docs/none")
        with pytest.raises(ExperimentError, match="under which heading"):
            found(case(passage(None, "Joints")), unknown, elsewhere, sources=sources)

    def test_of_a_site_are_not_asked_for_without_an_address(self) -> None:
        site = WebPages(["127.0.0.1:1"], "http://127.0.0.1:1")  # nothing answers there
        assert found(case(passage()), A, replace(A, source_url=None), sources=site).grades == {"a": 1}

    def test_hold_the_evidence(self, sources: SourcePages) -> None:
        check_evidence([case(passage(), passage(None, "Joints"), passage(TEXT[30:70]))], sources, {})

    @pytest.mark.parametrize(
        ("evidence", "said"),
        [
            (passage(page="/docs/b"), "the sources have no page '/docs/b'"),
            (passage("nothing that stands on this page in any way"), "'/docs/a' does not hold the quote 'nothing that"),
            (passage(None, "Legs"), "'/docs/a' has no heading 'Legs'"),
        ],
    )
    def test_evidence_that_is_not_in_them_is_listed(
        self, sources: SourcePages, evidence: dict[str, Any], said: str
    ) -> None:
        with pytest.raises(DatasetError) as caught:
            check_evidence([case(passage(), evidence)], sources, {"q": "golden.jsonl:7"})
        assert caught.value.faults == (f"golden.jsonl:7: evidence.1: {said}",) or (
            caught.value.faults[0].startswith(f"golden.jsonl:7: evidence.1: {said}") and len(caught.value.faults) == 1
        )


@pytest.mark.slow
def test_on_the_handbook_nothing_looks_better_than_it_does_in_a_listed_collection(handbook: Path) -> None:
    """Random results: what is relevant, found, and at which rank, is never more than with all chunks at hand."""
    chunks = [c for p in read_corpus(handbook / "docs", "/docs").pages for c in chunk_page(p, 32, count_tokens)]
    golden = load_golden(DatasetConfig(path=handbook / "golden.jsonl"))
    listed = resolve(golden.cases, chunks, golden.places)
    rng = random.Random(3)
    by_id = {one.chunk_id: one for one in chunks}
    same = better = 0
    for one in (c for c in golden.cases if c.in_scope):
        relevant = sorted(listed[one.id].grades)
        for _ in range(3):
            ids = rng.sample(relevant, rng.randint(0, len(relevant))) + rng.sample(sorted(by_id), 5)
            ids = list(dict.fromkeys(rng.sample(ids, len(ids))))
            full, part = listed[one.id], found_among(one, [by_id[i] for i in ids])
            assert part.grades.items() <= full.grades.items()
            assert len(part.items) == len(full.items)
            for k in (1, 3, 5):
                for measure in (hit_rate, precision, reciprocal_rank):
                    mine, theirs = measure(ids, part.grades, k), measure(ids, full.grades, k)
                    assert mine <= theirs
                    same, better = same + (mine == theirs), better + (mine < theirs)
    assert same > 5 * better > 0


def found_among(one: Case, chunks: list[Chunk]) -> Relevance:
    return resolve_returned([one], {one.id: chunks}, None)[one.id]

from pathlib import Path

import pytest

from evals.cases.case import Case, Evidence
from evals.cases.reading import load_golden
from evals.config.experiment import DatasetConfig
from retrievers.embedding.tokens import count_tokens
from retrievers.indexing.chunking import chunk_page
from retrievers.indexing.pages import read_corpus
from retrievers.records import Chunk
from tests.support.golden_labels import golden_labels, sentences
from tests.support.judging import Labels


def chunk(name: str, text: str) -> Chunk:
    return Chunk(chunk_id=name, point_id=name, text=text, source_url="/docs/page")


FIRST, SECOND, THIRD = chunk("a", "A topic is a bus."), chunk("b", "A service answers once."), chunk("c", "Unrelated.")


def case(**values: object) -> Case:
    return Case.model_validate({"id": "x", "query": "What is a topic?"} | values)


def test_statements_go_to_the_items_of_evidence_in_turn() -> None:
    evidence = [Evidence(source_url="/docs/page", quote=one.text).model_dump() for one in (FIRST, SECOND)]
    asked = case(reference_answer="It is a bus. It is no service! Is it?", evidence=evidence)
    assert golden_labels([asked], [FIRST, SECOND, THIRD]) == {
        asked.query: Labels(
            useful={FIRST.text, SECOND.text},
            claims={"It is a bus.": [FIRST.text], "It is no service!": [SECOND.text], "Is it?": [FIRST.text]},
        )
    }


def test_a_case_without_evidence_or_reference() -> None:
    assert golden_labels([case(in_scope=False)], [FIRST]) == {"What is a topic?": Labels(useful=set(), claims={})}
    assert golden_labels([], []) == {}


@pytest.mark.parametrize(
    ("text", "parts"), [("", []), ("One", ["One"]), ("At 0.5 m. Or at 3.\nYes?", ["At 0.5 m.", "Or at 3.", "Yes?"])]
)
def test_sentences(text: str, parts: list[str]) -> None:
    assert sentences(text) == parts


def test_every_statement_of_the_handbook_has_its_label(handbook: Path) -> None:
    cases = load_golden(DatasetConfig(path=str(handbook / "golden.jsonl"))).cases
    pages = read_corpus(handbook / "docs").pages
    labels = golden_labels(cases, [one for page in pages for one in chunk_page(page, 256, count_tokens)])
    in_scope = [case for case in cases if case.in_scope]
    assert len(in_scope) == 132
    for case in in_scope:
        known = labels[case.query]
        assert known.useful
        assert " ".join(known.claims) == " ".join((case.reference_answer or "").split())
        assert all(known.claims.values())

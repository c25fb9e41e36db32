"""Queries encoded for the sides that are searched; `check_query` and the vectors are tested with the retriever."""

from typing import Any

import pytest

from retrievers.embedding.bm25 import Bm25Encoder
from retrievers.search.query import Encoded, encode
from tests.support.collections import settings

ENCODER = Bm25Encoder()
SYNONYMS = {"bus": ["topic", "message broker"]}
VECTOR = [0.6, 0.8]


def encoded(query: str, **values: Any) -> Encoded:
    return encode(query, VECTOR, settings(**values), ENCODER)


def test_by_meaning_alone_a_query_has_no_terms() -> None:
    assert encoded("a bus", keyword={"synonyms": SYNONYMS}) == {"semantic": VECTOR}


@pytest.mark.parametrize("mode", ["keyword", "hybrid"])
def test_synonyms_join_the_terms_of_the_query(mode: str) -> None:
    found = encoded("a bus", mode=mode, keyword={"synonyms": SYNONYMS, "synonym_weight": 0.25})
    assert found == {"semantic": VECTOR, "keyword": ENCODER.query("a bus", ["topic", "message broker"], 0.25)}


def test_as_a_list_of_their_own_they_leave_the_terms_alone() -> None:
    keyword = {"synonyms": SYNONYMS, "synonym_weight": 0.25, "expansion": "list"}
    found = encoded("a bus", mode="hybrid", rerank="rrf", keyword=keyword)
    assert found["keyword"] == ENCODER.query("bus")
    assert found["expanded"] == ENCODER.query("bus", ["topic", "message broker"], 0.25)


@pytest.mark.parametrize(
    ("query", "synonyms"),
    [
        ("a train", SYNONYMS),
        ("a bus and a topic", {"bus": ["topics"]}),  # the same stem: there is nothing to add
        ("a bus", {"bus": ["the", "of"]}),  # stop words
        ("", SYNONYMS),
    ],
)
def test_a_query_that_is_not_expanded_has_no_such_list(query: str, synonyms: dict[str, list[str]]) -> None:
    keyword = {"synonyms": synonyms, "expansion": "list"}
    found = encoded(query, mode="hybrid", rerank="rrf", keyword=keyword)
    assert found == {"semantic": VECTOR} | ({"keyword": ENCODER.query(query)} if query else {})

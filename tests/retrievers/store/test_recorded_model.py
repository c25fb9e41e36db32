from typing import Any

import pytest

from retrievers.config import EmbeddingConfig
from retrievers.search.query import cache_key
from retrievers.store.recorded_model import other_model, settings_of

MODEL = {"model": "openai:small"}


def config(**values: Any) -> EmbeddingConfig:
    return EmbeddingConfig.model_validate({**MODEL, **values})


@pytest.mark.parametrize("values", [{}, {"dimensions": 256, "query_prefix": "q: "}, {"options": {"user": "a"}}])
def test_a_collection_is_searched_by_what_embedded_it(values: dict[str, Any]) -> None:
    recorded = {**config(**values).identity, "dimension": 256}
    assert other_model(config(**values, timeout_s=5, base_url="http://localhost:8000"), recorded) is None


@pytest.mark.parametrize(
    ("then", "now", "told", "settings"),
    [
        ({}, {"model": "cohere:new"}, ("openai:small", "cohere:new"), "embedding.provider and embedding.model"),
        (
            {"dimensions": 256},
            {},
            ("openai:small with dimensions 256", "openai:small with dimensions None"),
            "embedding.dimensions",
        ),
        (
            {"document_prefix": "passage: "},
            {"query_prefix": "query: ", "document_prefix": "p: "},
            (
                "openai:small with query_prefix None, document_prefix 'passage: '",
                "openai:small with query_prefix 'query: ', document_prefix 'p: '",
            ),
            "embedding.query_prefix and embedding.document_prefix",
        ),
    ],
)
def test_another_model_prefix_or_length_is_told(
    then: dict[str, Any], now: dict[str, Any], told: tuple[str, str], settings: str
) -> None:
    recorded = {**config(**then).identity, "dimension": 1536}
    assert other_model(config(**now), recorded) == told
    assert settings_of(config(**now), recorded) == settings


@pytest.mark.parametrize("before", [True, False], ids=["recorded by an earlier version", "recorded now"])
def test_how_a_model_runs_makes_it_no_other_one(before: bool) -> None:
    run = {"encode_kwargs": {"batch_size": 8}, "model_kwargs": {"device": "cuda"}}
    local = {"model": "huggingface:all-MiniLM-L6-v2"}
    indexed = EmbeddingConfig.model_validate({**local, "options": run})
    recorded = indexed.identity | ({"options": run} if before else {})
    assert other_model(EmbeddingConfig.model_validate(local), recorded) is None
    assert other_model(indexed, EmbeddingConfig.model_validate(local).identity) is None
    normalised = {**run, "encode_kwargs": {"batch_size": 8, "normalize_embeddings": False}}
    other = other_model(EmbeddingConfig.model_validate({**local, "options": normalised}), recorded)
    assert other and other[1].endswith("with options {'encode_kwargs': {'normalize_embeddings': False}}")


def test_query_vectors_are_cached_under_all_that_decides_about_them() -> None:
    own_server = {"base_url": "http://localhost:8000"}
    others: list[dict[str, Any]] = [{}, {"query_prefix": "q: "}, {"dimensions": 8}, {"max_tokens": 5}, own_server]
    assert len({cache_key(config(**values)) for values in others}) == len(others)
    assert cache_key(config(timeout_s=5)) == cache_key(config()) == ("openai", "small", "search_query")

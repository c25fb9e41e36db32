from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from retrievers.config import EmbeddingConfig, MetadataConfig, RetrieverConfig, StoreConfig, dump
from tests.support.collections import settings


def test_the_defaults_are_the_documented_ones() -> None:
    config = settings()
    assert (config.top_k, config.threshold, config.candidates, config.mode) == (5, 0.3, 100, "semantic")
    assert (config.store.url, config.store.path) == (None, None)
    assert (config.embedding.provider, config.embedding.resolved_model) == ("wordllama", "l2_supercat_256")


@pytest.mark.parametrize(
    "values",
    [
        {"top_k": 1},
        {"top_k": 100},
        {"threshold": 0},
        {"threshold": 1},
        {"top_k": 7, "candidates": 7},
        {"collection": "c" * 255},
        {"collection": "Handbuch für Roboter"},
        {"store": {"timeout_s": 0.1}},
    ],
)
def test_limits_are_inclusive(values: dict[str, Any]) -> None:
    assert settings(**values).model_dump(include=set(values), exclude_unset=True) == values


@pytest.mark.parametrize(
    ("values", "setting"),
    [
        ({"top_k": 0}, "top_k"),
        ({"top_k": 101}, "top_k"),
        ({"top_k": 2.5}, "top_k"),
        ({"threshold": -0.01}, "threshold"),
        ({"threshold": 1.01}, "threshold"),
        ({"threshold": float("nan")}, "threshold"),
        ({"candidates": 0}, "candidates"),
        ({"mode": "fuzzy"}, "mode"),
        ({"store": {"timeout_s": 0}}, "store.timeout_s"),
        ({"store": {"timeout_s": float("inf")}}, "store.timeout_s"),
        ({"embedding": {"timeout_s": float("nan")}}, "embedding.timeout_s"),
        ({"embedding": {"provider": "openai"}}, "embedding.provider"),
        ({"embedding": {"provider": "python"}}, "embedding"),
        ({"embedding": {"provider": "python", "model": "my_module"}}, "embedding"),
        ({"store": {"path": "a", "url": "http://h"}}, "store"),
        ({"top_k": 6, "candidates": 5}, ""),
        ({"colection": "x"}, "colection"),
    ],
)
def test_what_is_out_of_range_or_unknown_is_refused(values: dict[str, Any], setting: str) -> None:
    with pytest.raises(ValidationError) as caught:
        settings(**values)
    assert [".".join(map(str, fault["loc"])) for fault in caught.value.errors()] == [setting]


@pytest.mark.parametrize(
    "name", ["", "  ", ".", "..", "../x", "a/b", "a\\b", "a:b", 'a"b', "a?b", "a*b", "a|b", "<a>", "a\nb", "c" * 256]
)
def test_a_collection_needs_a_name_that_qdrant_takes(name: str) -> None:
    with pytest.raises(ValidationError):
        settings(collection=name)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("http://localhost:6333", "http://localhost:6333"),
        ("https://xyz.cloud.qdrant.io/", "https://xyz.cloud.qdrant.io"),
        ("http://[::1]:6333", "http://[::1]:6333"),
        ("http://host/prefix/", "http://host/prefix"),
    ],
)
def test_an_address_is_kept_without_its_last_slash(given: str, kept: str) -> None:
    assert StoreConfig.model_validate({"url": given}).url == kept
    assert EmbeddingConfig.model_validate({"base_url": given}).base_url == kept


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("localhost:6333", "expected an http:// or https:// address"),
        ("ftp://host", "expected an http:// or https:// address"),
        ("http://", "expected an http:// or https:// address"),
        ("http://ho st", "expected an http:// or https:// address"),
        ("", "expected an http:// or https:// address"),
        ("http://host:99999", "the port is not a number from 0 to 65535"),
        ("http://host:abc", "the port is not a number from 0 to 65535"),
        ("http://[bad", "Invalid IPv6 URL"),
        ("http://user:secret@host", "must not carry credentials"),
        ("http://secret@host", "must not carry credentials"),
        ("http://host?api_key=secret", "must not carry credentials"),
    ],
)
def test_an_address_that_is_none_or_carries_a_secret_is_refused(address: str, message: str) -> None:
    for model, name in ((StoreConfig, "url"), (EmbeddingConfig, "base_url")):
        with pytest.raises(ValidationError, match=message):
            model.model_validate({name: address})


@pytest.mark.parametrize(
    ("provider", "model", "resolved"),
    [
        ("wordllama", None, "l2_supercat_256"),
        ("cohere", None, "embed-english-v3.0"),
        ("cohere", "embed-english-light-v3.0", "embed-english-light-v3.0"),
        ("python", "my.module:make", "my.module:make"),
    ],
)
def test_a_provider_has_its_default_model(provider: str, model: str | None, resolved: str) -> None:
    assert EmbeddingConfig.model_validate({"provider": provider, "model": model}).resolved_model == resolved


def test_the_metadata_setting_knows_aliases_and_drops_repetitions() -> None:
    config = MetadataConfig.model_validate(
        {
            "map": {"url": "href", "document_id": "doc", "title": "name"},
            "required": ["url", "source_url", "document_section", "vector_id", "text", "chunk_text_preview"],
        }
    )
    assert config.map == {"source_url": "href", "source_document_id": "doc", "title": "name"}
    assert config.required == ("source_url", "section_path", "point_id", "text", "chunk_text_preview")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"map": {"sorce_url": "x"}}, "'sorce_url' is not a field of a chunk; did you mean 'source_url'"),
        ({"map": {"point_id": "x"}}, "'point_id' is not a field"),
        ({"map": {"text": "x"}}, "'text' is not a field"),
        ({"required": ["titel"]}, "'titel' is not a field of a chunk; did you mean 'title'"),
        ({"required": ["problems"]}, "'problems' is not a field"),
    ],
)
def test_a_name_that_is_no_field_is_refused_with_the_nearest(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        MetadataConfig.model_validate(values)


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        settings().top_k = 7  # type: ignore[misc]


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "top_k": st.integers(1, 100),
            "threshold": st.floats(0, 1),
            "store": st.sampled_from([{"path": "a/b"}, {"url": "http://h:1"}, {}]),
            "embedding": st.sampled_from([{"provider": "cohere"}, {"provider": "python", "model": "a:b"}]),
            "metadata": st.fixed_dictionaries(
                {}, optional={"map": st.just({"url": "href"}), "required": st.just(["title"])}
            ),
            "vector_name": st.text(max_size=5),
        },
    )
)
def test_dumped_settings_are_read_back_the_same(values: dict[str, Any]) -> None:
    config = settings(**values)
    assert dump(RetrieverConfig.model_validate(dump(config))) == dump(config)
    assert not any(isinstance(value, Path) for value in dump(config)["store"].values())
